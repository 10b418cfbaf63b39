//! The cloud's API.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sdk::paging::Paging;
use ccm_sdk::types::Failure;
use ccm_sdk::{Answer, Cloud, Request};
use serde::Serialize;

pub(crate) const ENDPOINT: &str = "api";
pub(crate) const TOKEN: &str = "token";

const CLOUD: Cloud = Cloud::new(ENDPOINT).prepare(authorised).message(words);
const BALANCERS: &str = "/v1/load-balancers";
const BALANCER: &str = "/v1/load-balancers/{id}";
const MEMBERS: &str = "/v1/load-balancers/{id}/members";
const RULES: &str = "/v1/firewall";
const ROUTES: &str = "/v1/routes";

/// The most that the cloud puts on a page.
const PER_PAGE: usize = 100;

/// Calls that look at many balancers at the same time share one listing. Not for a decision to make one.
const SHARE: Duration = Duration::from_secs(5);

fn authorised(request: Request) -> Request {
    request.header_secret("authorization", "Bearer ", TOKEN)
}

/// `{"message": "…"}`
fn words(answer: &Answer) -> Option<String> {
    answer.text_at("/message")
}

ccm_sdk::records! {
    /// What a balancer is asked to be.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Spec {
        pub(crate) name: String,
        /// The Service's UID: names are not unique.
        pub(crate) owner: String,
        pub(crate) ports: Vec<Port>,
        pub(crate) idle_seconds: u32,
        /// In order.
        pub(crate) members: Vec<String>,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Port {
        pub(crate) port: u16,
        pub(crate) protocol: String,
        pub(crate) node_port: u16,
    }

    /// A balancer as the cloud has it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(crate) struct Balancer {
        pub(crate) id: String [id],
        /// Empty while it is being built.
        pub(crate) address: Option<String>,
        pub(crate) spec: Spec [flatten],
    }

    /// What the cloud's firewall lets in.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub(crate) struct Firewall {
        /// In order, each once.
        pub(crate) ports: Vec<u16>,
        /// In order.
        pub(crate) machines: Vec<String>,
    }
}

/// The harmless read that says whether the token is good.
pub(crate) fn look() -> Result<(), Failure> {
    CLOUD.get(BALANCERS).query("per_page", 1).send()?.done()
}

pub(crate) fn get(id: &str) -> Result<Option<Balancer>, Failure> {
    let answer = CLOUD.get(BALANCER).arg("id", id).send()?.optional()?;
    answer.map(|answer| answer.json_at("/load_balancer")).transpose()
}

/// All that belong to a Service, the oldest first. Asks now: a balancer is made when there is none.
pub(crate) fn owned_by(uid: &str) -> Result<Vec<Balancer>, Failure> {
    CLOUD.get(BALANCERS).query("owner", uid).list(PAGING)
}

pub(crate) fn all() -> Result<Vec<Balancer>, Failure> {
    CLOUD.get(BALANCERS).share(SHARE).list(PAGING)
}

const PAGING: Paging = Paging::numbered("page", "per_page", PER_PAGE).items("/load_balancers").total("/total");

pub(crate) fn create(spec: &Spec) -> Result<Balancer, Failure> {
    CLOUD.post(BALANCERS).json(spec).send()?.json_at("/load_balancer")
}

pub(crate) fn replace(id: &str, spec: &Spec) -> Result<Balancer, Failure> {
    CLOUD.put(BALANCER).arg("id", id).json(spec).send()?.json_at("/load_balancer")
}

pub(crate) fn replace_members(id: &str, members: &[String]) -> Result<Balancer, Failure> {
    #[derive(Serialize)]
    struct Body<'a> {
        members: &'a [String],
    }
    let request = CLOUD.put(MEMBERS).arg("id", id).json(&Body { members });
    request.send()?.json_at("/load_balancer")
}

/// False when it was gone already.
pub(crate) fn delete(id: &str) -> Result<bool, Failure> {
    CLOUD.delete(BALANCER).arg("id", id).send()?.optional().map(|answer| answer.is_some())
}

pub(crate) fn firewall() -> Result<Firewall, Failure> {
    CLOUD.get(RULES).send()?.json()
}

pub(crate) fn replace_firewall(firewall: &Firewall) -> Result<(), Failure> {
    CLOUD.put(RULES).json(firewall).send()?.done()
}

/// Machine by network.
pub(crate) type Table = BTreeMap<String, String>;

pub(crate) fn routes() -> Result<Table, Failure> {
    CLOUD.get(ROUTES).send()?.json()
}

/// All or nothing.
pub(crate) fn replace_routes(table: &Table) -> Result<(), Failure> {
    CLOUD.put(ROUTES).json(table).send()?.done()
}
