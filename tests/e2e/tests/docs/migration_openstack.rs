//! What the guide for who comes from OpenStack's Go manager must say, and that its commands lead somewhere.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::commands::{self, words};
use super::{read, sources};

const GUIDE: &str = "docs/guides/migrate-from-openstack.md";
const OVERLAY: &str = "manifests/overlays/openstack/kustomization.yaml";

/// What stands between backticks, outside of blocks.
fn quoted(guide: &str) -> Vec<String> {
    let text: String = guide.split("```").step_by(2).collect();
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rows of the table below these column titles: what the Go manager has, and what there is here.
fn rows<'a>(guide: &'a str, section: &str) -> Vec<(&'a str, &'a str)> {
    let (_, rest) = guide.split_once(&format!("\n{section}\n")).unwrap_or_else(|| panic!("{GUIDE} has no {section}"));
    let part = rest.split("\n#").next().unwrap_or_default();
    let rows = part.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(|row| row.trim_matches(['|', ' ']).split_once(" | ")).collect()
}

/// Without what a line introduces, to the end of its table.
fn without_part(text: &str, line: &str) -> String {
    let (before, rest) = text.split_once(line).unwrap_or_else(|| panic!("no {line}"));
    format!("{before}{}", rest.split_once("\n\n").map_or("", |(_, after)| after))
}

#[test]
fn its_metrics_are_those_of_the_host_and_none_of_the_go_managers_is_left_out() {
    let (guide, reference) = (read(GUIDE), read("docs/reference/metrics.md"));
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let ours = words(&guide, "ccm_", is_letter);
    assert!(ours.len() >= 5, "{ours:?}");
    let lost: Vec<&&str> = ours.iter().filter(|metric| !reference.contains(&format!("`{metric}`"))).collect();
    assert!(lost.is_empty(), "{GUIDE} names what is no metric of the host: {lost:?}");
    for theirs in [
        "openstack_api_requests_total",
        "openstack_api_request_errors_total",
        "openstack_api_request_duration_seconds",
        "cloudprovider_openstack_reconcile_total",
        "cloudprovider_openstack_reconcile_errors_total",
        "cloudprovider_openstack_reconcile_duration_seconds",
    ] {
        let rows = rows(&guide, "### Metrics and Events");
        let row = rows.iter().find(|(go, _)| go.contains(theirs));
        let (_, here) = row.unwrap_or_else(|| panic!("{GUIDE} has no row for {theirs}"));
        assert!(here.contains("ccm_"), "{theirs}: {here}");
    }
}

#[test]
fn its_flags_are_those_of_the_host() {
    let (guide, reference) = (read(GUIDE), read("docs/reference/flags.md"));
    let own: BTreeSet<String> = quoted(&guide).into_iter().filter(|word| word.starts_with("--")).collect();
    // Flags that the guide says are of no use here, and those of other programs.
    let foreign = [
        "--user-agent",
        "--use-service-account-credentials",
        "--server-side",
        "--force-conflicts",
        "--field-selector reportingComponent=cloud-provider-openstack",
    ];
    let mut seen = 0;
    for flag in own.iter().filter(|flag| !foreign.contains(&flag.as_str())) {
        let name = flag.split(['=', ' ', '*']).next().unwrap_or_default();
        assert!(reference.contains(name), "{GUIDE} names {flag}, which is no flag of the host");
        seen += 1;
    }
    assert!(seen >= 10, "{own:?}");
    let refused = rows(&guide, "### Flags").into_iter().find(|(flag, _)| flag.contains("--user-agent"));
    assert!(refused.is_some_and(|(_, here)| here.contains("leave it out")) && !reference.contains("--user-agent"));
}

#[test]
fn its_annotations_tags_reasons_and_conditions_are_those_of_the_provider_and_the_host() {
    let (guide, events) = (read(GUIDE), read("docs/reference/events.md"));
    // Other providers have reasons of their own.
    let events = without_part(&without_part(&events, "DigitalOcean:\n\n"), "Cloudlycke:\n\n");
    let annotations = read("docs/reference/annotations/openstack.md");
    let is_name = |letter: char| letter.is_ascii_lowercase() || "./-".contains(letter);
    for annotation in words(&guide, "loadbalancer.openstack.org/", is_name) {
        assert!(annotations.contains(annotation), "{GUIDE} names {annotation}, which the provider does not read");
    }
    let is_letter = |letter: char| letter.is_ascii_alphabetic();
    let mut reasons = words(&guide, "LoadBalancer", is_letter);
    reasons.extend(["SyncLoadBalancerFailed", "CloudConflict", "Synced"]);
    // Of the Go manager alone, and the type of a Service.
    let foreign = [
        "LoadBalancer",
        "LoadBalancerClass",
        "LoadBalancerSourceRangesIgnored",
        "LoadBalancerAvailabilityZonesIgnored",
        "LoadBalancerRename",
    ];
    let missing: Vec<&&str> = reasons
        .iter()
        .filter(|reason| !foreign.contains(reason) && !events.contains(&format!("`{reason}`")))
        .filter(|reason| !reason.ends_with("Failed") || !events.contains(*reason))
        .collect();
    assert!(missing.is_empty(), "{GUIDE} has reasons that nobody writes: {missing:?}");
    let provider: String = sources(&["providers/openstack/src"]).into_iter().map(|(_, text)| text).collect();
    for (tag, literal) in [
        ("kubernetes.io/service-uid/UID", "\"kubernetes.io/service-uid/\""),
        ("wasm-ccm-route:CLUSTER:NETWORK", "wasm-ccm-route:"),
        ("kube_service_", "\"kube_service_\""),
    ] {
        assert!(guide.contains(tag) && provider.contains(literal), "{tag}");
    }
    let said = "is that of a Service with the same name";
    assert!(provider.contains(said), "the condition CloudConflict of the guide");
    let host: String =
        sources(&["runtime/controllers/src", "runtime/apiserver/src"]).into_iter().map(|(_, text)| text).collect();
    for name in [
        "wasm-ccm-provider",
        "service-controller",
        "cloud-node-controller",
        "cloud-node-lifecycle-controller",
        "route_controller",
    ] {
        assert!(guide.contains(&format!("`{name}`")) && host.contains(&format!("\"{name}\"")), "{name}");
    }
}

