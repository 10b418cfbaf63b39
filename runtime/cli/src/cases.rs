//! Cases of upstream's tests of options: defaults, values, and what cannot be.

use std::time::Duration;

use clap::{CommandFactory as _, Parser as _};

use super::{Cli, Command, RunArgs};

/// Upstream's flags with their defaults, as far as they have one, and what the default here is.
const DEFAULTS: [(&str, &str, &str); 30] = [
    ("controllers", "*", "*"),
    ("leader-elect", "true", "true"),
    ("leader-elect-lease-duration", "15s", "15s"),
    ("leader-elect-renew-deadline", "10s", "10s"),
    ("leader-elect-retry-period", "2s", "2s"),
    ("leader-elect-resource-lock", "leases", "leases"),
    ("leader-elect-resource-name", "cloud-controller-manager", "cloud-controller-manager"),
    ("leader-elect-resource-namespace", "kube-system", "kube-system"),
    ("cloud-provider", "", ""),
    ("cloud-config", "", ""),
    ("cluster-name", "kubernetes", "kubernetes"),
    ("cluster-cidr", "", ""),
    ("node-monitor-period", "5s", "5s"),
    ("node-status-update-frequency", "5m", "5m"),
    // QUIRK-30, QUIRK-36: lookups and balancers of others must not wait for one.
    ("concurrent-node-syncs", "1", "128"),
    ("concurrent-node-status-updates", "0", "0"),
    ("concurrent-service-syncs", "1", "32"),
    ("master", "", ""),
    ("kubeconfig", "", ""),
    ("bind-address", "0.0.0.0", "0.0.0.0"),
    ("secure-port", "10258", "10258"),
    ("tls-cert-file", "", ""),
    ("authentication-kubeconfig", "", ""),
    ("authentication-token-webhook-cache-ttl", "10s", "10s"),
    ("authorization-webhook-cache-authorized-ttl", "10s", "10s"),
    ("authorization-webhook-cache-unauthorized-ttl", "10s", "10s"),
    ("authorization-always-allow-paths", "/healthz,/readyz,/livez", "/healthz,/readyz,/livez"),
    ("webhooks", "", ""),
    ("webhook-bind-address", "0.0.0.0", "0.0.0.0"),
    ("webhook-secure-port", "10260", "10260"),
];

#[test]
fn case_247_without_flags_everything_has_its_default() {
    let cli = Cli::command();
    let run = cli.find_subcommand("run").unwrap();
    let default = |flag: &str| {
        let arg = run.get_arguments().find(|arg| arg.get_long() == Some(flag));
        let arg = arg.unwrap_or_else(|| panic!("there is no --{flag}"));
        arg.get_default_values().first().map_or("", |value| value.to_str().unwrap()).to_owned()
    };
    for (flag, _, here) in DEFAULTS {
        assert_eq!(default(flag), here, "--{flag}");
    }
    let others: Vec<&str> =
        DEFAULTS.iter().filter(|(_, upstream, here)| upstream != here).map(|(flag, ..)| *flag).collect();
    assert_eq!(others, ["concurrent-node-syncs", "concurrent-service-syncs"], "stand in docs/compatibility.md");
}

fn parsed(flags: &[&str]) -> Result<Box<RunArgs>, clap::Error> {
    match Cli::try_parse_from([&["wasm-ccm", "run", "--provider=a.wasm"], flags].concat())?.command {
        Command::Run(args) => Ok(args),
        _ => panic!("another command"),
    }
}

#[test]
fn case_248_each_flag_lands_in_its_setting() {
    let args = parsed(&[
        "--controllers=foo,bar",
        "--leader-elect=false",
        "--cloud-provider=gce",
        "--cloud-config=/cloud-config",
        "--cluster-name=k8s",
        "--cluster-cidr=1.2.3.4/24",
        "--service-cluster-ip-range=10.96.0.0/16,fd96::/112",
        "--reserved-address=192.0.2.64/28,192.0.2.9",
        "--reserved-address=2001:db8::9",
        "--node-monitor-period=7s",
        "--node-status-update-frequency=10m",
        "--concurrent-node-syncs=2",
        "--concurrent-node-status-updates=3",
        "--concurrent-service-syncs=4",
        "--master=192.0.2.10",
        "--kubeconfig=/kubeconfig",
        "--bind-address=192.0.2.10",
        "--secure-port=10001",
        "--tls-cert-file=/crt",
        "--tls-private-key-file=/key",
        "--v=6",
    ])
    .unwrap();
    let seconds = Duration::from_secs;
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().unwrap().display().to_string();
    let record = &args.provider.record;
    assert_eq!(
        (args.controllers.as_slice(), args.leader.leader_elect),
        (&["foo".to_owned(), "bar".to_owned()][..], false)
    );
    assert_eq!(
        (record.component.cloud_provider.as_deref(), path(&record.config.cloud_config).as_str()),
        (Some("gce"), "/cloud-config")
    );
    assert_eq!((args.cluster_name.as_str(), args.cluster_cidr.as_slice()), ("k8s", &["1.2.3.4/24".to_owned()][..]));
    let ranges: Vec<String> = args.service_cluster_ip_range.iter().map(ToString::to_string).collect();
    assert_eq!(ranges, ["10.96.0.0/16", "fd96::/112"]);
    let reserved: Vec<String> = args.reserved_address.iter().map(ToString::to_string).collect();
    assert_eq!(reserved, ["192.0.2.64/28", "192.0.2.9/32", "2001:db8::9/128"]);
    assert_eq!(
        (args.node_lifecycle.settings().monitor_period, args.node_status_update_frequency),
        (seconds(7), seconds(600))
    );
    assert_eq!((args.concurrent_node_syncs.get(), args.concurrent_node_status_updates), (2, 3));
    assert_eq!(args.service.settings().concurrent_syncs.get(), 4);
    assert_eq!((args.master.as_deref(), path(&args.kubeconfig).as_str()), (Some("192.0.2.10"), "/kubeconfig"));
    assert_eq!((args.bind_address.to_string().as_str(), args.secure_port, args.v), ("192.0.2.10", 10_001, 6));
    assert_eq!((path(&args.tls_cert_file).as_str(), path(&args.tls_private_key_file).as_str()), ("/crt", "/key"));
}

/// Copied from a manifest whose container had the variable.
#[test]
fn a_cluster_name_that_kubernetes_did_not_expand_is_refused() {
    let error = parsed(&["--cluster-name=$(CLUSTER_NAME)"]).err().unwrap().to_string();
    assert!(error.contains("--cluster-name") && error.contains("write the name of the cluster itself"), "{error}");
}

/// What the width of the refresh is then, the controller's own tests say (case 249).
#[test]
fn case_252_which_widths_of_the_node_controller_can_be() {
    let widths = |flags: &[&str]| {
        parsed(flags).ok().map(|args| (args.concurrent_node_syncs.get(), args.concurrent_node_status_updates))
    };
    type Row<'a> = (&'a [&'a str], Option<(usize, usize)>);
    let rows: [Row<'_>; 6] = [
        (&["--concurrent-node-syncs=-5"], None),
        (&["--concurrent-node-syncs=0"], None),
        (&["--concurrent-node-syncs=5", "--concurrent-node-status-updates=0"], Some((5, 0))),
        (&["--concurrent-node-syncs=5", "--concurrent-node-status-updates=5"], Some((5, 5))),
        (&["--concurrent-node-syncs=5", "--concurrent-node-status-updates=-1"], None),
        (&[], Some((128, 0))),
    ];
    for (flags, wanted) in rows {
        assert_eq!(widths(flags), wanted, "{flags:?}");
    }
}
