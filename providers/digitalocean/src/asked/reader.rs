//! Values of annotations. Whatever does not fit is told with name, value and what is allowed.

use std::net::IpAddr;

use ccm_sdk::types::{Problem, Service};

pub(crate) struct Reader<'a> {
    pub(crate) service: &'a Service,
    pub(crate) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(crate) fn of(service: &'a Service) -> Self {
        Self { service, problems: vec![] }
    }

    pub(crate) fn wrong(&mut self, name: &str, message: String) {
        self.problems.push(Problem::fatal(field(name), message));
    }

    pub(crate) fn harmless(&mut self, name: &str, message: String) {
        self.problems.push(Problem::harmless(field(name), message));
    }

    pub(crate) fn wrong_value(&mut self, name: &str, allowed: &str) {
        let value: String = self.raw(name).unwrap_or_default().chars().take(100).collect();
        self.wrong(name, format!("annotation {name} has the value {value:?}; allowed are {allowed}"));
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    pub(crate) fn raw(&self, name: &str) -> Option<&'a str> {
        self.service.annotation(name)
    }

    /// Without blanks around it; an empty one is as if it were not there.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.raw(name).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Missing is false.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        match self.raw(name) {
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
            Some(_) => {
                self.wrong_value(name, "\"true\", \"false\"");
                false
            }
        }
    }

    pub(crate) fn word<T>(&mut self, name: &str, parse: fn(&str) -> Option<T>, allowed: &[&str]) -> Option<T> {
        let text = self.text(name)?;
        let word = parse(&text);
        if word.is_none() {
            self.wrong_value(name, &allowed.join(", "));
        }
        word
    }

    pub(crate) fn number_within(&mut self, name: &str, least: i64, most: i64) -> Option<i64> {
        let text = self.text(name)?;
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            let allowed = if most < i64::from(i32::MAX) {
                format!("whole numbers from {least} to {most}")
            } else {
                format!("whole numbers from {least}")
            };
            self.wrong_value(name, &allowed);
        }
        number
    }

    pub(crate) fn port(&mut self, name: &str) -> Option<u16> {
        let number = self.number_within(name, 1, i64::from(u16::MAX))?;
        u16::try_from(number).ok()
    }

    /// Joined by commas, blanks around them do not count.
    pub(crate) fn ports(&mut self, name: &str) -> Vec<u16> {
        let Some(text) = self.text(name) else { return vec![] };
        let port = |text: &str| text.trim().parse().ok().filter(|port: &u16| *port > 0);
        match text.split(',').map(port).collect() {
            Some(ports) => ports,
            None => {
                self.wrong_value(name, "numbers of Service ports joined by commas, such as \"443,8443\"");
                vec![]
            }
        }
    }

    /// `ip:ADDRESS` and `cidr:NETWORK` joined by commas; in order, each once.
    pub(crate) fn rules(&mut self, name: &str) -> Vec<String> {
        let Some(text) = self.text(name) else { return vec![] };
        let mut rules: Vec<String> =
            text.split(',').map(str::trim).filter(|rule| !rule.is_empty()).map(str::to_owned).collect();
        let good = |rule: &String| match rule.split_once(':') {
            Some(("ip", address)) => address.parse::<IpAddr>().is_ok(),
            Some(("cidr", network)) => masked(network).is_some(),
            _ => false,
        };
        if !rules.iter().all(good) {
            self.wrong_value(
                name,
                "\"ip:ADDRESS\" and \"cidr:NETWORK\" joined by commas, such as \"ip:1.2.3.4,cidr:10.0.0.0/8\"",
            );
            return vec![];
        }
        rules.sort();
        rules.dedup();
        rules
    }

    /// `spec.loadBalancerSourceRanges` as rules; in order, each once.
    pub(crate) fn source_ranges(&mut self) -> Vec<String> {
        let mut rules = vec![];
        for range in &self.service.source_ranges {
            match masked(range.trim()) {
                Some(network) => rules.push(format!("cidr:{network}")),
                None => {
                    let message = format!(
                        "failed to parse spec.loadBalancerSourceRanges: it has {range:?}; allowed are networks such as \"10.0.0.0/8\""
                    );
                    self.problems.push(Problem::fatal("spec.loadBalancerSourceRanges", message));
                }
            }
        }
        rules.sort();
        rules.dedup();
        rules
    }
}

fn field(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}

/// The network without the bits of the host: `10.1.2.3/8` is `10.0.0.0/8`.
/// As equal networks and addresses are written alike, whoever wrote them: `ip:ADDRESS` or `cidr:NETWORK`.
pub(crate) fn canonical(rule: &str) -> String {
    let plain = match rule.split_once(':') {
        Some(("ip", address)) => address.parse::<IpAddr>().ok().map(|address| format!("ip:{address}")),
        Some(("cidr", network)) => masked(network).map(|network| format!("cidr:{network}")),
        _ => None,
    };
    plain.unwrap_or_else(|| rule.to_owned())
}

fn masked(network: &str) -> Option<String> {
    let (address, length) = network.split_once('/')?;
    let length: u32 = Some(length).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
    let address: IpAddr = match address.parse().ok()? {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(length).unwrap_or(0);
            (length <= 32).then(|| IpAddr::from((address.to_bits() & !host).to_be_bytes()))?
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(length).unwrap_or(0);
            (length <= 128).then(|| IpAddr::from((address.to_bits() & !host).to_be_bytes()))?
        }
    };
    Some(format!("{address}/{length}"))
}
