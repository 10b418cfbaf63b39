//! Settings: the environment variables of the Go manager under their own names.

use ccm_sdk::meta::{Setting, Source};
use ccm_sdk::types::Problem;

use crate::kind::Kind;
use ccm_sdk::ordered;

const CLUSTER_ID: &str = "cluster-id";
const VPC: &str = "cluster-vpc-id";
const REGION: &str = "region";
const DEFAULT_TYPE: &str = "default-lb-type";
const FIREWALL_NAME: &str = "public-access-firewall-name";
const FIREWALL_TAGS: &str = "public-access-firewall-tags";
pub(crate) const FIREWALL_TAGS_VARIABLE: &str = "PUBLIC_ACCESS_FIREWALL_TAGS";
const QPS: &str = "api-rate-limit-qps";
const DEBUG_ADDRESS: &str = "debug-addr";
const METRICS_ADDRESS: &str = "metrics-addr";

/// Setting, environment variable, purpose.
const SETTINGS: [(&str, &str, &str); 9] = [
    (CLUSTER_ID, "DO_CLUSTER_ID", "The cluster's load balancers get the tag `k8s:` and this."),
    (VPC, "DO_CLUSTER_VPC_ID", "UUID of the VPC that load balancers are made in. Default: that of the region."),
    (REGION, "REGION", "Slug of the region that load balancers are made in. Default: that of the cluster's droplets."),
    (DEFAULT_TYPE, "DEFAULT_LB_TYPE", "Type of load balancers whose Service names none."),
    (FIREWALL_NAME, "PUBLIC_ACCESS_FIREWALL_NAME", "Firewall that opens what Services need. Needs its tags."),
    (FIREWALL_TAGS, FIREWALL_TAGS_VARIABLE, "Tags of the droplets behind that firewall, joined by commas."),
    (QPS, "DO_API_RATE_LIMIT_QPS", "Without effect: the host keeps the budget."),
    (DEBUG_ADDRESS, "DEBUG_ADDR", "Without effect: the host tells its health."),
    (METRICS_ADDRESS, "METRICS_ADDR", "Without effect: the host has metrics."),
];

/// What the tags of all clusters begin with.
pub(crate) const CLUSTER_TAG: &str = "k8s:";

/// What the operator asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Tag of all load balancers of the cluster.
    pub(crate) tag: Option<String>,
    pub(crate) vpc: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) default_type: Kind,
    pub(crate) firewall: Option<Firewall>,
}

/// The public access firewall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Firewall {
    pub(crate) name: String,
    /// In order, each once.
    pub(crate) tags: Vec<String>,
}

pub(crate) fn settings() -> Vec<Setting> {
    let setting = |&(name, variable, purpose): &(&str, &str, &str)| Setting {
        default_value: (name == DEFAULT_TYPE).then(|| Kind::Network.text().to_owned()),
        ..Setting::new(name, purpose, Source::variable(variable))
    };
    SETTINGS.iter().map(setting).collect()
}

/// Reads the settings, and tells all that is wrong with them. Where something is wrong, it is as if it were not set.
pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> (Config, Vec<Problem>) {
    let get = |name: &str| get(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let mut problems = vec![];
    let default_type = get(DEFAULT_TYPE).map_or(Kind::Network, |text| {
        Kind::parse(&text).unwrap_or_else(|| {
            let message = format!("{text:?} is no type of load balancer, and REGIONAL_NETWORK is taken; allowed are REGIONAL, REGIONAL_NETWORK");
            problems.push(Problem::harmless(DEFAULT_TYPE, message));
            Kind::Network
        })
    });
    let tag = get(CLUSTER_ID).map(|id| format!("{CLUSTER_TAG}{id}")).filter(|tag| {
        let good = is_tag(tag);
        if !good {
            let message = "tags have letters, digits, `:`, `-` and `_`, at most 255; load balancers get no tag";
            problems.push(Problem::harmless(CLUSTER_ID, message));
        }
        good
    });
    let firewall = match (get(FIREWALL_NAME), get(FIREWALL_TAGS).map(|tags| list(&tags))) {
        (None, None) => None,
        (Some(name), Some(tags)) if !tags.is_empty() => {
            problems.extend(wrong_firewall(&name, &tags));
            Some(Firewall { name, tags })
        }
        (Some(_), _) => {
            problems.push(missing(FIREWALL_TAGS, FIREWALL_TAGS_VARIABLE, "PUBLIC_ACCESS_FIREWALL_NAME"));
            None
        }
        (None, Some(_)) => {
            problems.push(missing(FIREWALL_NAME, "PUBLIC_ACCESS_FIREWALL_NAME", FIREWALL_TAGS_VARIABLE));
            None
        }
    };
    for (name, instead) in [
        (QPS, "has no effect: the host's own budget for a cloud limits requests"),
        (DEBUG_ADDRESS, "has no effect: ask the host's own health page"),
        (METRICS_ADDRESS, "has no effect: the host's own metrics have all requests"),
    ] {
        if get(name).is_some() {
            problems.push(Problem::harmless(name, instead));
        }
    }
    (Config { tag, vpc: get(VPC), region: get(REGION), default_type, firewall }, problems)
}

fn missing(name: &str, variable: &str, other: &str) -> Problem {
    Problem::fatal(name, format!("{variable} is missing: {other} is set, and the firewall needs both"))
}

fn wrong_firewall(name: &str, tags: &[String]) -> Vec<Problem> {
    let mut problems = vec![];
    let mut letters = name.bytes();
    let starts = letters.next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !starts || name.len() < 2 || !letters.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')) {
        let message = format!(
            "{name:?} is no name of a firewall: letters, digits, `.` and `-`, beginning with a letter or digit"
        );
        problems.push(Problem::fatal(FIREWALL_NAME, message));
    }
    for tag in tags.iter().filter(|tag| !is_tag(tag)) {
        let message = format!("{tag:?} is no tag: letters, digits, `:`, `-` and `_`, at most 255");
        problems.push(Problem::fatal(FIREWALL_TAGS, message));
    }
    problems
}

