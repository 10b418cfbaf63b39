//! The ways from here to the clouds: names, proxies, certificates, and whether somebody answers.

use ccm_rollout::config::ProviderConfig;
use ccm_rollout::config::grants::grants;
use ccm_rollout::preflight::{Barrier, Blocked, Way};

use super::finding::{Check, Finding};

/// Variables that a provider may use, if it is granted them; the first that it may use counts.
const OURS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
/// The list of exceptions to them.
const EXCEPT: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// Variables that other programs take for a proxy.
const OTHERS: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Whether [`proxies`] tells of this variable.
pub(super) fn is_of_a_proxy(name: &str) -> bool {
    OURS.contains(&name) || EXCEPT.contains(&name)
}

/// What stands in the ways of a provider that were walked.
pub(super) fn walked(ways: &[Way], walked: &[Result<(), Blocked>]) -> Vec<Finding> {
    let (mut findings, mut good) = (vec![], vec![]);
    for (way, walk) in ways.iter().zip(walked) {
        match walk {
            Ok(()) => good.push(way.to_string()),
            Err(blocked) => findings.extend(barrier(way, blocked)),
        }
    }
    if !good.is_empty() {
        findings.push(Check::Endpoints.good("answers").about(good));
    }
    findings
}

fn barrier(way: &Way, blocked: &Blocked) -> Option<Finding> {
    let Blocked { barrier, message } = blocked;
    let proxy = way.proxy.as_deref();
    let (check, found, fix) = match (barrier, proxy) {
        (Barrier::Name, None) => (
            Check::Dns,
            message.clone(),
            format!(
                "correct the URL ({}), or the name server of this machine (/etc/resolv.conf); a pod of the host uses the one of its node (dnsPolicy: Default)",
                way.said_by
            ),
        ),
        (Barrier::Name, Some(proxy)) => (
            Check::Dns,
            format!("{message}: it is the proxy {proxy}, which requests to this endpoint go through"),
            "correct the name in --proxy or HTTPS_PROXY, or the name server of this machine (/etc/resolv.conf)".to_owned(),
        ),
        (Barrier::Proxy, _) => (
            Check::Proxy,
            format!("{message} (through {})", proxy.unwrap_or_default()),
            "correct --proxy or HTTPS_PROXY, let the proxy allow CONNECT to this host, or name the host in NO_PROXY if it can be reached without".to_owned(),
        ),
        (Barrier::Authority, _) => {
            let trusted = way.authorities.as_deref();
            (
                Check::Tls,
                match trusted {
                    Some(file) => format!("none of the CA certificates in {file} signed the certificate that it shows: {message}"),
                    None => format!("no CA of the system signed the certificate that it shows, and the configuration names no other: {message}"),
                },
                format!(
                    "`openssl s_client -showcerts -connect {}` shows who signed it: put that CA certificate into {}",
                    address(&way.origin),
                    trusted.unwrap_or("a file, and name the file in the cloud-config (`wasm-ccm inspect FILE` shows the key)"),
                ),
            )
        }
        (Barrier::Tls, _) => (
            Check::Tls,
            message.clone(),
            format!("do what the message says; `openssl s_client -connect {}` shows the certificate", address(&way.origin)),
        ),
        (Barrier::Silence, _) => (
            Check::Endpoints,
            message.clone(),
            format!("check host and port of the URL ({}), and the firewall between here and there", way.said_by),
        ),
        // The provider says the same of each request.
        (Barrier::Denied, _) => return None,
    };
    Some(check.wrong(found, fix).about([way.to_string()]))
}

/// `HOST:PORT` of an origin.
fn address(origin: &str) -> String {
    let uri: Option<http::Uri> = origin.parse().ok();
    let (host, port) = uri.as_ref().map_or(("", None), |uri| (uri.host().unwrap_or_default(), uri.port_u16()));
    let default = if origin.starts_with("http:") { 80 } else { 443 };
    format!("{host}:{}", port.unwrap_or(default))
}

