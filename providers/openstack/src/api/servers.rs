//! Servers.

use ccm_sdk::paging::Paging;
use ccm_sdk::record::{Record, Slot, Value};
use ccm_sdk::types::Failure;
use ccm_sdk::{Answer, Request};
use std::time::Duration;

use super::NOVA;

ccm_sdk::records! {
    /// A server, as far as it is of use here.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Server {
        pub(crate) id: String [id],
        pub(crate) name: String,
        pub(crate) status: String,
        pub(crate) networks: Networks = "addresses",
        pub(crate) access_v4: String = "accessIPv4",
        pub(crate) access_v6: String = "accessIPv6",
        pub(crate) metadata: Metadata,
        pub(crate) flavor: Flavor,
        pub(crate) zone: String = "OS-EXT-AZ:availability_zone",
    }

    /// What the owner wrote on it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Metadata {
        pub(crate) hostname: String,
    }

    /// Its size. Without the microversion that we ask for, only an ID.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Flavor {
        pub(crate) original_name: String,
        pub(crate) id: String,
    }

    /// An address, as Nova knows it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Address {
        pub(crate) addr: String,
        /// `fixed` or `floating`.
        pub(crate) kind: String = "OS-EXT-IPS:type",
    }
}

/// Addresses by the names of networks, in the order of the server's interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Networks(pub(crate) Vec<(String, Vec<Address>)>);

impl Record for Networks {
    fn field(&mut self, key: &str) -> Option<Slot<'_>> {
        self.0.push((key.to_owned(), vec![]));
        self.0.last_mut().map(|(_, addresses)| addresses.slot())
    }
}

impl Value for Networks {
    fn slot(&mut self) -> Slot<'_> {
        Slot::Record(self)
    }
}

/// Servers have some 3 KB each.
const LIST: Paging = Paging::marker("marker", "limit", 500).items("/servers").until_no_next("/servers_links");

/// From this version on, a server has the name of its flavor.
fn versioned(request: Request) -> Request {
    request.header("openstack-api-version", "compute 2.47")
}

/// Asks for one server.
pub(crate) fn get(id: &str) -> Request {
    versioned(NOVA.get("/servers/{id}")).arg("id", id)
}

/// The answer to [`get`]; `None` when the cloud says that there is no such server.
pub(crate) fn one(answer: Answer) -> Result<Option<Server>, Failure> {
    answer.optional()?.map(|answer| answer.json_at("/server")).transpose()
}

/// All of the project.
pub(crate) fn all(share: Duration) -> Result<Vec<Server>, Failure> {
    versioned(NOVA.get("/servers/detail")).share(share).list(LIST)
}

/// Those with a name, in capitals or not: databases differ. The cloud reads a pattern.
pub(crate) fn named(name: &str, share: Duration) -> Result<Vec<Server>, Failure> {
    versioned(NOVA.get("/servers/detail")).query("name", pattern(name)).share(share).list(LIST)
}

/// The harmless read that says whether the project has servers.
pub(crate) fn look() -> Request {
    versioned(NOVA.get("/servers/detail")).query("limit", 1)
}

/// The answer to [`look`].
pub(crate) fn any(answer: Answer) -> Result<bool, Failure> {
    answer.json_at::<Vec<Server>>("/servers").map(|servers| !servers.is_empty())
}

/// A regular expression that is just this name.
fn pattern(name: &str) -> String {
    let mut pattern = "^".to_owned();
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('$');
    pattern
}
