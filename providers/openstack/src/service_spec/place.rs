//! Where a load balancer, its members and its floating IP are: networks and subnets, from the Service, its class and the
//! configuration. The order is that of the Go manager, which is not the same for all of them.

use ccm_sdk::annotations::Reader;
use ccm_sdk::quoted;

use crate::annotations as names;
use crate::config::Class;

/// Where the address of a load balancer is, and its members. What is empty is for Octavia, or for the first Node, to say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) network: Option<String>,
    pub(crate) subnet: Option<String>,
    pub(crate) member_subnet: Option<String>,
    pub(crate) port: Option<String>,
}

/// Where a floating IP is from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Floating {
    /// None: the external network that there is.
    pub(crate) network: Option<String>,
    pub(crate) choice: Choice,
    /// Who has chosen.
    pub(crate) by: By,
}

/// Who says which subnets a floating IP may be from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum By {
    #[default]
    Configuration,
    /// Its name.
    Class(String),
    Service,
}

impl By {
    /// The place of a key, for the operator; none: an annotation says it.
    pub(crate) fn place(&self, key: &str) -> Option<String> {
        match self {
            Self::Configuration => Some(format!("{key} in [LoadBalancer]")),
            Self::Class(name) => Some(format!("{key} in [LoadBalancerClass {}]", quoted(name))),
            Self::Service => None,
        }
    }
}

/// Which of the network's subnets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    #[default]
    Any,
    Subnet(String),
    /// A pattern of names and an expression of tags; one of them may be empty.
    Matching(String, String),
}

/// For an external Service a class counts before the annotations on network and subnet, for an internal one after them.
pub(crate) fn read(reader: &Reader<'_>, class: Option<&Class>, config: &Class, internal: bool) -> Place {
    let of = |name: &'static str, pick: fn(&Class) -> &str, class_first: bool| {
        let of_class = class.map(pick).filter(|text| !text.is_empty());
        let asked = reader.text(name);
        let found = if class_first { of_class.or(asked) } else { asked.or(of_class) };
        some(found.unwrap_or_else(|| pick(config)))
    };
    Place {
        network: of(names::NETWORK, |class| &class.network, !internal),
        subnet: of(names::SUBNET, |class| &class.subnet, !internal),
        member_subnet: of(names::MEMBER_SUBNET, |class| &class.member_subnet, false)
            // One function for every call: the Go manager's members moved between subnets (Q31).
            .or_else(|| some(&config.subnet)),
        port: reader.text(names::PORT).map(str::to_owned),
    }
}

/// The first of class, annotations and configuration that says anything about subnets. An empty annotation says nothing, except of the
/// network.
pub(crate) fn floating(reader: &mut Reader<'_>, class: Option<&Class>, config: &Class) -> Floating {
    let of_class = class.map(|class| class.floating_network.as_str()).filter(|text| !text.is_empty());
    let network = of_class.or(reader.raw(names::FLOATING_NETWORK)).unwrap_or(&config.floating_network);
    let asked = |name| reader.text(name);
    let (id, pattern, tags) =
        (asked(names::FLOATING_SUBNET_ID), asked(names::FLOATING_SUBNET), asked(names::FLOATING_SUBNET_TAGS));
    let of = |class: &Class| choice(&class.floating_subnet_id, &class.floating_subnet, &class.floating_subnet_tags);
    let of_class = class.map(of).filter(|choice| *choice != Choice::Any);
    let (choice, by) = match of_class {
        Some(choice) => (choice, By::Class(reader.text(names::CLASS).unwrap_or_default().to_owned())),
        None if id.or(pattern).or(tags).is_some() => {
            let choice = choice(id.unwrap_or_default(), pattern.unwrap_or_default(), tags.unwrap_or_default());
            (choice, By::Service)
        }
        None => (of(config), By::Configuration),
    };
    Floating { network: some(network), choice, by }
}

fn choice(id: &str, pattern: &str, tags: &str) -> Choice {
    if !id.is_empty() {
        Choice::Subnet(id.to_owned())
    } else if pattern.is_empty() && tags.is_empty() {
        Choice::Any
    } else {
        Choice::Matching(pattern.to_owned(), tags.to_owned())
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}
