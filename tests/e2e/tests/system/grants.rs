//! What an operator grants: what works, what is refused, and how that is said.

use ccm_e2e::alerts;
use ccm_e2e::host::Port;
use serde_json::json;

use crate::cloud::{Cloud, ask, send};
use crate::mistakes::{complaint, run};
use crate::stage::{Actor, LIMIT, Stage, scripted};

const TOKEN: (&str, &str) = ("SCRIPTED_TOKEN", "token-of-the-variable");

/// Said at once, before there is a cluster or a provider.
#[test]
fn a_grant_that_no_provider_could_use_ends_the_process_with_code_1_and_a_line_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let in_list = |text: &str| {
        let path = folder.path().join(format!("{}.yaml", text.len()));
        std::fs::write(&path, format!("- source: {}\n{text}", scripted().display())).unwrap();
        format!("--providers={}", path.display())
    };
    let listed = |text: &str| vec![in_list(text)];
    let single = |flags: &[&str]| -> Vec<String> {
        let provider = format!("--provider={}", scripted().display());
        [provider].into_iter().chain(flags.iter().map(|&flag| flag.to_owned())).collect()
    };
    let cases: Vec<(Vec<String>, &[&str])> = vec![
        (single(&["--endpoint=api"]), &["--endpoint", "NAME=VALUE"]),
        (single(&["--proxy=http://u:hunter2@proxy.test:3128"]), &["--proxy", "NAME=VALUE"]),
        (single(&["--credential=hunter2hunter2"]), &["--credential", "NAME=VALUE"]),
        (single(&["--credential", "token", "hunter2hunter2"]), &["belongs to no flag"]),
        (single(&["--setting=hunter2"]), &["--setting", "NAME=VALUE"]),
        (single(&["--endpoint=api=cloud.test"]), &["--endpoint api=...", "must begin with https://"]),
        (single(&["--endpoint=api=http://cloud.test"]), &["--endpoint api=...", "needs --allow-http"]),
        (single(&["--endpoint=api=https://127.0.0.1:1"]), &["--endpoint api=...", "--allow-loopback would grant"]),
        (
            single(&["--endpoint=api=https://169.254.169.254", "--allow-loopback"]),
            &["--endpoint api=...", "is a link-local address"],
        ),
        (single(&["--endpoint=api=https://u:hunter2@cloud.test"]), &["user or password", "secrets are credentials"]),
        (
            single(&["--endpoint=api=https://a.test", "--endpoint=api=https://b.test"]),
            &["--endpoint api=... is given twice"],
        ),
        (single(&["--allow-host=*"]), &["--allow-host *", "would allow every host", "*.example.org"]),
        (single(&["--allow-host=https://cloud.test"]), &["--allow-host https://cloud.test", "more than a host"]),
        (single(&["--allow-host=a.*.test"]), &["--allow-host a.*.test", "a star stands only"]),
        (single(&["--proxy=api=socks5://u:hunter2@proxy.test"]), &["--proxy api=...", "must be http or https"]),
        (single(&["--proxy=*=http://u:hunter2@proxy.test/path"]), &["--proxy *=...", "more than scheme, user, host"]),
        (single(&["--allow-env=*"]), &["--allow-env *", "as in DO_*"]),
        (single(&["--credential=token=hunter2"]), &["credential token", "file:PATH, env:VARIABLE or secret:"]),
        (single(&["--credential=token=secret:kube-system/cloud"]), &["credential token", "secret:NAMESPACE/NAME/KEY"]),
        (single(&["--credential=token=env:NO_SUCH_ONE"]), &["credential token", "no variable NO_SUCH_ONE"]),
        (single(&["--credential-use=token=api:cookie:x"]), &["--credential-use token=...", "ENDPOINT:header:NAME"]),
        (listed("  credentialUses: {token: ['api:body']}"), &["entry 1 (", "--credential-use token=", "body:PATH"]),
        (single(&["--limit=requests-per-second=0"]), &["requests-per-second must be above zero"]),
        (listed("  grants: {endpoints: {api: 'http://cloud.test'}}"), &["entry 1 (", "api=...", "--allow-http"]),
        (listed("  grants: {allowHosts: ['*']}"), &["--providers", "entry 1 (", "every host"]),
        (listed("  credentials: {token: hunter2}"), &["--providers", "entry 1 (", "credential token", "file:PATH"]),
        (listed("  grants: {allowEnvs: [A]}"), &["--providers", "allowEnvs", "allowEnv"]),
    ];
    for (flags, says) in cases {
        let args = ["run", "--secure-port=0"].into_iter().chain(flags.iter().map(String::as_str));
        let (code, stdout, stderr) = run(&args.collect::<Vec<_>>());
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{flags:?}: {stderr}");
        complaint(&stderr);
        assert!(!stderr.contains("hunter2"), "{flags:?}: {stderr}");
        for part in says {
            assert!(stderr.contains(part), "{flags:?}: {stderr:?} does not say {part:?}");
        }
    }
}

