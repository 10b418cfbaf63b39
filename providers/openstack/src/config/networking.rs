//! `[Networking]`: which addresses a Node has, and in which order.

use ccm_sdk::cidr::Cidr;
use ccm_sdk::config::Section;

/// Which addresses a Node has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Networking {
    pub(crate) no_ipv6: bool,
    /// Names of networks whose addresses are external.
    pub(crate) public: Vec<String>,
    /// Names of networks whose addresses are internal; empty: all others.
    pub(crate) internal: Vec<String>,
    /// Addresses in the first come first.
    pub(crate) order: Vec<Cidr>,
}

pub(crate) fn read(section: &mut Section<'_>) -> Networking {
    let no_ipv6 = section.flag("ipv6-support-disabled").unwrap_or(false);
    let public = names(section, "public-network-name");
    let internal = names(section, "internal-network-name");
    let order = section.text("address-sort-order").unwrap_or_default();
    let (order, wrong) = sort_order(&order);
    if !wrong.is_empty() {
        let message = format!("is no network, and has no effect: {}; write it like 10.0.0.0/8", wrong.join(", "));
        section.unused("address-sort-order", &message);
    }
    Networking { no_ipv6, public, internal, order }
}

fn names(section: &mut Section<'_>, key: &'static str) -> Vec<String> {
    let found = section.one_or_many(key, |text| Ok(text.to_owned())).unwrap_or_default();
    let (empty, names): (Vec<_>, Vec<_>) = found.into_iter().map(|(_, name)| name).partition(String::is_empty);
    if !empty.is_empty() {
        section.unused(key, "names no network where it is empty, and has no effect there");
    }
    names
}

/// Networks, and what is none.
pub(crate) fn sort_order(text: &str) -> (Vec<Cidr>, Vec<String>) {
    let (mut order, mut wrong) = (vec![], vec![]);
    for item in text.split(|letter: char| letter == ',' || letter.is_whitespace()).filter(|item| !item.is_empty()) {
        match Cidr::masked(item) {
            Some(cidr) => order.push(cidr),
            None => wrong.push(item.to_owned()),
        }
    }
    (order, wrong)
}
