//! Addresses that are no place in the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Metadata services that answer on addresses which look harmless.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(168, 63, 129, 16),   // Azure WireServer
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle, the old one
];

/// What an address is that is no place in the network: nothing is to be sent there, and nobody is to be told that it is somebody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRefusal {
    /// 0.0.0.0/8 or ::, which mean this machine.
    Unspecified,
    /// This machine.
    Loopback,
    /// One link, where metadata services live.
    LinkLocal,
    /// A metadata service outside of the link-local range.
    Metadata,
    /// More than one machine.
    Multicast,
    /// Teredo: leads wherever somebody else says.
    Tunnel,
}

impl AddressRefusal {
    /// For messages.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a metadata service",
            Self::Multicast => "a multicast or broadcast address",
            Self::Tunnel => "an address of a tunnel",
        }
    }

    /// What `ip` is, if it is no place in the network. Private ranges are places: clouds live there.
    #[must_use]
    pub fn of(ip: IpAddr) -> Option<Self> {
        Self::refuse(ip, false)
    }

    /// The same where this machine is a place.
    #[must_use]
    pub fn of_remote(ip: IpAddr) -> Option<Self> {
        Self::refuse(ip, true)
    }

    fn refuse(ip: IpAddr, loopback: bool) -> Option<Self> {
        match ip {
            IpAddr::V4(ip) => Self::refuse_v4(ip, loopback),
            IpAddr::V6(ip) => Self::refuse_v6(ip, loopback),
        }
    }

    fn refuse_v4(ip: Ipv4Addr, loopback: bool) -> Option<Self> {
        match ip.octets() {
            [0, ..] => Some(Self::Unspecified),
            [127, ..] => (!loopback).then_some(Self::Loopback),
            [169, 254, ..] => Some(Self::LinkLocal),
            [224..=239, ..] | [255, 255, 255, 255] => Some(Self::Multicast),
            _ => METADATA_V4.contains(&ip).then_some(Self::Metadata),
        }
    }

    fn refuse_v6(ip: Ipv6Addr, loopback: bool) -> Option<Self> {
        let [_, _, _, _, _, _, _, _, _, _, _, _, a, b, c, d] = ip.octets();
        let last = Ipv4Addr::new(a, b, c, d);
        match ip.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0] => Some(Self::Unspecified),
            [0, 0, 0, 0, 0, 0, 0, 1] => (!loopback).then_some(Self::Loopback),
            // IPv4-compatible, IPv4-mapped, IPv4-translated, NAT64.
            [0, 0, 0, 0, 0, 0 | 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {
                Self::refuse_v4(last, loopback)
            }
            [0x64, 0xff9b, 1, ..] => Self::refuse_local_nat64(ip, loopback),
            [0x2002, high, low, ..] => {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                Self::refuse_v4(Ipv4Addr::new(a, b, c, d), loopback)
            }
            [0x2001, 0, ..] => Some(Self::Tunnel),
            [0xfe80..=0xfebf, ..] => Some(Self::LinkLocal),
            [0xff00..=0xffff, ..] => Some(Self::Multicast),
            // Amazon, Google, Oracle, Scaleway.
            [0xfd00, 0xec2, ..]
            | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
            | [0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe]
            | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42] => Some(Self::Metadata),
            _ => None,
        }
    }

    /// NAT64 with a prefix out of 64:ff9b:1::/48: its length is the network's choice, and with it where the IPv4 address is
    /// (RFC 6052, 2.2).
    fn refuse_local_nat64(ip: Ipv6Addr, loopback: bool) -> Option<Self> {
        let [_, _, _, _, _, _, b6, b7, _, b9, b10, b11, b12, b13, b14, b15] = ip.octets();
        let places = [[b6, b7, b9, b10], [b7, b9, b10, b11], [b9, b10, b11, b12], [b12, b13, b14, b15]];
        // Zeros in front are what the address looks like from a wrong place.
        let addresses = places.into_iter().map(Ipv4Addr::from).filter(|ip| ip.octets().first() != Some(&0));
        addresses.filter_map(|ip| Self::refuse_v4(ip, loopback)).next()
    }
}
