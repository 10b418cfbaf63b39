//! `[LoadBalancer]` and its classes.

use std::ops::RangeInclusive;

use ccm_sdk::config::Section;
use ccm_sdk::types::Problem;
use ccm_sdk::words::nearest;

use super::FILE;
use crate::subnet_match::Pattern;

/// What load balancers are where their Service says nothing else. Texts are empty where there is no such value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Balancers {
    pub(crate) enabled: bool,
    /// Empty: the one that Octavia has as its default.
    pub(crate) provider: String,
    pub(crate) method: String,
    pub(crate) place: Class,
    pub(crate) internal: bool,
    pub(crate) monitor: Monitor,
    pub(crate) manages_security_groups: bool,
    pub(crate) node_selector: String,
    pub(crate) cascade_delete: bool,
    pub(crate) flavor: String,
    pub(crate) availability_zone: String,
    /// With the PROXY protocol, the status has a host name instead of the address.
    pub(crate) ingress_hostname: bool,
    pub(crate) ingress_hostname_suffix: String,
    /// Services on one load balancer; 0: none joins another's.
    pub(crate) most_shared: u32,
    /// `barbican`: what TLS is ended with is looked up first.
    pub(crate) container_store: String,
    pub(crate) tls_container: String,
    /// The cloud's provider takes one change at a time: no tree in one request, no list of members in one.
    pub(crate) serial: bool,
}

/// Networks of load balancers, their members and their floating IPs: of `[LoadBalancer]` itself, or of a class. Texts are empty where
/// there is no such value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) floating_network: String,
    pub(crate) floating_subnet_id: String,
    /// A pattern of names.
    pub(crate) floating_subnet: String,
    /// An expression of tags.
    pub(crate) floating_subnet_tags: String,
    pub(crate) network: String,
    pub(crate) subnet: String,
    pub(crate) member_subnet: String,
}

/// How members are watched. What Octavia does not take is refused where it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Monitor {
    pub(crate) enabled: bool,
    /// In seconds, as [`timeout`](Self::timeout).
    pub(crate) delay: u32,
    pub(crate) timeout: u32,
    pub(crate) max_retries: u32,
    pub(crate) max_retries_down: u32,
}

impl Default for Balancers {
    fn default() -> Self {
        Self {
            enabled: true,
            provider: "amphora".to_owned(),
            method: "ROUND_ROBIN".to_owned(),
            place: Class::default(),
            internal: false,
            monitor: Monitor { enabled: false, delay: 5, timeout: 3, max_retries: 1, max_retries_down: 3 },
            manages_security_groups: false,
            node_selector: String::new(),
            cascade_delete: true,
            flavor: String::new(),
            availability_zone: String::new(),
            ingress_hostname: false,
            ingress_hostname_suffix: "nip.io".to_owned(),
            most_shared: 2,
            container_store: "barbican".to_owned(),
            tls_container: String::new(),
            serial: false,
        }
    }
}

pub(super) fn read(section: &mut Section<'_>) -> Balancers {
    let default = Balancers::default();
    version(section);
    let text = |section: &mut Section<'_>, key| section.text(key).unwrap_or_default();
    let balancers = Balancers {
        enabled: section.flag("enabled").unwrap_or(default.enabled),
        provider: section.text("lb-provider").unwrap_or(default.provider),
        // An empty one is none: a pool has to have one.
        method: section.text("lb-method").filter(|method| !method.is_empty()).unwrap_or(default.method),
        place: class(section),
        internal: section.flag("internal-lb").unwrap_or(default.internal),
        monitor: monitor(section, &default.monitor),
        manages_security_groups: section.flag("manage-security-groups").unwrap_or(default.manages_security_groups),
        node_selector: text(section, "node-selector"),
        cascade_delete: section.flag("cascade-delete").unwrap_or(default.cascade_delete),
        flavor: text(section, "flavor-id"),
        availability_zone: text(section, "availability-zone"),
        ingress_hostname: section.flag("enable-ingress-hostname").unwrap_or(default.ingress_hostname),
        ingress_hostname_suffix: section.text("ingress-hostname-suffix").unwrap_or(default.ingress_hostname_suffix),
        // Any number, as in the Go manager: less than 1 lets nobody in.
        most_shared: section.number("max-shared-lb").map_or(default.most_shared, at_least_0),
        container_store: section.text("container-store").unwrap_or(default.container_store),
        tls_container: text(section, "default-tls-container-ref"),
        serial: section.flag("provider-requires-serial-api-calls").unwrap_or(default.serial),
    };
    removed(section);
    balancers
}

/// There is one version, which some files name.
fn version(section: &mut Section<'_>) {
    section.parsed("lb-version", |text| match text {
        "" | "v2" => Ok(()),
        other => Err(format!("currently only support LBaaS v2, unrecognised lb-version {other:?}; leave it out")),
    });
}

/// What earlier versions of the Go manager had.
fn removed(section: &mut Section<'_>) {
    for (key, message) in [
        ("use-octavia", "was removed: load balancers are always made by Octavia; leave it out"),
        ("lb-timeout", "was removed: nothing waits for a load balancer here; leave it out"),
    ] {
        if section.is_there(key) {
            section.ignore(key);
            section.unused(key, message);
        }
    }
}

