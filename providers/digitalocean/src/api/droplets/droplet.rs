//! A droplet, and lists of them.

pub(super) const DROPLETS: &str = "/v2/droplets";

ccm_sdk::records! {
    /// As far as Nodes and load balancers need it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Droplet {
        pub(crate) id: u64 [id],
        pub(crate) name: String,
        /// `new`, `active`, `off`, `archive`.
        pub(crate) status: String,
        pub(crate) size_slug: String,
        pub(crate) region: Region,
        pub(super) networks: Networks,
        /// Empty where the token may not see it.
        pub(crate) vpc_uuid: String,
    }

    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Region {
        pub(crate) slug: String,
    }

    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(super) struct Networks {
        pub(super) v4: Vec<Interface>,
        pub(super) v6: Vec<Interface>,
    }

    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(super) struct Interface {
        pub(super) ip_address: String,
        pub(super) kind: String = "type",
    }
}

/// What a Node without provider ID finds its droplet by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) id: u64,
    pub(crate) name: &'a str,
    /// Private, public, public of version 6.
    pub(crate) addresses: [Option<&'a str>; 3],
}

impl Droplet {
    pub(crate) fn named(&self) -> Named<'_> {
        let addresses = [self.private_v4(), self.public_v4(), self.public_v6()];
        Named { id: self.id, name: &self.name, addresses }
    }

    pub(crate) fn private_v4(&self) -> Option<&str> {
        first(&self.networks.v4, "private")
    }

    pub(crate) fn public_v4(&self) -> Option<&str> {
        first(&self.networks.v4, "public")
    }

    pub(crate) fn public_v6(&self) -> Option<&str> {
        first(&self.networks.v6, "public")
    }
}

fn first<'a>(interfaces: &'a [Interface], kind: &str) -> Option<&'a str> {
    let found = interfaces.iter().find(|interface| interface.kind == kind && !interface.ip_address.is_empty());
    found.map(|interface| interface.ip_address.as_str())
}

/// Droplets of the account.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) droplets: Vec<Droplet>,
    /// There are more, which further calls read: [`large`](super::large).
    pub(crate) unread: bool,
}
