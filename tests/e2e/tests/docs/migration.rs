//! What the guide for who comes from DigitalOcean's Go manager must say: nothing tells people of these afterwards.

use super::{commands, read, sources};

const GUIDE: &str = "docs/guides/migrate-from-digitalocean.md";

/// The six metrics of the Go manager that have no namesake here, and the series of ours that say the same.
const METRICS: [(&str, &str); 6] = [
    ("firewall_api_operations_total", "ccm_cloud_requests_total"),
    ("firewall_api_operation_duration_seconds", "ccm_cloud_request_duration_seconds"),
    ("firewall_resource_syncs_total", "ccm_cluster_syncs_total"),
    ("firewall_reconciles_total", "ccm_cluster_syncs_total"),
    ("firewall_resource_sync_duration_seconds", "ccm_cluster_sync_duration_seconds"),
    ("firewall_reconcile_duration_seconds", "ccm_cluster_sync_duration_seconds"),
];

/// The part of the guide below a heading.
fn section<'a>(guide: &'a str, heading: &str) -> &'a str {
    let (_, rest) = guide.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{GUIDE} has no {heading}"));
    let level = heading.split(' ').next().unwrap_or_default();
    rest.split(&format!("\n{level} ")).next().unwrap_or_default()
}

#[test]
fn it_says_what_becomes_of_the_six_metrics_and_of_ours_all_exist() {
    let (guide, reference) = (read(GUIDE), read("docs/reference/metrics.md"));
    let rows = section(&guide, "### Metrics and Events");
    for (theirs, ours) in METRICS {
        let row = rows.lines().find(|line| line.starts_with("| ") && line.contains(theirs));
        let row = row.unwrap_or_else(|| panic!("{GUIDE} has no row for {theirs}"));
        let (_, here) = row[2..].split_once(" | ").unwrap();
        assert!(here.contains(ours), "{theirs}: {row}");
        assert!(reference.contains(ours), "{ours} is no metric of the host");
    }
}

#[test]
fn it_says_what_becomes_of_firewall_managed_on_load_balancers_and_the_provider_reads_it() {
    let guide = read(GUIDE);
    let annotation = "kubernetes.digitalocean.com/firewall-managed";
    let rows = section(&guide, "### Firewall");
    let row = rows.lines().find(|line| line.starts_with("| ") && line.contains(&format!("`{annotation}: \"false\"`")));
    let row = row.unwrap_or_else(|| panic!("{GUIDE} has no row for {annotation}"));
    for part in ["`NodePort`", "ignores it on `LoadBalancer` Services", "**closed**", "remove the annotation"] {
        assert!(row.contains(part), "{part:?} is not in {row}");
    }
    assert!(rows.contains("kubectl get services"), "nothing finds the Services that it concerns");
    let provider = sources(&["providers/digitalocean/src"]);
    assert!(provider.iter().any(|(_, text)| text.contains("firewall-managed")), "the provider does not read it");
}

#[test]
fn it_says_from_which_component_events_come_and_the_program_writes_them_so() {
    let guide = read(GUIDE);
    let text = section(&guide, "### Metrics and Events");
    let names = ["wasm-ccm-provider", "service-controller", "cloud-node-controller", "cloud-node-lifecycle-controller"];
    let program = sources(&["runtime/apiserver/src", "runtime/controllers/src"]);
    for name in names {
        assert!(text.contains(&format!("`{name}`")), "{name} is not in {text}");
        let literal = format!("\"{name}\"");
        assert!(program.iter().any(|(_, text)| text.contains(&literal)), "no Event comes from {name}");
    }
    assert!(text.contains("`digitalocean-cloud-controller-manager`") && text.contains("reportingComponent"), "{text}");
}

/// A variable that `check` does not see is one that it does not warn of.
#[test]
fn its_check_plan_and_doctor_are_granted_the_variables_of_the_overlay_and_it_says_what_becomes_of_each() {
    let (guide, overlay) = (read(GUIDE), read("manifests/overlays/digitalocean/kustomization.yaml"));
    let granted = overlay.split_once("--allow-env=").unwrap().1.split('\'').next().unwrap();
    let lines: Vec<&str> = guide.lines().filter_map(|line| line.trim().strip_prefix("--allow-env=")).collect();
    assert_eq!(lines, [granted; 3]);
    let rows = section(&guide, "### Environment and Secret");
    let row = |variable: &str| {
        let row = rows.lines().find(|line| line.starts_with("| ") && line.contains(&format!("`{variable}`")));
        row.unwrap_or_else(|| panic!("{GUIDE} has no row for {variable}"))
    };
    let settings = read("manifests/overlays/digitalocean/settings.env");
    let named: Vec<&str> =
        settings.lines().filter_map(|line| line.strip_prefix('#')?.split_once('=')).map(|(name, _)| name).collect();
    for variable in granted.split(',') {
        // What the file does not propose has no effect.
        assert_eq!(row(variable).contains("leave it out: "), !named.contains(&variable), "{variable}");
    }
    // Without one of them, `plan` shows the plan of another host.
    let readme = read("README.md");
    let patterns: Vec<&str> =
        readme.split_once("--allow-env=").unwrap().1.split('\'').next().unwrap().split(',').collect();
    for variable in named {
        let covers = |pattern: &&str| match pattern.strip_suffix('*') {
            Some(start) => variable.starts_with(start),
            None => variable == *pattern,
        };
        assert!(patterns.iter().any(covers), "README.md grants no {variable}: {patterns:?}");
    }
}

#[test]
fn its_commands_name_recipes_files_and_objects_that_there_are() {
    let objects =
        ["name: wasm-ccm", "secretName: digitalocean", "app.kubernetes.io/name: wasm-ccm", "cloud-controller-manager"];
    commands::lead_somewhere(GUIDE, &objects);
}

/// They were among those that stay the same: the probes of our manifests then ask where nobody answers, and no pod is ever ready.
#[test]
fn no_flag_is_copied_that_the_probes_of_the_manifests_do_not_follow() {
    for guide in [GUIDE, "docs/guides/migrate-from-openstack.md"] {
        let text = read(guide);
        for flag in ["`--secure-port`", "`--bind-address`"] {
            let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ") && line.contains(flag)).collect();
            let [row] = rows.as_slice() else { panic!("{guide}: {flag}: {rows:?}") };
            assert!(row.starts_with(&format!("| {flag} | leave it out: the probes ")), "{guide}: {row}");
        }
    }
}