/// Networks, of `[LoadBalancer]` or of a class.
pub(super) fn class(section: &mut Section<'_>) -> Class {
    let mut text = |key| section.text(key).unwrap_or_default();
    Class {
        floating_network: text("floating-network-id"),
        floating_subnet_id: text("floating-subnet-id"),
        floating_subnet: text("floating-subnet"),
        floating_subnet_tags: text("floating-subnet-tags"),
        network: text("network-id"),
        subnet: text("subnet-id"),
        member_subnet: text("member-subnet-id"),
    }
}

fn monitor(section: &mut Section<'_>, default: &Monitor) -> Monitor {
    Monitor {
        enabled: section.flag("create-monitor").unwrap_or(default.enabled),
        delay: whole_seconds(section, "monitor-delay").unwrap_or(default.delay),
        timeout: whole_seconds(section, "monitor-timeout").unwrap_or(default.timeout),
        max_retries: tries(section, "monitor-max-retries").unwrap_or(default.max_retries),
        max_retries_down: tries(section, "monitor-max-retries-down").unwrap_or(default.max_retries_down),
    }
}

/// How often Octavia lets a monitor try.
pub(crate) const TRIES: RangeInclusive<i64> = 1..=10;
/// Seconds that Octavia lets a monitor have.
pub(crate) const SECONDS: RangeInclusive<i64> = 1..=i32::MAX as i64;

fn at_least_0(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

fn tries(section: &mut Section<'_>, key: &'static str) -> Option<u32> {
    let number = section.number(key)?;
    if number < 0 {
        section.wrong(key, format!("must be a whole number from 0, not {number}"));
        return None;
    }
    Some(at_least_0(number))
}

/// Parts of a second are cut off.
fn whole_seconds(section: &mut Section<'_>, key: &'static str) -> Option<u32> {
    section.parsed(key, |text| {
        let whole = super::seconds(text)?.as_secs();
        u32::try_from(whole).map_err(|_too_long| format!("must be at most {}s", u32::MAX))
    })
}

impl Monitor {
    /// Each value with its key, and what Octavia takes.
    fn limits(&self) -> [(&'static str, u32, RangeInclusive<i64>); 4] {
        [
            ("monitor-delay", self.delay, SECONDS),
            ("monitor-timeout", self.timeout, SECONDS),
            ("monitor-max-retries", self.max_retries, TRIES),
            ("monitor-max-retries-down", self.max_retries_down, TRIES),
        ]
    }
}

/// Providers that the Go manager knows.
const PROVIDERS: [&str; 5] = ["amphora", "octavia", "ovn", "f5", "amphorav2"];
const STORES: [&str; 2] = ["barbican", "external"];

/// What is odd with it, and done all the same.
pub(super) fn problems(balancers: &Balancers) -> Vec<Problem> {
    let mut problems = vec![];
    let field = |key| format!("{FILE}:loadbalancer.{key}");
    if !balancers.provider.is_empty() && !PROVIDERS.contains(&balancers.provider.as_str()) {
        let near = nearest(&balancers.provider, &PROVIDERS).map(|near| format!("; is it meant to be {near}?"));
        let message = format!(
            "{} is sent to Octavia as it is: known are {}{}",
            balancers.provider,
            PROVIDERS.join(", "),
            near.unwrap_or_default()
        );
        problems.push(Problem::harmless(field("lb-provider"), message));
    }
    if !STORES.contains(&balancers.container_store.as_str()) {
        let message = "is neither `barbican` nor `external`: what ends TLS is not looked up before it is used";
        problems.push(Problem::harmless(field("container-store"), message));
    }
    for (key, value, taken) in balancers.monitor.limits() {
        if !taken.contains(&value.into()) {
            let message = format!(
                "is {value}, and Octavia takes whole numbers from {} to {}: a Service whose members are watched is refused, unless it has an annotation for that",
                taken.start(),
                taken.end()
            );
            problems.push(Problem::harmless(field(key), message));
        }
    }
    if balancers.monitor.timeout >= balancers.monitor.delay {
        let message = format!(
            "the time-out of {}s is not shorter than the delay of {}s: a slow member is asked again before it has answered",
            balancers.monitor.timeout, balancers.monitor.delay
        );
        problems.push(Problem::harmless(field("monitor-timeout"), message));
    }
    problems
}

/// Patterns of subnets that are none. One that is not used does no harm.
pub(super) fn wrong_patterns(balancers: &Balancers, classes: &[(String, Class)]) -> Vec<Problem> {
    let own = (format!("{FILE}:loadbalancer.floating-subnet"), &balancers.place);
    let of_classes =
        classes.iter().map(|(name, class)| (format!("{FILE}:loadbalancerclass.{name}.floating-subnet"), class));
    let all = std::iter::once(own).chain(of_classes).filter(|(_, class)| class.floating_subnet_id.is_empty());
    let wrong = all.filter_map(|(field, class)| Some((field, Pattern::parse(&class.floating_subnet, "").err()?)));
    wrong
        .map(|(field, wrong)| {
            Problem::harmless(
                field,
                format!("{wrong}: a Service that is to have a floating IP from it gets no load balancer"),
            )
        })
        .collect()
}