pub(crate) fn is_tag(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-' | b'_');
    !text.is_empty() && text.len() <= 255 && text.bytes().all(letter)
}

fn list(text: &str) -> Vec<String> {
    let items: Vec<String> =
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect();
    ordered::list(items)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn config() -> Config {
        Config { tag: None, vpc: None, region: Some("nyc3".to_owned()), default_type: Kind::Network, firewall: None }
    }

    fn reading(values: &[(&str, &str)]) -> (Config, Vec<Problem>) {
        read(|name| values.iter().find_map(|(key, value)| (*key == name).then(|| (*value).to_owned())))
    }

    #[test]
    fn what_is_not_set_has_the_defaults_of_the_go_manager() {
        assert_eq!(reading(&[]), (Config { region: None, ..config() }, vec![]));
    }

    #[test]
    fn every_variable_is_read_and_blanks_do_not_count() {
        let (config, problems) = reading(&[
            (CLUSTER_ID, "0caf4c4e"),
            (VPC, " c33931f2 "),
            (REGION, "fra1\n"),
            (DEFAULT_TYPE, "REGIONAL"),
            (FIREWALL_NAME, "k8s-public"),
            (FIREWALL_TAGS, "workers, edge,,workers"),
        ]);
        assert_eq!(problems, []);
        let firewall = Firewall { name: "k8s-public".to_owned(), tags: vec!["edge".to_owned(), "workers".to_owned()] };
        let expected = Config {
            tag: Some("k8s:0caf4c4e".to_owned()),
            vpc: Some("c33931f2".to_owned()),
            region: Some("fra1".to_owned()),
            default_type: Kind::Regional,
            firewall: Some(firewall),
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn half_a_firewall_is_refused_and_the_message_names_the_other_half() {
        for (set, missing, variable) in [
            (FIREWALL_NAME, FIREWALL_TAGS, "PUBLIC_ACCESS_FIREWALL_TAGS is missing"),
            (FIREWALL_TAGS, FIREWALL_NAME, "PUBLIC_ACCESS_FIREWALL_NAME is missing"),
        ] {
            let (config, problems) = reading(&[(set, "k8s")]);
            assert_eq!(config.firewall, None);
            assert_eq!(problems.len(), 1);
            assert!(problems[0].fatal && problems[0].field == missing, "{problems:?}");
            assert!(problems[0].message.starts_with(variable), "{problems:?}");
        }
    }

    #[test]
    fn what_cannot_be_or_has_no_effect_is_told() {
        for (name, value, fatal) in [
            (DEFAULT_TYPE, "GLOBAL", false),
            (CLUSTER_ID, "with blank", false),
            (QPS, "5", false),
            (DEBUG_ADDRESS, ":1", false),
            (METRICS_ADDRESS, ":2", false),
        ] {
            let (_, problems) = reading(&[(name, value)]);
            let told: Vec<_> = problems.iter().map(|problem| (problem.field.as_str(), problem.fatal)).collect();
            assert_eq!(told, [(name, fatal)]);
        }
        let (_, problems) = reading(&[(FIREWALL_NAME, "-x"), (FIREWALL_TAGS, "a b")]);
        assert!(problems.len() == 2 && problems.iter().all(|problem| problem.fatal), "{problems:?}");
    }
}
