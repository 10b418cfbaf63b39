//! The flags of each component, and why they are what they are.

use std::path::Path;

use crate::{Settings, audit};

/// The base of every component's relative paths is the work folder: a socket's path is limited to 107 bytes, and a
/// temporary folder may be deep. etcd wants `host:port` in some of these URLs, hence the `:0`; the file is called `etcd:0`.
const ETCD: &str = "unix://etcd:0";
const ETCD_PEER: &str = "unix://peer:0";

/// The folder of its data.
pub(crate) const ETCD_DATA: &str = "etcd-data";

pub(crate) const KWOK_STAGES: &str = include_str!("kwok-stages.yaml");

/// etcd on Unix sockets: no port to choose. Without fsync, since nothing here has to survive a power cut.
pub(crate) fn etcd() -> Vec<String> {
    vec![
        "--unsafe-no-fsync".to_owned(),
        format!("--data-dir={ETCD_DATA}"),
        format!("--listen-client-urls={ETCD}"),
        format!("--advertise-client-urls={ETCD}"),
        format!("--listen-peer-urls={ETCD_PEER}"),
        format!("--initial-advertise-peer-urls={ETCD_PEER}"),
        format!("--initial-cluster=default={ETCD_PEER}"),
    ]
}

/// kube-apiserver. Priority and fairness, watch cache and request limits stay at their defaults: they are part of what
/// is tested.
pub(crate) fn api_server(port: u16, settings: &Settings) -> Vec<String> {
    // Without kube-controller-manager no tokens of service accounts are made.
    let mut disabled = "ServiceAccount".to_owned();
    if !settings.controller_manager {
        disabled.push_str(",TaintNodesByCondition");
    }
    let mut flags = vec![
        format!("--etcd-servers={ETCD}"),
        format!("--secure-port={port}"),
        // We hold the port bound, so that nobody else gets it, also while the API server is stopped.
        "--permit-port-sharing".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        // The default is the address of the default route, which a machine may lack; loopback cannot be published as
        // an endpoint, so nobody is asked to.
        "--advertise-address=127.0.0.1".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--tls-cert-file=api-server.crt".to_owned(),
        "--tls-private-key-file=api-server.key".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-account-key-file=service-account.pub".to_owned(),
        "--service-account-signing-key-file=service-account.key".to_owned(),
        "--token-auth-file=tokens.csv".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        format!("--disable-admission-plugins={disabled}"),
    ];
    if settings.audit {
        flags.extend(audit::flags());
    }
    flags.extend(settings.api_server_flags.iter().cloned());
    flags
}

/// kube-scheduler: the only one, so without election, and without a port of its own.
pub(crate) fn scheduler(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ]
}

/// kube-controller-manager: the only one, so without election, and without a port of its own. Its default of 20
/// requests a second would make tests measure that limit.
pub(crate) fn controller_manager(kubeconfig: &Path, settings: &Settings) -> Vec<String> {
    let mut flags = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--cloud-provider=external".to_owned(),
        "--kube-api-qps=500".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ];
    flags.extend(settings.controller_manager_flags.iter().cloned());
    flags
}

/// kwok. It has no stages of its own when it is started as a plain program.
pub(crate) fn kwok(kubeconfig: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--config=kwok-stages.yaml".to_owned(),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
        "--node-lease-duration-seconds=40".to_owned(),
        "--cidr=10.244.0.0/16".to_owned(),
    ]
}
