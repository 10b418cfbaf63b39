//! Flags of upstream that have nothing to set here. Stock manifests carry them, so they are taken, and one line says why they do nothing.

use ccm_rollout::config::duration;

/// What the value of a flag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Number,
    Duration,
    Text,
}

impl Kind {
    /// Whether upstream would take this value.
    pub(crate) fn takes(self, value: &str) -> bool {
        match self {
            Self::Bool => boolean(value).is_some(),
            Self::Number => value.parse::<f64>().is_ok(),
            Self::Duration => duration::parse(value).is_ok(),
            Self::Text => true,
        }
    }
}

/// A boolean as Go's flags take it.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// A flag without effect.
#[derive(Debug)]
pub(crate) struct Inert {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// A value that asks for what happens anyway: nothing is said about it.
    pub(crate) already: Option<bool>,
    /// Why it does nothing.
    pub(crate) why: &'static str,
}

const fn inert(name: &'static str, kind: Kind, why: &'static str) -> Inert {
    Inert { name, kind, already: None, why }
}

/// A boolean that is what is asked for, when it is this.
const fn always(name: &'static str, is: bool, why: &'static str) -> Inert {
    Inert { name, kind: Kind::Bool, already: Some(is), why }
}

const ACCESS: &str = "the health port asks nobody who they are; keep it inside the cluster with a NetworkPolicy";
const CIDRS: &str = "CIDRs for Nodes are given out by kube-controller-manager";
const CIPHERS: &str = "cipher suites and curves are those of rustls";
const GATES: &str = "there are no feature gates";
const HTTP_1: &str = "HTTP/1.1 is served";
const LOGS: &str = "log lines are written at once, to standard error";
const MIGRATION: &str =
    "there is no second lock: stop a controller in the one manager before it starts in the other (--controllers)";
const NOTHING: &str = "upstream does nothing with it either";
const PROFILES: &str = "there are no Go profiles";
const RATE: &str = "requests are not limited on this side: the API server's priority and fairness decides";
const ROUTES: &str = "there is no route controller yet";
const SNI: &str = "there is one certificate for a port";
const SOCKETS: &str = "the port is not shared";

/// All of them, in upstream's order.
pub(crate) const INERT: &[Inert] = &[
    inert(
        "min-resync-period",
        Kind::Duration,
        "no controller works through all objects again: each has a time of its own",
    ),
    inert("controller-start-interval", Kind::Duration, "controllers start together"),
    inert("kube-api-content-type", Kind::Text, "the API server is asked for JSON"),
    inert("kube-api-qps", Kind::Number, RATE),
    inert("kube-api-burst", Kind::Number, RATE),
    inert("feature-gates", Kind::Text, GATES),
    inert("external-cloud-volume-plugin", Kind::Text, NOTHING),
    always("use-service-account-credentials", false, "all controllers use one service account"),
    inert("allow-untagged-cloud", Kind::Bool, "what a cluster needs in its cloud is its provider's to say"),
    always("allocate-node-cidrs", false, CIDRS),
    inert("cidr-allocator-type", Kind::Text, CIDRS),
    always("configure-cloud-routes", false, ROUTES),
    inert("route-reconciliation-period", Kind::Duration, ROUTES),
    inert("node-sync-period", Kind::Duration, NOTHING),
    always("profiling", false, PROFILES),
    always("contention-profiling", false, PROFILES),
    always("enable-leader-migration", false, MIGRATION),
    inert("leader-migration-config", Kind::Text, MIGRATION),
    inert("cert-dir", Kind::Text, "a certificate is made in memory; name another one with --tls-cert-file"),
    inert("tls-cipher-suites", Kind::Text, CIPHERS),
    inert("tls-curve-preferences", Kind::Text, CIPHERS),
    inert("tls-sni-cert-key", Kind::Text, SNI),
    always("disable-http2-serving", true, HTTP_1),
    always("permit-port-sharing", false, SOCKETS),
    always("permit-address-sharing", false, SOCKETS),
    inert("http2-max-streams-per-connection", Kind::Number, HTTP_1),
    inert("authentication-kubeconfig", Kind::Text, ACCESS),
    inert("authentication-token-webhook-cache-ttl", Kind::Duration, ACCESS),
    inert("authentication-skip-lookup", Kind::Bool, ACCESS),
    inert("authentication-tolerate-lookup-failure", Kind::Bool, ACCESS),
    inert("client-ca-file", Kind::Text, ACCESS),
    inert("requestheader-client-ca-file", Kind::Text, ACCESS),
    inert("requestheader-allowed-names", Kind::Text, ACCESS),
    inert("requestheader-uid-headers", Kind::Text, ACCESS),
    inert("requestheader-username-headers", Kind::Text, ACCESS),
    inert("requestheader-group-headers", Kind::Text, ACCESS),
    inert("requestheader-extra-headers-prefix", Kind::Text, ACCESS),
    inert("authorization-kubeconfig", Kind::Text, ACCESS),
    inert("authorization-webhook-cache-authorized-ttl", Kind::Duration, ACCESS),
    inert("authorization-webhook-cache-unauthorized-ttl", Kind::Duration, ACCESS),
    inert("authorization-always-allow-paths", Kind::Text, ACCESS),
    inert("webhook-tls-cipher-suites", Kind::Text, CIPHERS),
    inert("webhook-tls-curve-preferences", Kind::Text, CIPHERS),
    inert("webhook-tls-sni-cert-key", Kind::Text, SNI),
    always("webhook-disable-http2-serving", true, HTTP_1),
    inert("vmodule", Kind::Text, "verbosity is one for all: --v"),
    inert("log-flush-frequency", Kind::Duration, LOGS),
    inert("log-text-split-stream", Kind::Bool, LOGS),
    inert("log-text-info-buffer-size", Kind::Text, LOGS),
    inert("log-json-split-stream", Kind::Bool, LOGS),
    inert("log-json-info-buffer-size", Kind::Text, LOGS),
];