/// Another component, or what the variable or file holds, may put it right.
#[tokio::test]
async fn a_grant_that_this_provider_cannot_use_keeps_the_process_waiting_and_says_why() {
    let stage = Stage::new().await;
    let cases: [(&[&str], &[&str]); 8] = [
        (&["--endpoint=apii=https://cloud.test"], &["--endpoint apii=...", "no such endpoint", "identity"]),
        (&["--proxy=apii=http://proxy.test"], &["--proxy apii=...", "no such endpoint", "identity"]),
        (
            &["--credential=token=env:SCRIPTED_TOKEN", "--credential-use=tokn=api:body:/x"],
            &["--credential-use tokn=...", "no such credential", "token"],
        ),
        (
            &["--credential=password=env:SCRIPTED_TOKEN"],
            &["in a place that is not for credentials", "--credential-use=password=identity:body:/v3/auth/tokens"],
        ),
        (&["--credential=tokn=env:SCRIPTED_TOKEN"], &["--credential tokn=...", "no such credential", "token"]),
        (&["--setting=moood=gay"], &["settings.moood", "no such setting", "mood"]),
        (&["--credential=token=file:/nowhere/token"], &["/nowhere/token", "No such file", "check the path"]),
        (&["--allow-env=HTTPS_PROXY"], &["HTTPS_PROXY", "must be http or https"]),
    ];
    let environment = [TOKEN, ("HTTPS_PROXY", "socks5://u:hunter2@proxy.test")];
    for (flags, says) in cases {
        let host = stage.scripted(&environment, flags);
        host.await_log(LIMIT, &[&["provider not taken"], says].concat()).await.unwrap();
        let page = host.await_page("/readyz", 503, LIMIT).await.unwrap();
        assert!(says.iter().all(|part| page.contains(part)), "{page} does not say {says:?}");
        assert_eq!(host.page("/livez").await.unwrap().0, 200, "a restart would not help");
        assert!(!host.log_text().contains("hunter2"), "{}", host.log_text());
        host.end().await;
    }
}

/// A component says which key of the cloud-config is a path.
#[tokio::test]
async fn a_second_file_is_read_only_where_the_operator_grants_it() {
    let stage = Stage::new().await;
    let more = stage.file("more.yaml", "colour: red\n");
    let config = stage.file("cloud.conf", format!("[Global]\nmore-file = {}\n", more.display()));
    let (config, grant) = (format!("--cloud-config={}", config.display()), format!("--allow-file={}", more.display()));
    let mut host = stage.scripted(&[], &[&config]);
    assert_eq!(host.wait(LIMIT).await.unwrap().code(), Some(1));
    let path = more.to_str().unwrap();
    host.await_log(LIMIT, &["error: ", path, "not granted", "--allow-file"]).await.unwrap();

    let host = stage.scripted(&[], &[&config, &grant]);
    ask(&stage, &host, "reads", [json!({ "file": "more" }), json!({ "log": "the file" })]).await;
    host.await_log(LIMIT, &["the file: ", "colour", "red"]).await.unwrap();
    host.end().await;
}

