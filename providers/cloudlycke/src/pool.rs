//! Addresses that load balancers get.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ccm_sdk::quoted;

/// A network in CIDR notation, its address the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// IPv4 in the lower half, so that both families are compared alike.
    first: u128,
    last: u128,
    /// Bits of an address: 32 or 128.
    width: u8,
    prefix: u8,
}

impl Cidr {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = quoted(text);
            format!("{text} is not a network in CIDR notation; `203.0.113.0/24` or `2001:db8::/120` would be")
        };
        let (ip, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let ip: IpAddr = ip.parse().map_err(|_no_ip| wrong())?;
        let (bits, width) = bits(ip);
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u8 = prefix.parse().ok().filter(|prefix| is_number && *prefix <= width).ok_or_else(wrong)?;
        let mask = 1_u128.checked_shl(u32::from(width - prefix)).map_or(u128::MAX, |size| size - 1);
        if bits & mask != 0 {
            let text = quoted(text);
            return Err(format!("{text} has bits set behind its prefix of {prefix}: its first address is not {ip}"));
        }
        Ok(Self { first: bits, last: bits | mask, width, prefix })
    }

    /// Bits of an address: 32 or 128.
    pub(crate) fn width(&self) -> u8 {
        self.width
    }

    /// How many bits its addresses have in common.
    pub(crate) fn prefix(&self) -> u8 {
        self.prefix
    }

    /// First and last address that are given out.
    fn usable(&self) -> (u128, u128) {
        if self.width == 32 { (self.first + 1, self.last.saturating_sub(1)) } else { (self.first, self.last) }
    }

    /// How many addresses are given out. Of `::/0` one less than there are.
    fn size(&self) -> u128 {
        let (first, last) = self.usable();
        last.saturating_sub(first).saturating_add(1)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.width == other.width && self.first <= other.last && other.first <= self.last
    }
}

/// Networks of one family. Of IPv4 ones the first and the last address are not given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pool(Vec<Cidr>);

impl Pool {
    pub(crate) fn new(networks: Vec<Cidr>) -> Self {
        Self(networks)
    }

    /// A network that stands in the source.
    pub(crate) fn literal(network: &'static str) -> Self {
        let network = Cidr::parse(network);
        debug_assert!(network.is_ok(), "{network:?}");
        Self(network.into_iter().collect())
    }

    /// How many addresses are given out.
    pub(crate) fn size(&self) -> u128 {
        self.0.iter().fold(0, |size: u128, network| size.saturating_add(network.size()))
    }

    /// Whether the address is one that is given out.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        let (bits, width) = bits(ip);
        self.0.iter().any(|network| {
            let (first, last) = network.usable();
            network.width == width && (first..=last).contains(&bits)
        })
    }

    /// The address at a place of all that are given out, in order.
    pub(crate) fn nth(&self, mut index: u128) -> Option<IpAddr> {
        for network in &self.0 {
            if index < network.size() {
                return address(network.usable().0.checked_add(index)?, network.width);
            }
            index -= network.size();
        }
        None
    }
}

impl Display for Pool {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for (index, network) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(formatter, "{comma}{network}")?;
        }
        Ok(())
    }
}

impl Display for Cidr {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match address(self.first, self.width) {
            Some(ip) => write!(formatter, "{ip}/{}", self.prefix),
            None => Ok(()),
        }
    }
}

fn bits(ip: IpAddr) -> (u128, u8) {
    match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    }
}

fn address(bits: u128, width: u8) -> Option<IpAddr> {
    if width == 32 {
        return u32::try_from(bits).ok().map(|bits| Ipv4Addr::from_bits(bits).into());
    }
    Some(Ipv6Addr::from_bits(bits).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(networks: &[&str]) -> Pool {
        Pool::new(networks.iter().map(|network| Cidr::parse(network).expect("a network")).collect())
    }

    #[test]
    fn every_address_of_a_pool_has_a_place_and_the_first_and_last_of_ipv4_have_none() {
        let cases: [(&[&str], &[&str]); 5] = [
            (&["203.0.113.0/30"], &["203.0.113.1", "203.0.113.2"]),
            (&["203.0.113.0/30", "198.51.100.4/30"], &["203.0.113.1", "203.0.113.2", "198.51.100.5", "198.51.100.6"]),
            (&["255.255.255.252/30"], &["255.255.255.253", "255.255.255.254"]),
            (&["2001:db8::/127"], &["2001:db8::", "2001:db8::1"]),
            (&[], &[]),
        ];
        for (networks, addresses) in cases {
            let pool = pool(networks);
            let given: Vec<_> = (0..).map_while(|index| pool.nth(index)).map(|ip| ip.to_string()).collect();
            assert_eq!(given, addresses);
            assert_eq!(pool.to_string(), networks.join(","));
            assert_eq!(pool.size(), u128::try_from(addresses.len()).expect("few"));
            assert!(given.iter().all(|ip| pool.contains(ip.parse().expect("an address"))));
            for outside in ["203.0.113.0", "203.0.113.3", "198.51.100.7", "::203.0.113.1", "2001:db8::2"] {
                assert!(!pool.contains(outside.parse().expect("an address")), "{outside} in {networks:?}");
            }
        }
    }

    #[test]
    fn the_largest_network_has_an_end() {
        let pool = pool(&["::/0"]);
        assert_eq!(pool.size(), u128::MAX);
        assert_eq!(
            pool.nth(u128::MAX - 1).map(|ip| ip.to_string()).as_deref(),
            Some("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe")
        );
        assert_eq!(pool.nth(u128::MAX), None);
    }
}
