//! Pages that tell of everything in short: they must not lag behind what they tell of.

use super::read;

/// What stands between two texts in a file, the first time.
pub(super) fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("nothing has {before:?}"));
    rest.split(after).next().unwrap_or_default()
}

#[test]
fn the_quick_reference_has_every_command_and_the_ports_and_folders_of_the_manifests() {
    let (page, flags) = (read("docs/reference/quick-reference.md"), read("docs/reference/flags.md"));
    let commands: Vec<&str> = flags.lines().filter_map(|line| line.strip_prefix("## wasm-ccm ")).collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let is_told = [format!("`wasm-ccm {command}"), format!("`{command}`")].iter().any(|told| page.contains(told));
        assert!(is_told, "the quick reference lacks {command}");
    }
    for port in ["10258", "10260", "10268"] {
        assert!(page.contains(&format!("| {port} |")), "the quick reference lacks port {port}");
    }
    let folders = [("base", "/provider"), ("base", "/state"), ("overlays/digitalocean", "/credentials")];
    for (place, folder) in folders.into_iter().chain([("overlays/openstack", "/etc/config")]) {
        let manifest = read(&format!("manifests/{place}/deployment.yaml"));
        assert!(manifest.contains(&format!("mountPath: {folder}\n")), "{place} mounts no {folder}");
        assert!(page.contains(&format!("| `{folder}")), "the quick reference lacks {folder}");
    }
}

#[test]
fn the_guide_to_a_new_host_names_the_contract_that_it_speaks_and_what_it_says_of_another() {
    let (guide, source) = (read("docs/guides/upgrade-the-host.md"), read("runtime/sandbox/src/error.rs"));
    let contract = between(&source, "pub const CONTRACT: &str = \"", "\"");
    assert!(guide.contains(&format!("| of this checkout, with `wit/v0.2` | `{contract}` |")), "{contract}");
    assert!(super::root().join("wit/v0.2").is_dir());
    let said = source.lines().find(|line| line.contains("it is made for {needed}")).unwrap();
    let said = said.trim().trim_matches('"').replace("{needed}", "ccm:cloud@0.1.0").replace("{CONTRACT}", contract);
    assert!(guide.contains(&said), "{said}");
}

#[test]
fn the_sizes_of_the_guide_are_those_of_the_manifests() {
    let (guide, manifest) = (read("docs/guides/install.md"), read("manifests/base/deployment.yaml"));
    let resources = between(&manifest, "resources:", "securityContext:");
    let request = between(between(resources, "requests:", "limits:"), "memory: ", "Mi");
    let limit = between(between(resources, "limits:", "\0"), "memory: ", "Mi");
    assert!(guide.contains(&format!("| {request} MiB, as in the manifests | {limit} MiB, as in the manifests |")));
    let cpu = between(resources, "cpu: ", "m\n");
    assert!(guide.contains(&format!("The request for CPU is {cpu}m;")), "{cpu}");
}

/// A chart that takes what `doctor` calls wrong, or refuses what the guide allows, sends people in circles.
#[test]
fn the_guide_the_chart_and_doctor_name_the_same_versions_of_kubernetes() {
    let (guide, doctor) = (read("docs/guides/install.md"), read("runtime/diagnosis/src/doctor/server.rs"));
    let oldest = between(&read("manifests/chart/Chart.yaml"), "kubeVersion: \">=", ".0-0\"").to_owned();
    assert!(oldest.starts_with("1."), "{oldest}");
    assert!(guide.contains(&format!("The chart refuses versions before {oldest},")), "{oldest}");
    assert!(guide.contains(&format!("| ValidatingAdmissionPolicy (since {oldest}) |")), "{oldest}");
    assert_eq!(format!("1.{}", between(&doctor, "const OLDEST: u32 = ", ";")), oldest);
    let supported = between(&doctor, "const SUPPORTED: RangeInclusive<u32> = ", ";");
    let (first, last) = supported.split_once("..=").unwrap();
    assert!(guide.contains(&format!("wasm-ccm is made for Kubernetes 1.{first} to 1.{last};")), "{supported}");
}
