//! What a request is: the operations of the OpenAPI document.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! endpoints {
    ($($(#[$doc:meta])* $variant:ident = $id:literal,)*) => {
        /// An operation, named as in the OpenAPI document.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Endpoint {
            $($(#[$doc])* #[serde(rename = $id)] $variant,)*
        }

        impl Endpoint {
            /// All that there are.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its `operationId`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }
        }
    };
}

endpoints! {
    /// `GET /v2/account`
    Account = "account_get",
    /// `GET /v2/regions`
    Regions = "regions_list",
    /// `GET /v2/droplets`
    Droplets = "droplets_list",
    /// `GET /v2/droplets/{droplet_id}`
    Droplet = "droplets_get",
    /// `GET /v2/load_balancers`
    Balancers = "loadBalancers_list",
    /// `GET /v2/load_balancers/{lb_id}`
    Balancer = "loadBalancers_get",
    /// `POST /v2/load_balancers`
    CreateBalancer = "loadBalancers_create",
    /// `PUT /v2/load_balancers/{lb_id}`
    UpdateBalancer = "loadBalancers_update",
    /// `DELETE /v2/load_balancers/{lb_id}`
    DeleteBalancer = "loadBalancers_delete",
    /// `POST /v2/load_balancers/{lb_id}/droplets`
    AddDroplets = "loadBalancers_add_droplets",
    /// `DELETE /v2/load_balancers/{lb_id}/droplets`
    RemoveDroplets = "loadBalancers_remove_droplets",
    /// `POST /v2/load_balancers/{lb_id}/forwarding_rules`
    AddRules = "loadBalancers_add_forwardingRules",
    /// `DELETE /v2/load_balancers/{lb_id}/forwarding_rules`
    RemoveRules = "loadBalancers_remove_forwardingRules",
    /// `GET /v2/certificates`
    Certificates = "certificates_list",
    /// `GET /v2/certificates/{certificate_id}`
    Certificate = "certificates_get",
    /// `GET /v2/firewalls`
    Firewalls = "firewalls_list",
    /// `GET /v2/firewalls/{firewall_id}`
    Firewall = "firewalls_get",
    /// `POST /v2/firewalls`
    CreateFirewall = "firewalls_create",
    /// `PUT /v2/firewalls/{firewall_id}`
    UpdateFirewall = "firewalls_update",
    /// `DELETE /v2/firewalls/{firewall_id}`
    DeleteFirewall = "firewalls_delete",
    /// `GET /v2/tags`
    Tags = "tags_list",
    /// `GET /v2/tags/{tag_id}`
    Tag = "tags_get",
    /// `POST /v2/tags`
    CreateTag = "tags_create",
    /// `DELETE /v2/tags/{tag_id}`
    DeleteTag = "tags_delete",
    /// `POST /v2/tags/{tag_id}/resources`
    TagResources = "tags_assign_resources",
    /// `DELETE /v2/tags/{tag_id}/resources`
    UntagResources = "tags_unassign_resources",
    /// `GET /v2/vpcs`
    Vpcs = "vpcs_list",
    /// `GET /v2/vpcs/{vpc_id}`
    Vpc = "vpcs_get",
}

impl Endpoint {
    /// Whether it changes anything.
    #[must_use]
    pub const fn is_write(self) -> bool {
        use Endpoint as E;
        matches!(
            self,
            E::CreateBalancer
                | E::UpdateBalancer
                | E::DeleteBalancer
                | E::AddDroplets
                | E::RemoveDroplets
                | E::AddRules
                | E::RemoveRules
                | E::CreateFirewall
                | E::UpdateFirewall
                | E::DeleteFirewall
                | E::CreateTag
                | E::DeleteTag
                | E::TagResources
                | E::UntagResources
        )
    }

    /// The operation with this `operationId`.
    #[must_use]
    pub fn of(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|endpoint| endpoint.id() == id)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.id())
    }
}
