//! The way from here to the cloud, and what the cloud leaves to the leader.

use ccm_e2e::host::{component, until};
use ccm_sim_digitalocean::{Act, Fault, Requests, TOKEN, When};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value, json};

use super::{Answer, asked_in, doctor};
use crate::cloud as scripted;
use crate::digitalocean::{Cloud, members, start};
use crate::service_look::{await_served, serve};
use crate::stage::{LIMIT, RIVAL, Stage};

/// The one finding that is wrong, by its check; its object, text and fix.
fn only_wrong<'a>(answer: &'a Answer, check: &str) -> [&'a str; 3] {
    let wrong = answer.of(check).into_iter().filter(|finding| finding["judgement"] == "wrong");
    let all: Vec<&Value> = wrong.collect();
    let [finding] = all.as_slice() else { panic!("{check}: {}", answer.text) };
    [&finding["objects"][0], &finding["found"], &finding["fix"]].map(|part| part.as_str().unwrap())
}

/// All of it was once one line that said "DNS, firewall, proxy, and the CA".
// The API server answers while the program is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_stands_in_the_way_to_the_cloud_is_told_once_and_by_its_name() {
    let stage = Stage::new().await;
    let component = component("providers/digitalocean.wasm").unwrap();
    let provider = format!("--provider={}", component.display());
    let token = stage.file("token", "dop_v1_nobody_knows_this_one");
    let token = format!("--credential=access-token=file:{}", token.display());
    let kubeconfig = format!("--kubeconfig={}", stage.cluster.kubeconfig().display());
    let own = [
        kubeconfig.as_str(),
        &provider,
        &token,
        "--cloud-provider=digitalocean",
        "--allow-http",
        "--allow-loopback",
        "--online",
        "--limit=call-time=3s",
    ];
    // The API server is a server of an authority that nobody knows.
    let stranger = format!("--endpoint=api={}", stage.cluster.url());
    let environment = [("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "b.example")];
    let excepting = [("HTTPS_PROXY", "http://127.0.0.1:1"), ("NO_PROXY", "b.invalid")];
    for (environment, flags, check, object, found, fix) in [
        (
            &[][..],
            &["--endpoint=api=http://127.0.0.1:1"][..],
            "endpoints",
            "http://127.0.0.1:1",
            "cannot be reached",
            "--endpoint api=...",
        ),
        (
            &[],
            &["--endpoint=api=https://nowhere.invalid"],
            "dns",
            "https://nowhere.invalid",
            "the name nowhere.invalid does not resolve",
            "/etc/resolv.conf",
        ),
        (
            &[],
            &[&stranger],
            "tls",
            "https://127.0.0.1",
            "no CA of the system signed the certificate that it shows",
            "openssl s_client -showcerts -connect 127.0.0.1:",
        ),
        (
            &[],
            &["--endpoint=api=https://api.example", "--proxy=*=http://127.0.0.1:1"],
            "proxy",
            "https://api.example",
            "(through http://127.0.0.1:1)",
            "CONNECT",
        ),
        (
            &[],
            &["--endpoint=api=https://api.example", "--proxy=api=http://proxy.invalid:1"],
            "dns",
            "https://api.example",
            "it is the proxy http://proxy.invalid:1",
            "--proxy",
        ),
        (
            &environment,
            &["--endpoint=api=https://api.example", "--allow-env=HTTPS_PROXY,NO_PROXY"],
            "proxy",
            "https://api.example",
            "(through http://127.0.0.1:1)",
            "NO_PROXY",
        ),
        // This host is an exception, and its name is asked for here.
        (
            &excepting,
            &["--endpoint=api=https://b.invalid", "--allow-env=HTTPS_PROXY,NO_PROXY"],
            "dns",
            "https://b.invalid",
            "the name b.invalid",
            "the URL",
        ),
    ] {
        let flags = [&own[..], flags].concat();
        let answer = asked_in(environment, &flags);
        let told = only_wrong(&answer, check);
        for (told, part) in told.into_iter().zip([object, found, fix]) {
            assert!(told.contains(part), "{part}: {}", answer.text);
        }
        let (_, unknown) = answer.one("providers", "unjudged");
        assert!(unknown.starts_with("whether the cloud accepts the credentials is not known"), "{unknown}");
        let others = ["dns", "proxy", "tls", "endpoints", "providers"].into_iter().flat_map(|check| answer.of(check));
        assert_eq!(others.filter(|finding| finding["judgement"] == "wrong").count(), 1, "{}", answer.text);
    }

    // Without a request, what the variables of here mean is known as well.
    let offline: Vec<&str> = own.into_iter().filter(|flag| *flag != "--online").collect();
    let of = |environment: &[(&str, &str)], flags: &[&str], judgement: &str| {
        let flags = [&offline[..], &["--endpoint=api=https://api.example"], flags].concat();
        asked_in(environment, &flags).one("proxy", judgement).1
    };
    assert!(of(&[], &[], "good").contains("without a proxy, and none is set here"));
    let withheld = of(&environment, &[], "note");
    assert!(
        withheld.starts_with("HTTPS_PROXY is set here, and the provider may not use it: its requests go without"),
        "{withheld}"
    );
    let through = of(&environment, &["--allow-env=HTTPS_PROXY,NO_PROXY"], "good");
    assert!(through.starts_with("requests go through the proxy http://127.0.0.1:1 (HTTPS_PROXY)"), "{through}");
    let excepted = of(&environment, &["--allow-env=HTTPS_PROXY"], "note");
    assert!(excepted.starts_with("NO_PROXY is set here, and the provider may not use it"), "{excepted}");
    let ignored = of(&[("ALL_PROXY", "http://127.0.0.1:1")], &[], "note");
    assert!(ignored.starts_with("ALL_PROXY is set here, and wasm-ccm never reads it"), "{ignored}");
    // What is of no proxy is told beside its provider.
    let withheld = |flags: &[&str]| {
        let environment = [environment[0], environment[1], ("REGION", "fra1")];
        let flags = [&offline[..], &["--endpoint=api=https://api.example"], flags].concat();
        let answer = asked_in(&environment, &flags);
        let notes = answer.of("providers").into_iter().filter(|finding| finding["judgement"] == "note");
        let notes = notes.map(|note| format!("{}; {}", note["found"].as_str().unwrap(), note["fix"].as_str().unwrap()));
        notes.filter(|note| note.starts_with("set here, and not granted")).collect::<Vec<_>>()
    };
    let told = "set here, and not granted to the provider, which does not see it: REGION (setting `region`); \
                --allow-env=REGION, if the provider is to use it; the component reads the value of a setting: grant REGION only if you know why it wants \
                that";
    assert_eq!(withheld(&[]), [told]);
    assert_eq!(withheld(&["--allow-env=REG*"]), [""; 0]);
    let flags = [&offline[..], &["--endpoint=api=https://api.example", "--allow-env=DO_*"]].concat();
    let answer = asked_in(&[("REGOIN", "fra1"), ("DO_CLUSTERID", "c")], &flags);
    let told = "granted or set here, and no provider reads it: DO_CLUSTERID (did you mean DO_CLUSTER_ID?), REGOIN (did you mean REGION?)";
    let is_told = |finding: &&Value| finding["judgement"] == "note" && finding["found"] == told;
    assert_eq!(answer.of("providers").into_iter().filter(is_told).count(), 1, "{}", answer.text);
}

/// Whoever read it looked for a firewall.
// The cloud answers while the program is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cloud_that_takes_no_more_requests_is_told_as_such_and_with_the_time_that_it_asks_for() {
    let stage = Stage::new().await;
    let cloud = Cloud::calm().await;
    let flags = [
        format!("--provider={}", component("providers/digitalocean.wasm").unwrap().display()),
        format!("--credential=access-token=file:{}", stage.file("token", TOKEN).display()),
        format!("--endpoint=api={}", cloud.url()),
    ];
    let own = ["--cloud-provider=digitalocean", "--allow-http", "--allow-loopback", "--online"];
    let look = |more: &[&str]| {
        let flags: Vec<&str> = flags.iter().map(String::as_str).chain(own).chain(more.iter().copied()).collect();
        doctor(&stage.cluster.kubeconfig(), &flags)
    };
    cloud.plan(Fault {
        of: Requests::All,
        nth: 1,
        times: 100,
        every: 0,
        when: When::Before,
        act: Act::TooMany(Some(42)),
    });
    let answer = look(&[]);
    let [_, found, fix] = only_wrong(&answer, "providers");
    assert!(
        found.contains("the cloud asked for no requests for another")
            && found.contains("(429)")
            && !fix.contains("firewall"),
        "{}",
        answer.text
    );
    assert!(fix.starts_with("wait: the cloud asked for no requests for another 4"), "{fix}");
    assert!(answer.are_all("endpoints", "good"), "it answers: {}", answer.text);
    cloud.unsettled("no host has worked with it");
}

