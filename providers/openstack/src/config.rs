//! `cloud.conf`, and `clouds.yaml` where it names one: what the operator asked for.
//!
//! Every mistake is told at once, with its section and key. Keys that nobody knows do no harm, as in the Go manager, but are told with
//! the nearest one that there is. The file may have sections of other programs.

pub(crate) mod balancers;
mod clouds;
mod identity;
pub(crate) mod networking;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use ccm_sdk::config::Section;
use ccm_sdk::types::Problem;
use ccm_sdk::{duration, settings};

pub(crate) use self::balancers::{Balancers, Class};
pub(crate) use self::identity::{Identity, Named};
pub(crate) use self::networking::Networking;

/// The file that `--cloud-config` names.
pub(crate) const FILE: &str = "cloud-config";
/// The file that `clouds-file` names.
pub(crate) const CLOUDS: &str = "clouds";
/// Which entry of that file is meant.
pub(crate) const CLOUD: &str = "cloud";
/// Whether provider IDs carry the region.
pub(crate) const REGIONAL: &str = "regional";

ccm_sdk::words! {
    /// Which of its places a service is asked at.
    pub(crate) enum Interface {
        Public = "public",
        Internal = "internal",
        Admin = "admin",
    }
}

/// What the operator asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Who logs in, and to what.
    pub(crate) identity: Identity,
    /// Empty: any, and Nodes have none.
    pub(crate) region: String,
    pub(crate) interface: Interface,
    /// Provider IDs carry the region.
    pub(crate) regional: bool,
    pub(crate) networking: Networking,
    /// The router that has the routes; none: there are no routes.
    pub(crate) router: Option<String>,
    pub(crate) balancers: Balancers,
    /// `[LoadBalancerClass "NAME"]`.
    pub(crate) classes: Vec<(String, Class)>,
}

/// Where the configuration comes from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sources<'a> {
    pub(crate) conf: Option<&'a str>,
    pub(crate) clouds: Option<&'a str>,
    /// The entry of `clouds`.
    pub(crate) cloud: Option<&'a str>,
    pub(crate) regional: Option<&'a str>,
}

/// The configuration now, and what is wrong with it.
pub(crate) fn current() -> (Config, Vec<Problem>) {
    #[cfg(test)]
    if let Some(config) = tests::installed() {
        return (config, vec![]);
    }
    let (conf, clouds) = (settings::file(FILE), settings::file(CLOUDS));
    let (cloud, regional) = (settings::get(CLOUD), settings::get(REGIONAL));
    read(Sources {
        conf: conf.as_deref(),
        clouds: clouds.as_deref(),
        cloud: cloud.as_deref(),
        regional: regional.as_deref(),
    })
}

/// The configuration now.
pub(crate) fn configured() -> Config {
    current().0
}

/// Reads it all, and tells all that is wrong. What is wrong is as if it were not there.
pub(crate) fn read(sources: Sources<'_>) -> (Config, Vec<Problem>) {
    let mut problems = vec![];
    if sources.conf.is_none() && sources.clouds.is_none() {
        problems
            .push(Problem::fatal(FILE, "no OpenStack cloud provider config file given; give it with --cloud-config"));
    }
    let mut root = Section::ini(FILE, sources.conf, &mut problems).tolerant();
    let mut global = root.section("global", Global::read);
    let networking = root.section("networking", networking::read);
    let router = root.section("route", |route| route.text("router-id"));
    root.section("metadata", metadata);
    let balancers = root.section("loadbalancer", balancers::read);
    let classes = root.named("loadbalancerclass", balancers::class);
    // Of the program that attaches volumes.
    root.ignore("blockstorage");
    root.finish();
    if let Some(entry) = clouds::read(sources.clouds, sources.cloud, global.uses_clouds, &mut problems) {
        global.complete(entry);
    }
    let interface = global.interface.map_or(Interface::Public, |(key, text)| {
        text.parse().unwrap_or_else(|wrong: String| {
            problems.push(Problem::fatal(key, wrong));
            Interface::Public
        })
    });
    let entries = entries(sources.conf);
    problems.iter_mut().for_each(|problem| way_out(problem, &entries));
    problems.extend(balancers::problems(&balancers));
    problems.extend(balancers::wrong_patterns(&balancers, &classes));
    if let Some(value) = sources.regional.filter(|value| !matches!(*value, "true" | "false" | "")) {
        let message = format!("{value:?} has no effect: only true adds the region to provider IDs");
        problems.push(Problem::harmless("OS_CCM_REGIONAL", message));
    }
    let config = Config {
        identity: global.identity,
        region: global.region.unwrap_or_default(),
        interface,
        regional: sources.regional == Some("true"),
        networking,
        router: router.filter(|id| !id.is_empty()),
        balancers,
        classes,
    };
    (config, problems)
}

/// Keys that are `true` or `false`; one without `=` is a yes.
const FLAGS: [&str; 10] = [
    "tls-insecure",
    "use-clouds",
    "ipv6-support-disabled",
    "enabled",
    "internal-lb",
    "create-monitor",
    "manage-security-groups",
    "cascade-delete",
    "enable-ingress-hostname",
    "provider-requires-serial-api-calls",
];
/// Keys that are whole numbers.
const NUMBERS: [&str; 3] = ["monitor-max-retries", "monitor-max-retries-down", "max-shared-lb"];

