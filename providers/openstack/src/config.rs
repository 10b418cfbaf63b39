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
    problems.iter_mut().for_each(way_out);
    problems.extend(balancers::problems(&balancers));
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

/// Says of the form of an INI file what else is said of values: what has none there, and which section lacks its name.
fn way_out(problem: &mut Problem) {
    let Some(path) = problem.field.strip_prefix("cloud-config:") else { return };
    let key = path.rsplit('.').next().unwrap_or_default();
    if path.starts_with("loadbalancerclass.") && problem.message.starts_with("must be a mapping") {
        problem.message =
            "stands in a [LoadBalancerClass] without a name: write [LoadBalancerClass \"NAME\"]".to_owned();
    } else if problem.message.starts_with("must be ") && problem.message.ends_with(", not `true` or `false`") {
        problem.message = format!("has no `=`: write {key} = VALUE");
    }
}

/// `[Global]`, and what `clouds.yaml` has of it.
#[derive(Debug, Default)]
struct Global {
    identity: Identity,
    region: Option<String>,
    /// With the key that has it.
    interface: Option<(String, String)>,
    uses_clouds: Option<bool>,
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
        }
    }

    /// What the file says itself wins.
    fn complete(&mut self, other: Self) {
        self.identity.complete(other.identity);
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