#[tokio::test]
async fn environment_variables_count_only_where_they_are_granted() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let url = cloud.url();
    let environment = [("SCRIPTED_API_URL", url.as_str()), TOKEN, ("SCRIPTED_MOOD", "gay")];
    let flags = ["--allow-http", "--allow-loopback"];
    let log = |what: &str| json!({ "log": what });
    let mood = [json!({ "setting": "mood" }), log("the mood"), send("/machines/withheld"), log("answer")];

    let host = stage.scripted(&environment, &flags);
    let withheld = ["\"WARN\"", "SCRIPTED_API_URL", "SCRIPTED_MOOD", "SCRIPTED_TOKEN", "--allow-env grants them"];
    host.await_log(LIMIT, &withheld).await.unwrap();
    ask(&stage, &host, "withheld", mood).await;
    host.await_log(LIMIT, &["the mood: ", "grim"]).await.unwrap();
    host.await_log(LIMIT, &["answer: ", "denied", "has no base URL: give --endpoint api=URL"]).await.unwrap();
    assert_eq!(cloud.seen(), [""; 0], "nothing was sent");
    host.end().await;

    let host = stage.scripted(&environment, &[&flags[..], &["--allow-env=SCRIPTED_API_*,SCRIPTED_TOKEN"]].concat());
    assert_eq!(cloud.asked_for(&stage, &host, "granted").await, format!("Bearer {}", TOKEN.1));
    let warning = host.await_log(LIMIT, &["--allow-env grants them"]).await.unwrap();
    assert!(warning.contains("SCRIPTED_MOOD") && !warning.contains("SCRIPTED_TOKEN"), "{warning}");
    assert!(!host.log_text().contains(TOKEN.1), "{}", host.log_text());
    host.end().await;
}

/// It was in no log, and the provider did as if nothing were set.
#[tokio::test]
async fn a_misspelt_variable_is_warned_of_once_also_by_a_host_whose_component_is_not_taken() {
    let stage = Stage::new().await;
    let environment = [("SCRIPTED_MODO", "gay"), TOKEN];
    let told = "SCRIPTED_MODO (did you mean SCRIPTED_MOOD?)";
    for (flags, then) in [
        (["--allow-env=SCRIPTED_TOKEN", "--allow-loopback"], "provider taken"),
        (["--allow-env=SCRIPTED_*", "--setting=moood=gay"], "provider not taken"),
    ] {
        let host = stage.scripted(&environment, &flags);
        host.await_log(LIMIT, &[then]).await.unwrap();
        let warning = host.await_log(LIMIT, &["no provider reads them"]).await.unwrap();
        assert!(warning.contains("\"WARN\"") && warning.contains(told), "{warning}");
        let log = host.log_text();
        assert_eq!(log.lines().filter(|line| line.contains(told)).count(), 1, "{log}");
        host.end().await;
    }
}

/// What a catalogue names is only a proposal.
#[tokio::test]
async fn a_host_that_the_provider_found_is_asked_only_where_it_is_granted() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let script = || {
        let found = json!({ "send": { "endpoint": "found", "path": "/found" } });
        [json!({ "bind": ["found", cloud.url()] }), json!({ "log": "the binding" }), found]
    };
    let flags = ["--allow-http", "--allow-loopback", "--allow-host=*.cloud.test"];
    let host = stage.scripted(&[], &flags);
    ask(&stage, &host, "elsewhere", script()).await;
    host.await_log(LIMIT, &["the binding: ", "denied", "--allow-host 127.0.0.1 would allow it"]).await.unwrap();
    assert_eq!(cloud.seen(), [""; 0], "nothing was sent");
    host.end().await;

    let host = stage.scripted(&[], &[&flags[..], &["--allow-host=127.0.0.1"]].concat());
    ask(&stage, &host, "granted", script()).await;
    assert!(cloud.seen().iter().any(|request| request.starts_with("GET /found ")), "{:?}", cloud.seen());
    host.end().await;
}

/// There is no such host: the proxy alone knows where it is.
#[tokio::test]
async fn a_proxy_takes_the_requests_of_its_endpoint_and_its_password_stays_hidden() {
    let stage = Stage::new().await;
    let proxy = Cloud::start().await;
    let flag = format!("--proxy=*=http://me:hunter2-hunter2@{}", proxy.address);
    let environment = [TOKEN];
    let host = stage.scripted(
        &environment,
        &[
            "--endpoint=api=http://cloud.invalid/v2",
            "--allow-http",
            "--allow-loopback",
            "--allow-env=SCRIPTED_TOKEN",
            &flag,
        ],
    );
    ask(&stage, &host, "a", [send("/machines/a"), json!({ "log": "answer" })]).await;
    let seen = proxy.seen();
    let request = seen.first().unwrap();
    assert!(request.starts_with("GET http://cloud.invalid/v2/machines/a "), "{request}");
    let authorization = request.lines().find_map(|line| line.strip_prefix("proxy-authorization: ")).unwrap();
    host.await_log(LIMIT, &["answer: ", "proxy-authorization: Basic ", "(credential proxy)"]).await.unwrap();
    for secret in [authorization, "hunter2", TOKEN.1] {
        assert!(!host.log_text().contains(secret), "{secret} is in the log:\n{}", host.log_text());
    }
    host.end().await;
}

