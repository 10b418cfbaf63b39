//! Load balancers, and routes.

use std::time::Duration;

use ccm_sdk::cidr::Cidr;
use ccm_sdk::config::Section;
use ccm_sdk::{duration, quoted};

use crate::pool::Pool;

/// An IPv4 pool needs two addresses beside the first and the last, which are not given out.
const LONGEST_PREFIX_V4: u8 = 30;

/// Networks for documentation (RFC 5737, RFC 3849): nobody routes them, and kube-proxy on every node takes them all the same.
const DEFAULT_POOL4: &str = "203.0.113.0/24";
const DEFAULT_POOL6: &str = "2001:db8:c10d::/120";

ccm_sdk::words! {
    /// Where the addresses of load balancers come from.
    pub(crate) enum BalancerMode {
        /// Out of a pool.
        Pool = "pool",
        /// They are the Nodes' own.
        Nodes = "nodes",
        /// There are no load balancers.
        None = "none",
    }
}

/// What the operator asked for of load balancers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadBalancers {
    pub(crate) mode: BalancerMode,
    pub(crate) pool4: Pool,
    pub(crate) pool6: Pool,
    /// How long a new one is being made.
    pub(crate) provision_delay: Duration,
    /// Domain below which each has a host name.
    pub(crate) hostname_suffix: Option<String>,
}

pub(super) fn load_balancers(root: &mut Section<'_>) -> LoadBalancers {
    root.section("loadBalancer", |section| {
        let mode = section.parsed("mode", str::parse);
        let pool4 = section.one_or_many("pool4", |text| pool(text, 32));
        let pool6 = section.one_or_many("pool6", |text| pool(text, 128));
        overlaps(section, pool4.iter().chain(pool6.iter()).flatten());
        let networks = |pool: Option<Vec<(String, Cidr)>>, default| match pool {
            Some(pool) => Pool::new(pool.into_iter().map(|(_, network)| network).collect()),
            None => Pool::literal(default),
        };
        LoadBalancers {
            mode: mode.unwrap_or(BalancerMode::Pool),
            pool4: networks(pool4, DEFAULT_POOL4),
            pool6: networks(pool6, DEFAULT_POOL6),
            provision_delay: section.parsed("provisionDelay", duration::parse).unwrap_or_default(),
            hostname_suffix: section.parsed("hostnameSuffix", dns_name).filter(|suffix| !suffix.is_empty()),
        }
    })
}

/// None when they are switched off.
pub(super) fn routes(root: &mut Section<'_>) -> Option<Vec<(Cidr, Option<String>)>> {
    root.section("routes", |section| {
        let enabled = section.flag("enabled").unwrap_or(false);
        let seeds = section.sections("seed", |seed| {
            let network = seed.required("cidr", Cidr::parse);
            let node = seed.text("node");
            network.map(|network| (network, node))
        });
        enabled.then(|| seeds.into_iter().flatten().filter_map(|(_, seed)| seed).collect())
    })
}

fn pool(text: &str, width: u8) -> Result<Cidr, String> {
    let pool = Cidr::parse(text)?;
    if pool.width() != width {
        return Err(format!("must be an IPv{} network, not {}", if width == 32 { 4 } else { 6 }, quoted(text)));
    }
    if pool.width() == 32 && pool.prefix() > LONGEST_PREFIX_V4 {
        return Err(format!("{} is too small, the smallest pool is a /{LONGEST_PREFIX_V4}", quoted(text)));
    }
    Ok(pool)
}

fn overlaps<'a>(section: &mut Section<'_>, pools: impl Iterator<Item = &'a (String, Cidr)>) {
    let mut before: Vec<&(String, Cidr)> = vec![];
    for named in pools {
        let (path, pool) = named;
        if let Some((other, _)) = before.iter().find(|(_, other)| pool.overlaps(other)) {
            section.wrong(path, format!("overlaps with {other}"));
        }
        before.push(named);
    }
}

fn dns_name(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // Room for the load balancer's own label in front.
    if text.is_empty() || (text.len() <= 253 - 64 && text.split('.').all(is_label)) {
        return Ok(text.to_owned());
    }
    Err(format!("must be a domain name in lower case like `lb.example.com`, not {}", quoted(text)))
}