/// Whoever runs it where requests are counted, or logged, is not to be surprised.
// The cloud answers while the program is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_with_online_a_request_leaves_and_then_one_goes_to_each_endpoint_without_a_credential() {
    let stage = Stage::new().await;
    let cloud = scripted::Cloud::start().await;
    let token = stage.file("token", "hunter2-hunter2");
    let own = [
        format!("--provider={}", crate::stage::scripted().display()),
        format!("--credential=token=file:{}", token.display()),
        "--cloud-provider=scripted".to_owned(),
    ];
    let own: Vec<String> = own.into_iter().chain(cloud.flags()).collect();
    let look = |more: &[&str]| {
        let flags: Vec<&str> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
        doctor(&stage.cluster.kubeconfig(), &flags)
    };
    let answer = look(&[]);
    assert_eq!(cloud.seen(), [""; 0], "{}", answer.text);
    for check in ["dns", "tls", "endpoints"] {
        assert_eq!(answer.of(check), Vec::<&Value>::new(), "{check}: {}", answer.text);
    }
    let answer = look(&["--online"]);
    assert!(answer.are_all("endpoints", "good"), "{}", answer.text);
    let seen = cloud.seen();
    let heads: Vec<&String> = seen.iter().filter(|request| request.starts_with("HEAD ")).collect();
    let [head] = heads.as_slice() else { panic!("{seen:?}") };
    assert!(head.starts_with("HEAD / HTTP/1.1\r\n") && !head.contains("authorization"), "{head}");
    assert!(!head.contains("hunter2"), "{head}");
}