/// There is no such host either. That the proxy is no good tunnel does not matter: it is asked for one, or not at all.
#[tokio::test]
async fn a_granted_proxy_of_the_environment_is_asked_for_a_tunnel_but_not_for_the_hosts_of_no_proxy() {
    let stage = Stage::new().await;
    let proxy = Cloud::start().await;
    // The machine may have no authorities.
    let authority = rcgen::generate_simple_self_signed(["api.invalid".to_owned()]).unwrap().cert.pem();
    let authority = stage.file("authorities.pem", authority);
    let url = format!("http://me:hunter2-hunter2@{}", proxy.address);
    let environment = [
        TOKEN,
        ("HTTPS_PROXY", url.as_str()),
        ("NO_PROXY", "direct.invalid"),
        ("SSL_CERT_FILE", authority.to_str().unwrap()),
    ];
    let flags =
        ["--endpoint=api=https://api.invalid/v2", "--endpoint=found=https://direct.invalid", "--limit=attempts=1"];
    let direct = json!({ "send": { "endpoint": "found", "path": "/direct" } });
    let script = || [direct.clone(), json!({ "log": "direct" }), send("/machines/a"), json!({ "log": "tunnelled" })];
    // Neither counts before it is granted.
    for (grant, tunnels) in [("--allow-env=SCRIPTED_TOKEN", 0), ("--allow-env=SCRIPTED_TOKEN,HTTPS_PROXY,NO_PROXY", 1)]
    {
        let host = stage.scripted(&environment, &[&flags[..], &[grant]].concat());
        ask(&stage, &host, "a", script()).await;
        let seen = proxy.seen();
        assert_eq!(seen.len(), tunnels, "{seen:?}; the log:\n{}", host.log_text());
        assert!(seen.iter().all(|request| request.starts_with("CONNECT api.invalid:443 HTTP/1.1")), "{seen:?}");
        let log = host.log_text();
        assert!(!log.contains("hunter2") && !log.contains(TOKEN.1), "{log}");
        host.end().await;
    }
}

/// The file holds what the flags say.
#[tokio::test]
async fn a_list_of_providers_holds_grants_and_credentials_as_well() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let token = stage.file("token", "token-of-the-list");
    let list = format!(
        "- name: scripted
  source: {}
  grants:
    endpoints:
      api: {}
    allowHosts: ['*.scripted.example']
    allowHttp: true
    allowLoopback: true
    allowEnv: [SCRIPTED_MOOD]
  credentials:
    token: file:{}
  settings: {{}}
  limits:
    call-time: 30s
    attempts: 1
    requests-per-second: 20
",
        scripted().display(),
        cloud.url(),
        token.display(),
    );
    let list = stage.file("providers.yaml", list);
    let host = stage.start([format!("--providers={}", list.display())]);
    assert_eq!(cloud.asked_for(&stage, &host, "a").await, "Bearer token-of-the-list");
    host.end().await;
}

fn exchanges(host: &Actor) -> Vec<String> {
    host.log().into_iter().filter(|line| line.contains("\"target\":\"http\"")).collect()
}

