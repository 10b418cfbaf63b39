//! Addresses that load balancers get.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use ccm_sdk::cidr::{Cidr, address, bits};

/// First and last address that are given out.
fn usable(network: &Cidr) -> (u128, u128) {
    let (first, last) = network.range();
    if network.width() == 32 { (first + 1, last.saturating_sub(1)) } else { (first, last) }
}

/// How many addresses are given out. Of `::/0` one less than there are.
fn size(network: &Cidr) -> u128 {
    let (first, last) = usable(network);
    last.saturating_sub(first).saturating_add(1)
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
        self.0.iter().fold(0, |size: u128, network| size.saturating_add(self::size(network)))
    }

    /// Whether the address is one that is given out.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        let (bits, width) = bits(ip);
        self.0.iter().any(|network| {
            let (first, last) = usable(network);
            network.width() == width && (first..=last).contains(&bits)
        })
    }

    /// The address at a place of all that are given out, in order.
    pub(crate) fn nth(&self, mut index: u128) -> Option<IpAddr> {
        for network in &self.0 {
            if index < size(network) {
                return address(usable(network).0.checked_add(index)?, network.width());
            }
            index -= size(network);
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
