//! MyCloud: machines behind Nodes.

mod machines;
#[cfg(test)]
mod tests;

use ccm_sdk::instances::{self, Finding, Need};
use ccm_sdk::meta::{self, Capability, Credential, Descriptor, Endpoint, Source};
use ccm_sdk::types::{Failure, Node, Problem};
use ccm_sdk::{find, nodes};

struct Provider;

ccm_sdk::export!(Provider: meta, instances);

impl meta::Guest for Provider {
    /// All that the provider needs. The host gives it nothing that does not stand here.
    fn describe() -> Descriptor {
        Descriptor {
            provider_id_schemes: vec!["mycloud".to_owned()],
            endpoints: vec![
                Endpoint::new("api", "The API of MyCloud.", Source::variable("MYCLOUD_URL"))
                    .or("https://api.mycloud.example"),
            ],
            credentials: vec![
                Credential::new("token", "API token with the right to read.", Source::variable("MYCLOUD_TOKEN"))
                    .in_header("api", "authorization"),
            ],
            ..Descriptor::new("mycloud", env!("CARGO_PKG_VERSION"))
        }
    }

    /// Nothing yet besides Nodes. A provider that makes load balancers names that here, and exports `load_balancers`.
    fn offers() -> Result<Vec<Capability>, Failure> {
        Ok(vec![])
    }

    /// What is wrong with the configuration. With `online`, whether the cloud takes the credentials: any harmless read will do.
    fn check(online: bool) -> Result<Vec<Problem>, Failure> {
        if online {
            machines::look().send()?.done()?;
        }
        Ok(vec![])
    }
}

impl instances::Guest for Provider {
    fn find(nodes: Vec<Node>, need: Need) -> Result<Vec<Finding>, Failure> {
        find::find(&machines::Machines, &nodes, need, nodes::provider_ids)
    }
}