#[tokio::test]
async fn each_exchange_is_one_line_of_the_trace_and_one_more_in_the_metrics() {
    let stage = Stage::new().await;
    let cloud = Cloud::start().await;
    let flags = cloud.flags();
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--credential=token=env:SCRIPTED_TOKEN", "--trace-http"]);
    // Else the request is denied, and not that there is no value.
    flags.push("--credential-use=session=api:header:x-auth-token");
    let host = stage.scripted(&[TOKEN], &flags);
    let found = cloud.asked_for(&stage, &host, "a").await;
    assert_eq!(found, format!("Bearer {}", TOKEN.1));
    let elsewhere = json!({ "send": { "endpoint": "identity", "path": "/v3" } });
    let nowhere = json!({ "send": { "endpoint": "nowhere", "path": "/v3" } });
    let missing = json!({ "send": { "path": "/x", "headers": [["x-auth-token", [{ "secret": "session" }]]] } });
    ask(&stage, &host, "b", [send("/absent/b"), elsewhere, nowhere, missing]).await;

    let count = async |endpoint: &str, operation: &str, outcome: &str| {
        let labels = [
            "provider=\"scripted\"".to_owned(),
            format!("endpoint=\"{endpoint}\""),
            format!("operation=\"{operation}\""),
            format!("outcome=\"{outcome}\""),
        ];
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        host.count("ccm_cloud_requests_total", &labels).await.unwrap()
    };
    assert_eq!(count("api", "GET /machines/a", "2xx").await, 1.0);
    assert_eq!(count("api", "GET /absent/b", "4xx").await, 1.0);
    assert_eq!(count("identity", "GET /v3", "unbound").await, 1.0);
    assert_eq!(count("unknown", "GET /v3", "denied").await, 1.0, "a name that the provider made up");
    assert_eq!(count("api", "GET /x", "unknown-credential").await, 1.0);
    assert_eq!(host.count("ccm_cloud_requests_total", &[]).await.unwrap(), 5.0);
    assert_eq!(host.count("ccm_cloud_request_duration_seconds_count", &["endpoint=\"api\""]).await.unwrap(), 2.0);
    for gauge in ["ccm_cloud_circuit_open", "ccm_cloud_requests_waiting"] {
        assert_eq!(host.count(gauge, &["endpoint=\"api\""]).await.unwrap(), 0.0, "{gauge}");
    }

    let lines = exchanges(&host);
    assert_eq!(lines.len(), 2, "one for each that was sent: {lines:#?}");
    for (line, parts) in lines.iter().zip([["GET /machines/a", "\"status\":200"], ["GET /absent/b", "\"status\":404"]])
    {
        for part in
            [&parts[..], &["\"host\":\"127.0.0.1\"", "\"request_id\":\"req-7\"", "\"ms\":", "\"bytes\":"]].concat()
        {
            assert!(line.contains(part), "{line} does not say {part}");
        }
    }
    assert!(!host.log_text().contains(TOKEN.1), "{}", host.log_text());
    host.end().await;
}

#[tokio::test]
async fn a_cloud_that_is_away_is_asked_only_now_and_then_and_taken_back_when_it_answers() {
    let stage = Stage::new().await;
    let port = Port::take().unwrap();
    let address = ([127, 0, 0, 1], port.number()).into();
    let flags = Cloud::flags_of(address);
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--credential=token=env:SCRIPTED_TOKEN", "--trace-http", "--limit=breaker-pause=2s"]);
    let host = stage.scripted(&[TOKEN], &flags);
    for node in ["a", "b", "c"] {
        ask(&stage, &host, node, [send("/machines/away"), json!({ "log": "answer" })]).await;
    }
    host.await_log(LIMIT, &["answer: ", "connect", "GET /machines/away"]).await.unwrap();
    let attempts = host.count("ccm_cloud_requests_total", &["outcome=\"connect\""]).await.unwrap();
    assert!(attempts >= 5.0, "{attempts}");
    let open = "ccm_cloud_circuit_open";
    assert_eq!(host.count(open, &["endpoint=\"api\""]).await.unwrap(), 1.0);
    let away = alerts::scrape(&host).await.unwrap();
    alerts::fires("WasmCCMCloudCircuitOpen", &[[&away]]).await.unwrap();
    for line in exchanges(&host).iter().skip(5) {
        assert!(!line.contains("\"waited_ms\":0,"), "after five failures nobody is sent at once: {line}");
    }

    let cloud = Cloud::start_at(address).await;
    let mut number = 0;
    while host.count(open, &["endpoint=\"api\""]).await.unwrap() != 0.0 {
        number += 1;
        assert!(number < 100, "the cloud is not taken back");
        let node = format!("d{number}");
        ask(&stage, &host, &node, [send("/machines/back")]).await;
    }
    assert!(!cloud.seen().is_empty());
    host.end().await;
}
