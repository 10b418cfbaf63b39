//! How MyCloud is asked for machines, and what a Node gets of one.

use ccm_sdk::find::{self, Listed};
use ccm_sdk::instances::{Instance, Need, State};
use ccm_sdk::paging::Paging;
use ccm_sdk::types::{Address, AddressType, Failure};
use ccm_sdk::{Answer, Cloud, Request};

const CLOUD: Cloud = Cloud::new("api").prepare(authorised);

/// `{"machines": [...], "total": 431}`, 200 to a page.
const PAGES: Paging = Paging::numbered("page", "per_page", 200).items("/machines").total("/total");

/// The host puts the token in its place when the request leaves; the provider never has it.
fn authorised(request: Request) -> Request {
    request.header_secret("authorization", "Bearer ", "token")
}

ccm_sdk::records! {
    /// A machine, as the API shows it. Other fields are ignored.
    #[derive(Clone)]
    pub struct Machine {
        id: String [id],
        name: String,
        size: String,
        zone: String,
        region: String,
        status: String,
        private_ip: String,
    }
}

/// The harmless read that says whether the token is good, and whether the account has machines at all.
pub fn look() -> Request {
    CLOUD.get("/v1/machines").query("per_page", 1)
}

/// Asks the cloud as little as can be, and says that a machine is gone only when the cloud says so of exactly that machine. How it
/// does that is the SDK's; here stands how MyCloud is asked.
pub struct Machines;

impl find::Machines for Machines {
    type Machine = Machine;
    const NOUN: &'static str = "machine";

    fn id_of(&self, provider_id: &str) -> Result<String, String> {
        let id = provider_id.strip_prefix("mycloud://").filter(|id| !id.is_empty() && !id.contains('/'));
        id.map(str::to_owned).ok_or_else(|| format!("{provider_id:?} is not like mycloud://ID"))
    }

    fn get(&self, id: &str) -> Request {
        CLOUD.get("/v1/machines/{id}").arg("id", id)
    }

    fn got(&self, answer: Answer) -> Result<Option<Machine>, Failure> {
        answer.optional()?.map(|answer| answer.json_at("/machine")).transpose()
    }

    fn all(&self) -> Result<Listed<Machine>, Failure> {
        CLOUD.get("/v1/machines").share(Self::SHARE).list(PAGES).map(Listed::whole)
    }

    fn named(&self, name: &str) -> Result<Vec<Machine>, Failure> {
        CLOUD.get("/v1/machines").query("name", name).share(Self::SHARE).list(PAGES)
    }

    fn names(&self, machine: &Machine) -> Vec<String> {
        vec![machine.name.to_ascii_lowercase()]
    }

    fn look(&self) -> Request {
        look()
    }

    fn any(&self, answer: Answer) -> Result<bool, Failure> {
        answer.json_at::<Vec<Machine>>("/machines").map(|machines| !machines.is_empty())
    }

    fn instance(&self, machine: &Machine, need: Need) -> Result<Instance, Failure> {
        // A new Node waits for its address. That a machine exists and runs does not depend on it.
        if need == Need::Metadata && machine.private_ip.is_empty() {
            return Err(Failure::retry("it has no address yet"));
        }
        let state = if machine.status == "off" { State::Stopped } else { State::Running };
        let address = |kind, value: &str| Address { kind, value: value.to_owned() };
        let mut instance = Instance {
            instance_type: machine.size.clone(),
            zone: machine.zone.clone(),
            region: machine.region.clone(),
            addresses: vec![
                address(AddressType::Hostname, &machine.name),
                address(AddressType::InternalIp, &machine.private_ip),
            ],
            ..Instance::new(format!("mycloud://{}", machine.id), state)
        };
        // The host refuses a machine with an address that is none.
        instance.addresses.retain(|address| !address.value.is_empty());
        Ok(instance)
    }
}
