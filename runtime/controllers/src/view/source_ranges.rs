//! The source ranges of a Service: the networks that may reach its load balancer.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ccm_cloud::{Failure, Reaction};
use k8s_openapi::api::core::v1::ServiceSpec;

/// So many bits stand in front of an IPv4 address in IPv6.
const MAPPED: u32 = 96;

/// The ranges of the spec. Empty means everybody. The annotation of that meaning is for providers whose upstream reads it: others
/// would close what is open to everybody.
pub(super) fn source_ranges(spec: Option<&ServiceSpec>) -> Result<Vec<String>, Failure> {
    let listed = spec.and_then(|spec| spec.load_balancer_source_ranges.as_deref()).unwrap_or_default();
    let range = |(index, range): (usize, &String)| {
        network(range.trim()).ok_or_else(|| {
            let message = format!("{range:?} is no range of addresses: 10.0.0.0/8 or 2001:db8::/32 would be");
            let field = Some(format!("spec.loadBalancerSourceRanges[{index}]"));
            Failure { field, ..Failure::new(Reaction::Invalid, message) }
        })
    };
    let ranges: BTreeSet<String> = listed.iter().enumerate().map(range).collect::<Result<_, _>>()?;
    Ok(ranges.into_iter().collect())
}

/// `10.1.2.3/8` as `10.0.0.0/8`; none for what is no CIDR. Read as the API server and upstream read it: what maps IPv4 into IPv6 is
/// IPv4.
fn network(range: &str) -> Option<String> {
    let (address, length) = range.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let length: u32 = length.parse().ok()?;
    let (address, length) = match self::address(address)? {
        IpAddr::V6(address) => match (address.to_ipv4_mapped(), length.checked_sub(MAPPED)) {
            (Some(address), Some(length)) => (IpAddr::V4(address), length),
            _ => (IpAddr::V6(address), length),
        },
        address => (address, length),
    };
    Some(match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(length)?).unwrap_or(0);
            format!("{}/{length}", Ipv4Addr::from(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(length)?).unwrap_or(0);
            format!("{}/{length}", Ipv6Addr::from(address.to_bits() & mask))
        }
    })
}

/// An address whose numbers may begin with zeros, and are decimal all the same: the API server has such ones from before Go refused
/// them, and still takes new ones.
fn address(text: &str) -> Option<IpAddr> {
    let without_zeros = |part: &str| {
        let number = part.trim_end_matches(['.', ':']);
        let zeros = number.len() - number.trim_start_matches('0').len();
        // One that is nothing but zeros is zero.
        let zeros = zeros.min(number.len().saturating_sub(1));
        part.get(zeros..).unwrap_or(part).to_owned()
    };
    text.split_inclusive(['.', ':']).map(without_zeros).collect::<String>().parse().ok()
}
