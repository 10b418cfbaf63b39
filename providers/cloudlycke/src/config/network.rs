//! Load balancers and routes: judged, told to have no effect yet, and not kept.

use std::net::IpAddr;

use ccm_sdk::duration;

use super::reader::{self, Section};

/// An IPv4 pool needs two addresses beside the first and the last, which are not given out.
const LONGEST_PREFIX_V4: u8 = 30;

pub(super) fn load_balancers(root: &mut Section<'_>) {
    let mode = root.section("loadBalancer", |section| {
        let mode = section.parsed("mode", |text| reader::choice(text, &["pool", "nodes", "none"]));
        let mut pools = section.one_or_many("pool4", |text| pool(text, 32));
        pools.extend(section.one_or_many("pool6", |text| pool(text, 128)));
        overlaps(section, &pools);
        section.parsed("provisionDelay", duration::parse);
        section.parsed("hostnameSuffix", dns_name);
        mode
    });
    if mode.is_some_and(|mode| mode != Some("none")) {
        root.unused("loadBalancer", "has no effect: this version serves no load balancers");
    }
}

pub(super) fn routes(root: &mut Section<'_>) {
    let asked = root.section("routes", |section| {
        let enabled = section.flag("enabled").unwrap_or(false);
        let seeds = section.sections("seed", |seed| {
            seed.required("cidr", Cidr::parse);
            seed.text("node");
        });
        enabled || seeds.is_some_and(|seeds| !seeds.is_empty())
    });
    if asked == Some(true) {
        root.unused("routes", "has no effect: this version serves no routes");
    }
}

/// A network in CIDR notation, its address the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cidr {
    /// IPv4 in the lower half, so that both families are compared alike.
    first: u128,
    last: u128,
    /// Bits of an address: 32 or 128.
    width: u8,
    prefix: u8,
}

impl Cidr {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a network in CIDR notation; `203.0.113.0/24` or `2001:db8::/120` would be");
        let (ip, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let ip: IpAddr = ip.parse().map_err(|_no_ip| wrong())?;
        let (bits, width) = match ip {
            IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
            IpAddr::V6(ip) => (ip.to_bits(), 128),
        };
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u8 = prefix.parse().ok().filter(|prefix| is_number && *prefix <= width).ok_or_else(wrong)?;
        let mask = 1_u128.checked_shl(u32::from(width - prefix)).map_or(u128::MAX, |size| size - 1);
        if bits & mask != 0 {
            return Err(format!("{text:?} has bits set behind its prefix of {prefix}: its first address is not {ip}"));
        }
        Ok(Self { first: bits, last: bits | mask, width, prefix })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.width == other.width && self.first <= other.last && other.first <= self.last
    }
}

fn pool(text: &str, width: u8) -> Result<Cidr, String> {
    let pool = Cidr::parse(text)?;
    if pool.width != width {
        return Err(format!("must be an IPv{} network, not {text:?}", if width == 32 { 4 } else { 6 }));
    }
    if pool.width == 32 && pool.prefix > LONGEST_PREFIX_V4 {
        return Err(format!("{text:?} is too small, the smallest pool is a /{LONGEST_PREFIX_V4}"));
    }
    Ok(pool)
}

fn overlaps(section: &mut Section<'_>, pools: &[(String, Cidr)]) {
    for (index, (path, pool)) in pools.iter().enumerate() {
        if let Some((other, _)) = pools.iter().take(index).find(|(_, other)| pool.overlaps(other)) {
            section.wrong(path, &format!("overlaps with {other}"));
        }
    }
}

fn dns_name(text: &str) -> Result<(), String> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // Room for the load balancer's own label in front.
    if text.is_empty() || (text.len() <= 253 - 64 && text.split('.').all(is_label)) {
        return Ok(());
    }
    Err(format!("must be a domain name in lower case like `lb.example.com`, not {text:?}"))
}