/// Says in the words of an INI file what is wrong with its values, and what to write. What stands in the file decides, not what was said.
fn way_out(problem: &mut Problem, entries: &[serde_json::Value]) {
    let place = problem.field.strip_prefix("cloud-config:").and_then(|path| path.split_once('.'));
    let Some((section, path)) = place.filter(|_| problem.fatal) else { return };
    // One of several values.
    let path = path.split_once('[').map_or(path, |(path, _)| path);
    let key = path.rsplit('.').next().unwrap_or_default();
    let Some(entry) = entry(entries, section, path) else { return };
    let better = match entry.get("value").and_then(serde_json::Value::as_str) {
        _ if section == "loadbalancerclass" && part(entry, "name").is_none() => {
            "stands in a [LoadBalancerClass] without a name: write [LoadBalancerClass \"NAME\"]".to_owned()
        }
        None if !FLAGS.contains(&key) => format!("has no `=`: write {key} = VALUE"),
        Some(value) if FLAGS.contains(&key) && !is_flag(value) => format!("must be `true` or `false`, not {value:?}"),
        Some(value) if NUMBERS.contains(&key) && value.parse::<i64>().is_err() => {
            format!("must be a whole number, not {value:?}")
        }
        _ => return,
    };
    problem.message = better;
}

/// Whether it is one of the words that the reader takes for `true` or `false`.
fn is_flag(value: &str) -> bool {
    ["true", "yes", "on", "1", "false", "no", "off", "0"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The entries of an INI file.
fn entries(conf: Option<&str>) -> Vec<serde_json::Value> {
    conf.and_then(|conf| serde_json::from_str(conf).ok()).unwrap_or_default()
}

fn part<'e>(entry: &'e serde_json::Value, part: &str) -> Option<&'e str> {
    entry.get(part).and_then(serde_json::Value::as_str)
}

/// The entry at a key of a section, `NAME.KEY` in one that has a name; of several the last one, which counts.
fn entry<'e>(entries: &'e [serde_json::Value], section: &str, path: &str) -> Option<&'e serde_json::Value> {
    let is_there = |entry: &&serde_json::Value| {
        let key = part(entry, "key").unwrap_or_default().to_ascii_lowercase();
        let at = part(entry, "name").map_or(key.clone(), |name| format!("{name}.{key}"));
        at == path && part(entry, "section").is_some_and(|found| found.eq_ignore_ascii_case(section))
    };
    entries.iter().rfind(is_there)
}

/// `[Global]`, and what `clouds.yaml` has of it.
#[derive(Debug, Default)]
struct Global {
    identity: Identity,
    region: Option<String>,
    /// With the key that has it.
    interface: Option<(String, String)>,
    uses_clouds: Option<bool>,
    /// The ID of a domain, where nothing else is said of one.
    default_domain: Option<String>,
}

impl Global {
    fn read(section: &mut Section<'_>) -> Self {
        // The host reads these; here they are known.
        for key in ["auth-url", "ca-file", "cafilecontents", "cert-file", "key-file", "clouds-file", "cloud"] {
            section.text(key);
        }
        section.flag("tls-insecure");
        request_timeout(section);
        let interface = section.text("os-endpoint-type").filter(|text| !text.is_empty());
        Self {
            identity: identity::read(section),
            region: filled(section.text("region")),
            interface: interface.map(|text| (format!("{FILE}:global.os-endpoint-type"), text)),
            uses_clouds: section.flag("use-clouds"),
            default_domain: None,
        }
    }

    /// What the file says itself wins.
    fn complete(&mut self, other: Self) {
        self.identity.complete(other.identity);
        self.identity.be_in(other.default_domain.as_deref());
        self.region = self.region.take().or(other.region);
        self.interface = self.interface.take().or(other.interface);
    }
}

/// `[Metadata]`, which is for the programs on the Nodes.
fn metadata(section: &mut Section<'_>) {
    request_timeout(section);
    section.parsed("search-order", search_order);
}

fn request_timeout(section: &mut Section<'_>) {
    let key = "request-timeout";
    if section.parsed(key, seconds).is_some() {
        section.unused(
            key,
            "has no effect: the host's limit call-time says how long a call may take, with all its requests",
        );
    }
}

fn search_order(text: &str) -> Result<(), String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("invalid value in section [Metadata] with key `search-order`. Value cannot be empty".to_owned());
    }
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    if items.len() > 2 {
        return Err(
            "invalid value in section [Metadata] with key `search-order`. Value cannot contain more than 2 elements"
                .to_owned(),
        );
    }
    match items.iter().find(|item| !matches!(**item, "configDrive" | "metadataService")) {
        None => Ok(()),
        Some(item) => Err(format!(
            "invalid element {item:?} found in section [Metadata] with key `search-order`; supported elements include \
             \"configDrive\" and \"metadataService\""
        )),
    }
}

/// A duration. A number alone is seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Duration::from_secs(seconds)),
        _ => duration::parse(text),
    }
}

/// A text that says something: an empty one is as none.
fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}
