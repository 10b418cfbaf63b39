//! The pods' ranges: what the cluster's routes lead to, and nothing else.

use std::fmt;

use ipnet::IpNet;

/// The ranges of `--cluster-cidr`: one, or one of each family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRanges(Vec<IpNet>);

/// Why there are no routes to keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PodRangesError {
    /// None is given.
    #[error("--cluster-cidr is not given")]
    Missing,
    /// One is no network.
    #[error("--cluster-cidr has {0:?}, which is no CIDR, such as 10.244.0.0/16")]
    NoNetwork(String),
    /// More than one of a family.
    #[error("--cluster-cidr has {0}: one range, or one of IPv4 and one of IPv6, can have routes")]
    TooMany(String),
}

impl PodRanges {
    /// Reads the values of the flag.
    ///
    /// # Errors
    ///
    /// There is none, one is no network, or there are several of one family.
    pub fn parse(texts: &[String]) -> Result<Self, PodRangesError> {
        let read = |text: &String| {
            let network = text.parse().map_err(|_error| PodRangesError::NoNetwork(text.clone()))?;
            Ok(IpNet::trunc(&network))
        };
        let ranges: Vec<IpNet> = texts.iter().map(read).collect::<Result<_, _>>()?;
        match ranges.as_slice() {
            [] => Err(PodRangesError::Missing),
            [_] => Ok(Self(ranges)),
            [one, other] if is_v4(one) != is_v4(other) => Ok(Self(ranges)),
            _ => Err(PodRangesError::TooMany(texts.join(","))),
        }
    }

    /// Whether all of `network` is the pods'.
    pub(crate) fn contain(&self, network: &IpNet) -> bool {
        self.0.iter().any(|range| range.contains(network))
    }

    /// Whether one is of the family of `network`.
    pub(crate) fn have_family_of(&self, network: &IpNet) -> bool {
        self.0.iter().any(|range| is_v4(range) == is_v4(network))
    }
}

impl fmt::Display for PodRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

const fn is_v4(network: &IpNet) -> bool {
    matches!(network, IpNet::V4(_))
}

/// A network as a number: `10.244.03.1/24` is none, `10.244.3.1/24` is `10.244.3.0/24`.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().map(|network: IpNet| network.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(texts: &[&str]) -> Result<PodRanges, PodRangesError> {
        PodRanges::parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn case_213_214_215_what_lies_inside_the_ranges_is_the_clusters_and_nothing_else_is() {
        let cases: [(&[&str], &[&str], &[&str]); 5] = [
            (
                &["10.244.0.0/16"],
                &["10.244.0.0/24", "10.244.10.0/24", "10.244.255.0/24", "10.244.0.0/16"],
                &["10.224.0.0/24", "10.0.10.0/24", "10.255.255.0/24"],
            ),
            (&["10.244.0.0/14"], &["10.244.0.0/24", "10.247.255.0/24"], &["10.248.0.0/24", "10.243.255.0/24"]),
            (&["a00:100::/10"], &["a00:100::/24"], &["b00:100::/24", "10.0.0.0/24"]),
            // A wider route is somebody else's, though upstream takes the second one for the cluster's.
            (&["10.244.0.0/16"], &[], &["10.0.0.0/8", "10.244.0.0/15", "0.0.0.0/0"]),
            (&["10.244.0.0/16", "fd00:1::/48"], &["10.244.1.0/24", "fd00:1:0:7::/64"], &["fd00:2::/64", "::/0"]),
        ];
        for (texts, inside, outside) in cases {
            let ranges = ranges(texts).unwrap();
            for text in inside {
                assert!(ranges.contain(&network(text).unwrap()), "{texts:?} {text}");
            }
            for text in outside {
                assert!(!ranges.contain(&network(text).unwrap()), "{texts:?} {text}");
            }
        }
    }

    #[test]
    fn one_range_or_one_of_each_family_can_have_routes() {
        assert!(ranges(&["10.244.0.0/16", "fd00::/48"]).is_ok());
        assert_eq!(ranges(&["10.244.7.9/16"]).unwrap().to_string(), "10.244.0.0/16");
        let refused: [(&[&str], &str); 4] = [
            (&[], "--cluster-cidr is not given"),
            (&["10.244.0.0/16", "10.245.0.0/16"], "10.244.0.0/16,10.245.0.0/16"),
            (&["10.244.0.0/16", "fd00::/48", "fd01::/48"], "one of IPv4 and one of IPv6"),
            (&["10.244.0.0"], "no CIDR"),
        ];
        for (texts, part) in refused {
            let said = ranges(texts).unwrap_err().to_string();
            assert!(said.contains(part), "{texts:?}: {said}");
        }
    }

    #[test]
    fn networks_are_compared_as_numbers() {
        assert_eq!(network("fd00:0:0:1::/64"), network("fd00:0000:0:0001:0::/64"));
        assert_eq!(network("10.244.3.1/24"), network("10.244.3.0/24"));
        assert_eq!((network("10.244.3.0"), network("x/8"), network("10.0.0.0/33")), (None, None, None));
    }
}
