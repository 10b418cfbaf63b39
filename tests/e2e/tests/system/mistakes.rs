//! Flags and files that cannot be: the process ends at once, with exit code 1 and one line that names them.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use ccm_e2e::finish::finish;
use ccm_e2e::host::program;

use crate::stage::{LIMIT, cloudlycke};

/// Runs the program to its end, which must come.
pub(crate) fn ended(command: &mut Command) -> Output {
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()), LIMIT).unwrap()
}

/// Runs the program to its end; returns its code and what it wrote to standard output and standard error.
pub(crate) fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = ended(Command::new(program().unwrap()).args(args));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The one line that says why, which must be there.
pub(crate) fn complaint(stderr: &str) -> &str {
    let mut lines = stderr.lines().filter(|line| line.starts_with("error: "));
    let line = lines.next().unwrap_or_else(|| panic!("no error in {stderr:?}"));
    assert_eq!(lines.next(), None, "more than one error in {stderr:?}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    line
}

#[test]
fn a_flag_or_a_local_file_that_cannot_be_ends_the_process_with_code_1_and_a_line_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    // Nobody listens there; nothing here comes as far as that.
    let kubeconfig = file("kubeconfig", KUBECONFIG.as_bytes());
    let provider = format!("--provider={}", cloudlycke().display());
    let flag = |name: &str, path: PathBuf| format!("--{name}={}", path.display());
    let cases: Vec<(&str, Vec<String>, Vec<&str>)> = vec![
        ("no provider", vec![], vec!["--provider"]),
        ("empty source", vec!["--provider=".into()], vec!["source", "configmap:NAMESPACE/NAME"]),
        ("bad source", vec!["--provider=configmap:name".into()], vec!["configmap:name", "NAMESPACE/NAME"]),
        (
            "source in no namespace that can be",
            vec!["--provider=configmap:kube_system/cloud".into()],
            vec!["the namespace \"kube_system\"", "63"],
        ),
        ("case_257 a name of nothing", vec![provider.clone(), "--cloud-provider=".into()], vec!["--cloud-provider"]),
        (
            "case_257 one port for two",
            vec![provider.clone(), "--secure-port=10260".into()],
            vec!["--webhook-secure-port and --secure-port are both 10260"],
        ),
        (
            "case_257 an unknown webhook",
            vec![provider.clone(), "--webhooks=*,no-such".into()],
            vec!["--webhooks", "\"no-such\""],
        ),
        ("unknown flag", vec![provider.clone(), "--no-such-flag".into()], vec!["--no-such-flag"]),
        ("no syncs", vec![provider.clone(), "--concurrent-node-syncs=0".into()], vec!["--concurrent-node-syncs"]),
        (
            "a period without unit",
            vec![provider.clone(), "--node-status-update-frequency=5".into()],
            vec!["--node-status-update-frequency", "'5'"],
        ),
        (
            "unknown controller",
            vec![provider.clone(), "--controllers=*,node".into()],
            vec!["--controllers", "\"node\"", "cloud-node-controller"],
        ),
        (
            "a credential in a variable that is too short, which nobody can mend while the process waits",
            vec![provider.clone(), "--limit=min-credential-bytes=1MiB".into(), "--credential=token=env:PATH".into()],
            vec!["credential token", "PATH", "min-credential-bytes"],
        ),
        (
            "unknown limit",
            vec![provider.clone(), "--limit=memory=1MiB".into()],
            vec!["--limit", "memory", "memory-bytes"],
        ),
        ("limit without value", vec![provider.clone(), "--limit=memory-bytes".into()], vec!["--limit", "NAME=VALUE"]),
        (
            "limit of nothing",
            vec![provider.clone(), "--limit=memory-bytes=0".into()],
            vec!["memory-bytes must be above zero"],
        ),
        ("limit that is no size", vec![provider.clone(), "--limit=memory-bytes=lots".into()], vec!["--limit", "lots"]),
        (
            "absent cloud-config",
            vec![provider.clone(), flag("cloud-config", folder.path().join("absent"))],
            vec!["cloud-config", "absent", "No such file"],
        ),
        (
            "cloud-config that is a folder",
            vec![provider.clone(), flag("cloud-config", folder.path().into())],
            vec!["cloud-config", folder.path().to_str().unwrap()],
        ),
        (
            "cloud-config without text",
            vec![provider.clone(), flag("cloud-config", file("binary", b"\xff\xfe\x00"))],
            vec!["cloud-config", "binary"],
        ),
        ("absent list", vec![flag("providers", folder.path().join("absent.yaml"))], vec!["--providers", "absent.yaml"]),
        (
            "list with an unknown field",
            vec![flag("providers", file("field.yaml", b"- {source: a.wasm, colour: red}"))],
            { vec!["--providers", "field.yaml", "colour"] },
        ),
        (
            "list that is no YAML",
            vec![flag("providers", file("bad.yaml", b"- {source: a.wasm\n- b"))],
            vec!["--providers", "bad.yaml", "line"],
        ),
        ("empty list", vec![flag("providers", file("empty.yaml", b"[]"))], vec!["--providers", "is empty"]),
        ("list and flag", vec![provider.clone(), flag("providers", file("both.yaml", b"[]"))], vec!["--provider"]),
        (
            "times of an election",
            vec![provider.clone(), "--leader-elect-lease-duration=5s".to_owned()],
            vec!["--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=10s", "must be longer"],
        ),
        (
            "certificate without key",
            vec![provider.clone(), flag("tls-cert-file", file("tls.crt", b""))],
            vec!["--tls-private-key-file"],
        ),
    ];
    for (name, flags, says) in cases {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let port =
            if flags.iter().any(|flag| flag.starts_with("--secure-port=")) { None } else { Some("--secure-port=0") };
        let args = ["run", &kubeconfig].into_iter().chain(port).chain(flags.iter().map(String::as_str));
        let (code, stdout, stderr) = run(&args.collect::<Vec<_>>());
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{name}: {stderr}");
        // About flags there is more to read: a hint, and the usage.
        complaint(&stderr);
        for part in says {
            assert!(stderr.contains(part), "{name}: {stderr:?} does not say {part:?}");
        }
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_ends_the_process_with_code_1_and_a_line_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "clusters: 7").unwrap();
    // Once a panic: kube takes it for UTF-16.
    let odd = folder.path().join("odd");
    std::fs::write(&odd, b"\xff\xfe\0").unwrap();
    let provider = format!("--provider={}", cloudlycke().display());
    for path in [folder.path().join("absent"), broken, odd] {
        let flag = format!("--kubeconfig={}", path.display());
        let (code, _, stderr) = run(&["run", &provider, &flag, "--secure-port=0"]);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(complaint(&stderr).contains(&format!("--kubeconfig {}", path.display())), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

/// kube reads a proxy from the environment as well, cannot use it, and says so with its password.
#[test]
fn a_proxy_in_the_kubeconfig_ends_the_process_with_code_1_and_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let proxied = KUBECONFIG.replace("server:", "proxy-url: 'http://u:hunter2@proxy.test:1', server:");
    std::fs::write(&path, proxied).unwrap();
    let flags = [format!("--provider={}", cloudlycke().display()), format!("--kubeconfig={}", path.display())];
    let (code, _, stderr) = run(&["run", &flags[0], &flags[1], "--secure-port=0"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(complaint(&stderr).contains("proxy-url") && !stderr.contains("hunter2"), "{stderr}");
}

/// As upstream: no cluster but the one that the flags or the pod name, whatever the shell has exported.
#[test]
fn without_kubeconfig_outside_a_pod_the_process_ends_with_code_1_and_says_that_the_variable_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("kubeconfig");
    std::fs::write(&good, KUBECONFIG).unwrap();
    let provider = format!("--provider={}", cloudlycke().display());
    let mut command = Command::new(program().unwrap());
    let output = ended(command.args(["run", &provider, "--secure-port=0"]).env("KUBECONFIG", good));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for part in ["not a pod with a service account", "--kubeconfig FILE", "KUBECONFIG is not read"] {
        assert!(complaint(&stderr).contains(part), "{stderr}");
    }
}

#[test]
fn a_port_that_is_in_use_ends_the_process_with_code_1_and_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let flags = [
        format!("--provider={}", cloudlycke().display()),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--secure-port={}", listener.local_addr().unwrap().port()),
    ];
    let (code, _, stderr) = run(&["run", &flags[0], &flags[1], &flags[2], "--bind-address=127.0.0.1"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(complaint(&stderr).contains("--bind-address and --secure-port"), "{stderr}");
}

/// Of a cluster that is not there.
pub(crate) const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
";
