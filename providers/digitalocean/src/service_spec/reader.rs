//! Values of annotations. Whatever does not fit is told with name, value and what is allowed.

use std::net::IpAddr;

use ccm_sdk::types::{Problem, Service};

use crate::annotations as names;
use crate::ordered;
use crate::service_spec::problems::Problems;

const YES_OR_NO: &str = "\"true\", \"false\"";

pub(crate) struct Reader<'a> {
    pub(crate) service: &'a Service,
    pub(crate) problems: Problems,
}

impl<'a> Reader<'a> {
    pub(crate) fn of(service: &'a Service) -> Self {
        Self { service, problems: Problems::default() }
    }

    pub(crate) fn wrong(&mut self, name: &str, message: String) {
        let problem = Problem::fatal(field(name), message);
        let of_regional = names::REGIONAL_ONLY.contains(&name);
        if of_regional { self.problems.regional.push(problem) } else { self.problems.all.push(problem) }
    }

    pub(crate) fn harmless(&mut self, name: &str, message: String) {
        self.problems.all.push(Problem::harmless(field(name), message));
    }

    /// As if it said `instead`, as in the Go manager.
    pub(crate) fn ignored(&mut self, name: &str, instead: &str, allowed: &str) {
        let value = self.shown(name);
        self.harmless(
            name,
            format!("annotation {name} has the value {value:?}, and {instead} is taken; allowed are {allowed}"),
        );
    }

    fn shown(&self, name: &str) -> String {
        self.raw(name).unwrap_or_default().chars().take(100).collect()
    }

    pub(crate) fn wrong_value(&mut self, name: &str, allowed: &str) {
        let value = self.shown(name);
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
        self.yes_or_no(name).unwrap_or_else(|| {
            self.wrong_value(name, YES_OR_NO);
            false
        })
    }

    /// So is anything that is neither.
    pub(crate) fn lenient_flag(&mut self, name: &str) -> bool {
        self.yes_or_no(name).unwrap_or_else(|| {
            self.ignored(name, "false", YES_OR_NO);
            false
        })
    }

    fn yes_or_no(&self, name: &str) -> Option<bool> {
        match self.raw(name) {
            None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Some(false),
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Some(true),
            Some(_) => None,
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

    /// A number that is no port is none of the Service's, and means nothing.
    pub(crate) fn port(&mut self, name: &str) -> Option<i64> {
        let number = self.text(name)?.parse().ok();
        if number.is_none() {
            self.wrong_value(name, "whole numbers from 1 to 65535");
        }
        number
    }

    /// Likewise, joined by commas; blanks around them do not count.
    pub(crate) fn ports(&mut self, name: &str) -> Vec<i64> {
        let Some(text) = self.text(name) else { return vec![] };
        let allowed = "numbers of Service ports joined by commas, such as \"443,8443\"";
        let ports: Option<Vec<i64>> = text.split(',').map(|port| port.trim().parse().ok()).collect();
        let Some(ports) = ports else {
            self.wrong_value(name, allowed);
            return vec![];
        };
        let strange = |port: &&i64| !(1..=i64::from(u16::MAX)).contains(*port);
        if let Some(port) = ports.iter().find(strange) {
            self.harmless(name, format!("annotation {name} has {port}, which is no port; allowed are {allowed}"));
        }
        ports
    }

    /// `ip:ADDRESS` and `cidr:NETWORK` joined by commas; in order, each once.
    ///
    /// # Errors
    ///
    /// It has something else: whoever makes something of it must not take it for an empty list, which lets everybody in.
    pub(crate) fn rules(&self, name: &str) -> Result<Vec<String>, Problem> {
        let text = self.text(name).unwrap_or_default();
        let rules: Vec<String> =
            text.split(',').map(str::trim).filter(|rule| !rule.is_empty()).map(str::to_owned).collect();
        let good = |rule: &String| match rule.split_once(':') {
            Some(("ip", address)) => address.parse::<IpAddr>().is_ok(),
            Some(("cidr", network)) => masked(network).is_some(),
            _ => false,
        };
        if !rules.iter().all(good) {
            let value = self.shown(name);
            let message = format!(
                "annotation {name} has the value {value:?}; allowed are \"ip:ADDRESS\" and \"cidr:NETWORK\" joined by commas, such as \"ip:1.2.3.4,cidr:10.0.0.0/8\""
            );
            return Err(Problem::fatal(field(name), message));
        }
        Ok(ordered::list(rules))
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

pub(super) fn masked(network: &str) -> Option<String> {
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