/// Which proxies requests go through, and which of those of the environment they do not. `is_set`: variables of this process; those of the host
/// may be others.
pub(super) fn proxies(config: &ProviderConfig, ways: &[Way], is_set: impl Fn(&str) -> bool) -> Vec<Finding> {
    let check = Check::Proxy;
    if ways.is_empty() {
        return vec![];
    }
    let may_use = |name: &str| config.grants.allow_env.iter().any(|pattern| grants(pattern, name));
    let set = |names: &[&'static str]| names.iter().copied().find(|name| is_set(name));
    let used = OURS.into_iter().find(|name| is_set(name) && may_use(name));
    let directly: Vec<String> = ways.iter().filter(|way| way.proxy.is_none()).map(ToString::to_string).collect();
    let mut findings = vec![];
    for way in ways {
        let Some(proxy) = &way.proxy else { continue };
        let from = match used {
            Some(name) if !is_of_flag(config, &way.endpoint) => name,
            _ => "--proxy",
        };
        let found = format!("requests go through the proxy {proxy} ({from}), which resolves the name");
        findings.push(check.good(found).about([way.to_string()]));
    }
    let is_direct = !directly.is_empty();
    if let Some(name) = set(&OURS).filter(|_| used.is_none() && is_direct) {
        let found = format!("{name} is set here, and the provider may not use it: its requests go without a proxy");
        let fix = format!("--allow-env={name},NO_PROXY, or --proxy '*=URL', if the cloud is behind the proxy");
        findings.push(check.note(found, fix).about(directly.clone()));
    }
    let excepted = EXCEPT.into_iter().any(|name| is_set(name) && may_use(name));
    if let (Some(used), Some(name), false) = (used, set(&EXCEPT), excepted) {
        let found = format!(
            "{name} is set here, and the provider may not use it: {used} counts for the hosts of that list, too"
        );
        findings.push(check.note(found, format!("--allow-env={name}")));
    }
    if let Some(name) = set(&OTHERS).filter(|_| used.is_none() && set(&OURS).is_none() && is_direct) {
        let found = format!("{name} is set here, and wasm-ccm never reads it: requests go without a proxy");
        let fix =
            "--proxy '*=URL', or HTTPS_PROXY with --allow-env=HTTPS_PROXY,NO_PROXY, if the cloud is behind the proxy";
        findings.push(check.note(found, fix).about(directly));
    }
    if findings.is_empty() {
        findings.push(check.good("requests to the cloud go without a proxy, and none is set here"));
    }
    findings
}

fn is_of_flag(config: &ProviderConfig, endpoint: &str) -> bool {
    config.grants.proxies.keys().any(|name| name == endpoint || name == "*")
}

#[cfg(test)]
mod tests {
    use ccm_rollout::config::ProviderRecord;
    use ccm_rollout::config::grants::GrantSettings;

    use super::*;

    fn config(allow_env: &[&str], proxies: &[(&str, &str)]) -> ProviderConfig {
        let grants = GrantSettings {
            allow_env: allow_env.iter().map(|&name| name.to_owned()).collect(),
            proxies: proxies.iter().map(|&(name, url)| (name.to_owned(), url.to_owned())).collect(),
            ..GrantSettings::default()
        };
        ProviderRecord { source: "a.wasm".to_owned(), grants, ..ProviderRecord::default() }.check().unwrap()
    }

    fn way(endpoint: &str, proxy: Option<&str>, authorities: Option<&str>) -> Way {
        Way {
            endpoint: endpoint.to_owned(),
            origin: format!("https://{endpoint}.example"),
            said_by: "--endpoint".to_owned(),
            proxy: proxy.map(ToOwned::to_owned),
            authorities: authorities.map(ToOwned::to_owned),
        }
    }

    fn told(findings: Vec<Finding>) -> Vec<String> {
        let one = |one: Finding| format!("{:?} {}: {}", one.judgement, one.objects.join(", "), one.found);
        findings.into_iter().map(one).collect()
    }

    #[test]
    fn each_barrier_has_its_check_its_words_and_its_fix() {
        let proxy = Some("http://p.example:3128");
        let file = Some("/etc/ca.pem (Global.ca-file)");
        for (barrier, way, check, part, fix) in [
            (Barrier::Name, way("api", None, None), Check::Dns, "why", "the URL (--endpoint)"),
            (
                Barrier::Name,
                way("api", proxy, None),
                Check::Dns,
                "it is the proxy http://p.example:3128",
                "--proxy or HTTPS_PROXY",
            ),
            (Barrier::Proxy, way("api", proxy, None), Check::Proxy, "why (through http://p.example:3128)", "CONNECT"),
            (
                Barrier::Authority,
                way("api", None, file),
                Check::Tls,
                "none of the CA certificates in /etc/ca.pem (Global.ca-file)",
                "-connect api.example:443` shows who signed it: put that CA certificate into /etc/ca.pem",
            ),
            (
                Barrier::Authority,
                way("api", None, None),
                Check::Tls,
                "no CA of the system",
                "name the file in the cloud-config",
            ),
            (Barrier::Tls, way("api", None, None), Check::Tls, "why", "-connect api.example:443"),
            (Barrier::Silence, way("api", None, None), Check::Endpoints, "why", "firewall"),
        ] {
            let blocked = Err(Blocked { barrier, message: "why".to_owned() });
            let findings = walked(&[way, self::way("good", None, None)], &[blocked, Ok(())]);
            let [finding, good] = findings.as_slice() else { panic!("{findings:?}") };
            assert_eq!((finding.check, finding.objects.len()), (check, 1), "{finding:?}");
            assert_eq!(finding.objects, ["api (https://api.example)"]);
            assert_eq!(finding.judgement, super::super::finding::Judgement::Wrong);
            assert!(finding.found.contains(part), "{finding:?}");
            assert!(finding.fix.as_ref().unwrap().contains(fix), "{finding:?}");
            assert_eq!(
                (good.check, good.objects.as_slice()),
                (Check::Endpoints, &["good (https://good.example)".to_owned()][..])
            );
        }
        let denied = Err(Blocked { barrier: Barrier::Denied, message: "why".to_owned() });
        assert_eq!(walked(&[way("api", None, None)], &[denied]), []);
        assert_eq!(walked(&[way("api", None, None)], &[]), [], "nobody went there");
        assert_eq!((address("http://[::1]"), address("https://a:8443")), ("[::1]:80".to_owned(), "a:8443".to_owned()));
    }

    /// That `--proxy` of one endpoint, or a variable in the other spelling, says nothing of the rest was once not seen.
    #[test]
    fn a_proxy_of_the_environment_counts_only_where_it_is_granted() {
        let set = |names: &'static [&str]| move |name: &str| names.contains(&name);
        let direct = || [way("api", None, None)];
        let withheld = "Note api (https://api.example): HTTPS_PROXY is set here, and the provider may not use it";
        let of = |config: ProviderConfig, ways: &[Way], names| told(proxies(&config, ways, set(names)));
        let all = of(config(&[], &[]), &direct(), &["HTTPS_PROXY"]);
        assert!(all.len() == 1 && all[0].starts_with(withheld), "{all:?}");
        for granted in ["HTTPS_*", "HTTPS_PROXY"] {
            let through = [way("api", Some("http://p:3128"), None)];
            let all = of(config(&[granted, "NO_PROXY"], &[]), &through, &["HTTPS_PROXY", "NO_PROXY"]);
            assert_eq!(
                all,
                [
                    "Good api (https://api.example): requests go through the proxy http://p:3128 (HTTPS_PROXY), which resolves the name"
                ]
            );
        }
        // The other spelling is granted, and counts.
        let through = [way("api", Some("http://p:3128"), None)];
        let all = of(config(&["https_proxy"], &[]), &through, &["HTTPS_PROXY", "https_proxy"]);
        assert!(all.len() == 1 && all[0].contains("(https_proxy)"), "{all:?}");
        // Nothing is withheld from an endpoint that NO_PROXY lists.
        let ways = [way("api", None, None), way("identity", Some("http://p:3128"), None)];
        let all = of(config(&["HTTPS_PROXY", "NO_PROXY"], &[]), &ways, &["HTTPS_PROXY", "NO_PROXY"]);
        assert!(all.len() == 1 && all[0].starts_with("Good identity"), "{all:?}");
        // A proxy of one endpoint is none of the others.
        let ways = [way("api", None, None), way("identity", Some("http://q:1"), None)];
        let all = of(config(&[], &[("identity", "http://q:1")]), &ways, &["HTTPS_PROXY"]);
        assert!(all.len() == 2 && all[0].contains("http://q:1 (--proxy)") && all[1].starts_with(withheld), "{all:?}");
        let all = of(config(&[], &[]), &direct(), &["ALL_PROXY"]);
        assert!(all.len() == 1 && all[0].contains("ALL_PROXY is set here, and wasm-ccm never reads it"), "{all:?}");
        let all = of(config(&[], &[]), &direct(), &["NO_PROXY"]);
        assert_eq!(all, ["Good : requests to the cloud go without a proxy, and none is set here"]);
        assert_eq!(of(config(&[], &[]), &[], &["HTTPS_PROXY"]), [""; 0], "it asks nobody");
    }

    #[test]
    fn exceptions_that_are_not_granted_are_told() {
        let set = |name: &str| ["HTTPS_PROXY", "NO_PROXY"].contains(&name);
        let ways = [way("api", Some("http://p:3128"), None)];
        let all = told(proxies(&config(&["HTTPS_PROXY"], &[]), &ways, set));
        assert!(
            all.len() == 2
                && all[1]
                    .starts_with("Note : NO_PROXY is set here, and the provider may not use it: HTTPS_PROXY counts"),
            "{all:?}"
        );
        assert_eq!(told(proxies(&config(&["HTTPS_PROXY", "NO_*"], &[]), &ways, set)).len(), 1);
    }
}