/// Where the OpenStack provider uses its credentials, as `wasm-ccm inspect` prints it.
pub(super) const USES: [&str; 4] = [
    "--credential-use=application-credential-id=identity:body:/v3/auth/tokens",
    "--credential-use=application-credential-id=identity:body:/auth/tokens",
    "--credential-use=application-credential-secret=identity:body:/v3/auth/tokens",
    "--credential-use=application-credential-secret=identity:body:/auth/tokens",
];

/// A certificate of an authority that is good, and of another cloud.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_ca_that_is_valid_and_another_one_is_told_with_its_file() {
    let stage = Stage::new().await;
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let other = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let ca = stage.file("other-ca.pem", other.pem());
    let text = format!("[Global]\nauth-url={}/v3\nca-file={}\n", stage.cluster.url(), ca.display());
    let text = text + "application-credential-id=21dd2a6e44c0\napplication-credential-secret=not-a-real-secret\n";
    let config = stage.file("cloud.conf", text);
    let provider = format!("--provider={}", component("providers/openstack.wasm").unwrap().display());
    let (config, file) = (format!("--cloud-config={}", config.display()), format!("--allow-file={}", ca.display()));
    let own = [
        provider.as_str(),
        &config,
        &file,
        "--cloud-provider=openstack",
        "--allow-loopback",
        "--online",
        "--limit=call-time=3s",
    ];
    let flags = [&own[..], &USES].concat();
    let answer = doctor(&stage.cluster.kubeconfig(), &flags);
    let [object, found, fix] = only_wrong(&answer, "tls");
    assert!(object.starts_with("identity (https://127.0.0.1:"), "{object}");
    let place = ca.display().to_string();
    assert!(found.starts_with(&format!("none of the CA certificates in {place} ")), "{found}");
    assert!(fix.contains(&format!("put that CA certificate into {place}")), "{fix}");

    // The same of the API server.
    let text = std::fs::read_to_string(stage.cluster.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
    let cluster = kubeconfig["clusters"][0]["cluster"].as_object_mut().unwrap();
    cluster.remove("certificate-authority-data");
    cluster.insert("certificate-authority".to_owned(), json!(ca));
    let kubeconfig = stage.file("wrong-ca", kubeconfig.to_string());
    let answer = doctor(&kubeconfig, &[&super::provider()]);
    let [_, found, fix] = ["objects", "found", "fix"]
        .map(|part| answer.of("api-server")[0][part].as_str().unwrap_or_default().to_owned());
    assert!(found.contains("cannot be reached") && found.contains("certificate"), "{found}");
    assert!(fix.contains("CA certificate of the kubeconfig"), "{fix}");
}

