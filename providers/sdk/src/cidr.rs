//! Networks, and which clients a Service lets in.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::types::{Problem, Service};
use crate::{ordered, quoted};

/// A network in CIDR notation. Those of IPv4 come first, then by their first address.
///
/// ```
/// use ccm_sdk::cidr::Cidr;
///
/// assert!(Cidr::parse("10.1.2.3/8").is_err(), "that is an address in a network");
/// let network = Cidr::masked("10.1.2.3/8").unwrap();
/// assert_eq!(network.to_string(), "10.0.0.0/8");
/// assert!(network.contains("10.9.9.9".parse().unwrap()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    /// Bits of an address: 32 or 128.
    width: u8,
    /// IPv4 in the lower half, so that both families are compared alike.
    first: u128,
    prefix: u8,
}

impl Cidr {
    /// A network as it should be written.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let network = Self::masked(text).ok_or_else(|| {
            let text = quoted(text);
            format!("{text} is not a network in CIDR notation; `203.0.113.0/24` or `2001:db8::/120` would be")
        })?;
        match text.split_once('/').and_then(|(ip, _)| ip.parse().ok()) {
            Some(ip) if bits(ip).0 != network.first => {
                let (text, prefix) = (quoted(text), network.prefix);
                Err(format!("{text} has bits set behind its prefix of {prefix}: its first address is not {ip}"))
            }
            _ => Ok(network),
        }
    }

    /// The network that has an address: `10.1.2.3/8` is in `10.0.0.0/8`. `None`: the text has something else.
    pub fn masked(text: &str) -> Option<Self> {
        let (ip, prefix) = text.split_once('/')?;
        let (bits, width) = bits(ip.parse().ok()?);
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix: u8 = prefix.parse().ok().filter(|prefix| is_number && *prefix <= width)?;
        Some(Self { first: bits & !host(width, prefix), width, prefix })
    }

    /// Bits of an address: 32 or 128.
    pub fn width(&self) -> u8 {
        self.width
    }

    /// How many bits its addresses have in common.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// First and last address, as numbers.
    pub fn range(&self) -> (u128, u128) {
        (self.first, self.first | host(self.width, self.prefix))
    }

    /// Whether the address is in it.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ((bits, width), (first, last)) = (bits(ip), self.range());
        self.width == width && (first..=last).contains(&bits)
    }

    /// Whether some address is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        let ((first, last), (others_first, others_last)) = (self.range(), other.range());
        self.width == other.width && first <= others_last && others_first <= last
    }
}

impl Display for Cidr {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        address(self.first, self.width).map_or(Ok(()), |ip| write!(formatter, "{ip}/{}", self.prefix))
    }
}

fn host(width: u8, prefix: u8) -> u128 {
    1_u128.checked_shl(u32::from(width.saturating_sub(prefix))).map_or(u128::MAX, |size| size - 1)
}

/// An address as a number, and how many bits it has.
pub fn bits(ip: IpAddr) -> (u128, u8) {
    match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    }
}

/// The address that [`bits`] has made a number of.
pub fn address(bits: u128, width: u8) -> Option<IpAddr> {
    if width == 32 {
        return u32::try_from(bits).ok().map(|bits| Ipv4Addr::from_bits(bits).into());
    }
    Some(Ipv6Addr::from_bits(bits).into())
}

/// Which clients `spec.loadBalancerSourceRanges` lets in. What could not be read is neither of the two: an empty list would let
/// everybody in.
///
/// ```
/// use ccm_sdk::cidr::SourceRanges;
/// use ccm_sdk::types::{Problem, Service};
///
/// /// As rules of a load balancer.
/// fn allowed(service: &Service) -> Result<Vec<String>, Problem> {
///     Ok(match SourceRanges::of(service)? {
///         SourceRanges::Everybody => vec!["0.0.0.0/0".to_owned()],
///         SourceRanges::Only(networks) => networks.iter().map(ToString::to_string).collect(),
///     })
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceRanges {
    /// There are none.
    Everybody,
    /// At least one; in order, each once.
    Only(Vec<Cidr>),
}

impl SourceRanges {
    /// Those of the spec.
    ///
    /// # Errors
    ///
    /// It has something that is no network.
    pub fn of(service: &Service) -> Result<Self, Problem> {
        const FIELD: &str = "spec.loadBalancerSourceRanges";
        Self::read(service.source_ranges.iter().map(String::as_str)).map_err(|range| {
            let message = format!(
                "failed to parse {FIELD}: it has {}; allowed are networks such as \"10.0.0.0/8\"",
                quoted(range)
            );
            Problem::fatal(FIELD, message)
        })
    }

    /// Those of a list, such as that of an annotation.
    ///
    /// # Errors
    ///
    /// What is no network.
    pub fn read<'t>(ranges: impl IntoIterator<Item = &'t str>) -> Result<Self, &'t str> {
        let mut networks = vec![];
        for range in ranges {
            networks.push(Cidr::masked(range.trim()).ok_or(range)?);
        }
        Ok(if networks.is_empty() { Self::Everybody } else { Self::Only(ordered::list(networks)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_strictly_or_with_their_host_bits_taken_off() {
        for (text, masked, strict) in [
            ("10.0.0.0/8", Some("10.0.0.0/8"), true),
            ("10.1.2.3/8", Some("10.0.0.0/8"), false),
            ("0.0.0.0/0", Some("0.0.0.0/0"), true),
            ("203.0.113.9/32", Some("203.0.113.9/32"), true),
            ("2001:DB8::1/32", Some("2001:db8::/32"), false),
            ("::/0", Some("::/0"), true),
            ("10.0.0.0/33", None, false),
            ("10.0.0.0/+8", None, false),
            ("10.0.0.0", None, false),
            ("::/129", None, false),
            ("a/8", None, false),
            ("10.0.0.0/", None, false),
        ] {
            assert_eq!(Cidr::masked(text).map(|network| network.to_string()).as_deref(), masked, "{text}");
            assert_eq!(Cidr::parse(text).is_ok(), strict, "{text}");
        }
        assert!(Cidr::parse("10.1.2.3/8").is_err_and(|wrong| wrong.contains("bits set behind its prefix of 8")));
    }

    #[test]
    fn an_address_is_in_a_network_of_its_family_only() {
        let network = |text: &str| Cidr::parse(text).expect(text);
        let ten = network("10.0.0.0/8");
        let inside = |ip: &str| ten.contains(ip.parse().expect(ip));
        assert_eq!(["10.0.0.0", "10.255.255.255", "11.0.0.0", "::a00:1"].map(inside), [true, true, false, false]);
        assert!(ten.overlaps(&network("10.3.0.0/16")) && network("0.0.0.0/0").overlaps(&ten));
        assert!(!ten.overlaps(&network("11.0.0.0/8")) && !network("::/0").overlaps(&ten));
    }

    #[test]
    fn source_ranges_are_in_order_each_once_and_a_mistake_lets_nobody_in() {
        let read = |ranges: &[&'static str]| SourceRanges::read(ranges.iter().copied());
        let network = |text: &str| Cidr::parse(text).expect(text);
        assert_eq!(read(&[]), Ok(SourceRanges::Everybody));
        let only = ["9.0.0.0/8", "10.0.0.0/8", "fd00::/8"].map(network).to_vec();
        assert_eq!(read(&["fd00::/8", " 10.1.0.0/8 ", "9.0.0.0/8", "10.0.0.0/8"]), Ok(SourceRanges::Only(only)));
        assert_eq!(read(&["10.0.0.0/8", "everybody"]), Err("everybody"));
    }
}