#[test]
fn its_sections_and_keys_of_the_cloud_conf_are_read_by_the_provider() {
    let guide = read(GUIDE);
    let provider: String = sources(&["providers/openstack/src"]).into_iter().map(|(_, text)| text).collect();
    for key in [
        "auth-url",
        "tls-insecure",
        "ca-file",
        "cert-file",
        "key-file",
        "use-clouds",
        "clouds-file",
        "cloud",
        "token",
        "request-timeout",
        "monitor-delay",
        "monitor-timeout",
        "public-network-name",
        "address-sort-order",
        "internal-network-name",
        "router-id",
    ] {
        assert!(
            [format!("`{key}`"), format!("`{key} ="), format!(" {key}`")].iter().any(|told| guide.contains(told)),
            "{GUIDE} does not tell of {key}"
        );
        assert!(provider.contains(&format!("{key}\"")), "the provider does not read {key}");
    }
    for section in ["Global", "Networking", "Route", "LoadBalancer", "LoadBalancerClass", "Metadata", "BlockStorage"] {
        // Names of sections are read in any case.
        let literal = format!("\"{}\"", section.to_lowercase());
        assert!(guide.contains(&format!("`[{section}")) && provider.contains(&literal), "{section}");
    }
}

#[test]
fn its_commands_name_recipes_files_and_objects_that_there_are() {
    let objects = [
        "name: wasm-ccm",
        "cloud-config",
        "/etc/config",
        "app.kubernetes.io/name: wasm-ccm",
        "cloud-controller-manager",
    ];
    commands::lead_somewhere(GUIDE, &objects);
}

#[test]
fn it_says_what_becomes_of_each_variable_that_the_provider_declares_or_the_overlay_grants() {
    let (guide, overlay) = (read(GUIDE), read(OVERLAY));
    let rows = rows(&guide, "### Environment");
    let (_, granted) = overlay.split_once("--allow-env=").unwrap();
    let granted: BTreeSet<&str> = granted.split('\'').next().unwrap().split(',').collect();
    let provider = sources(&["providers/openstack/src"]);
    let is_letter = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    let declared: BTreeSet<&str> = provider.iter().flat_map(|(_, text)| words(text, "\"OS_", is_quoted)).collect();
    let declared: BTreeSet<&str> =
        declared.iter().map(|word| word.trim_matches('"')).filter(|word| word.chars().all(is_letter)).collect();
    assert!(declared.contains("OS_CLOUD") && declared.contains("OS_CCM_REGIONAL"), "{declared:?}");
    for variable in granted.union(&declared) {
        let row = rows.iter().find(|(theirs, _)| theirs.split(['`', '=']).any(|word| word == *variable));
        let (_, here) = row.unwrap_or_else(|| panic!("{GUIDE} has no row for {variable}"));
        assert_eq!(here.contains("`--allow-env`"), !granted.contains(variable), "{variable}: {here}");
    }
}

/// Of a literal.
fn is_quoted(letter: char) -> bool {
    letter.is_ascii_uppercase() || matches!(letter, '_' | '"')
}

/// The command of step 3 that takes the grants for the check from the rendered overlay: `kubectl` writes a flag of a list in each line, with
/// quotes where YAML needs them.
#[test]
fn the_command_that_reads_the_grants_finds_all_of_the_overlay() {
    let guide = read(GUIDE);
    let commands = commands::lines(&guide);
    let at =
        commands.iter().position(|line| line.starts_with("kubectl kustomize manifests/overlays/openstack |")).unwrap();
    let filter = commands[at + 1].strip_suffix(">grants").unwrap();
    let overlay = read(OVERLAY);
    let mut wanted: Vec<&str> =
        overlay.lines().filter_map(|line| line.split_once("value: '")?.1.strip_suffix("'}")).collect();
    // The line of the check itself has the others.
    wanted.retain(|flag| flag.starts_with("--") && !flag.starts_with("--cloud-"));
    assert!(wanted.len() >= 10, "{wanted:?}");
    wanted.extend([
        "--allow-http",
        "--limit=min-credential-bytes=4",
        "--endpoint=compute=https://nova.example.org/v2.1",
    ]);
    wanted.extend(["--proxy=*=http://proxy.example.org", "--setting=regional=true", "--credential=token=env:TOKEN"]);
    wanted.extend(["--allow-host=*.example.org", "--cluster-name=prod: 1"]);
    let mut rendered =
        "      - args:\n        - run\n        - --provider=/provider\n        - --cloud-config=/x\n".to_owned();
    for flag in &wanted {
        let quote = if flag.contains(": ") { "'" } else { "" };
        rendered.push_str(&format!("        - {quote}{flag}{quote}\n"));
    }
    let mut command = Command::new("sh");
    let mut child = command.args(["-c", filter]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(rendered.as_bytes()).unwrap();
    let run = child.wait_with_output().unwrap();
    assert!(run.status.success());
    let found = String::from_utf8(run.stdout).unwrap();
    assert_eq!(found.lines().collect::<Vec<_>>(), wanted);
}