// The cloud answers while the program is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_the_cloud_leaves_to_the_leader_is_told() {
    let stage = Stage::new().await;
    let cloud = Cloud::calm().await;
    members(stage.client(), &cloud, &[701]).await;
    let host = start(&stage, &cloud, &[], &["--leader-elect=true", "--service-min-backoff=300s"]);
    serve(stage.client(), "web", json!({})).await;
    await_served(stage.client(), "web").await;
    let provider = format!("--provider={}", component("providers/digitalocean.wasm").unwrap().display());
    let address = format!("--address=https://127.0.0.1:{}", host.port());
    let look = |flags: &[&str]| doctor(&stage.cluster.kubeconfig(), &[&[provider.as_str()], flags].concat());
    let (_, found) = look(&[&address]).one("budget", "good");
    assert!(found.contains(" of 5000 requests are left at api of digitalocean"), "{found}");
    // It is no pod.
    let answer = look(&[]);
    let (_, found) = answer.one("budget", "note");
    assert!(found.ends_with("the leader is no pod in kube-system"), "{found}");
    assert!(answer.of("budget")[0]["fix"].as_str().unwrap().contains("--address"), "{}", answer.text);
    let (_, found) = look(&["--address=https://127.0.0.1:1"]).one("budget", "unjudged");
    assert!(found.contains("the host at https://127.0.0.1:1"), "{found}");
    let rival = stage.cluster.kubeconfig_of(RIVAL).unwrap();
    doctor(rival, &[&provider]).one("budget", "unjudged");

    cloud.set(|settings| settings.quota.per_hour = 1);
    serve(stage.client(), "more", json!({})).await;
    let mut told = String::new();
    let low = async || {
        let answer = look(&[&address]);
        told = answer.text.clone();
        Ok(answer.of("budget").iter().any(|finding| finding["judgement"] == "wrong"))
    };
    until(LIMIT, low).await.unwrap_or_else(|error| panic!("{error:#}: {told}"));
    let (objects, found) = look(&[&address]).one("budget", "wrong");
    assert_eq!(objects, ["Endpoint api of digitalocean"]);
    assert_eq!(found, "no request of 1 is left: the cloud refuses all until it gives new ones");
    cloud.unsettled("its quota is used up");
    host.end().await;
    let (_, found) = look(&[]).one("budget", "unjudged");
    assert_eq!(found, "not judged while no host is seen to lead");
}
