//! A provider written as one for OpenStack would be: a login gives a token and a catalogue, the catalogue says where the
//! machines are. It asks for one machine per Node, all at once.
//!
//! Tests count what a simulated cloud sees of it.

use ccm_sdk::credentials::{Encoding, Part};
use ccm_sdk::http::CaptureSource;
use ccm_sdk::instances::{self, Finding, Instance, Need, State};
use ccm_sdk::meta::{self, Capability, Credential, CredentialUse, Descriptor, Endpoint, Place, Source};
use ccm_sdk::types::{Failure, Node, Problem};
use ccm_sdk::{Answer, Cloud, Request, Session, send_all};
use serde::Deserialize;

const LOGIN: &str = "/v3/auth/tokens";
const TOKEN: &str = "token";

const KEYSTONE: Cloud = Cloud::new("identity").message(words);
const SESSION: Session = Session::new(TOKEN, login).opened(opened);
const NOVA: Cloud = Cloud::new("compute").prepare(with_token).message(words).session(SESSION);
/// Every token of the simulated cloud begins with this.
const SECRET: &[u8] = b"gAAAAA";

struct Sessions;

ccm_sdk::export!(Sessions: meta, instances);

fn with_token(request: Request) -> Request {
    request.header_secret("x-auth-token", "", TOKEN)
}

fn login() -> Request {
    let body =
        vec![Part::bytes(r#"{"password":""#), Part::secret("password", Encoding::JsonString), Part::bytes(r#""}"#)];
    let token = CaptureSource::Header("x-subject-token".to_owned());
    let expires = CaptureSource::JsonPointer("/token/expires_at".to_owned());
    KEYSTONE.post(LOGIN).body_parts("application/json", body).capture(TOKEN, token, Some(expires))
}

/// `{"token": {"catalog": [{"type": "compute", "endpoints": [{"url": "…"}]}]}}`
#[derive(Deserialize)]
struct Login {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct Service {
    r#type: String,
    endpoints: Vec<Home>,
}

#[derive(Deserialize)]
struct Home {
    url: String,
}

fn opened(answer: &Answer) -> Result<(), Failure> {
    let login: Login = answer.parse()?;
    let compute = login.token.catalog.iter().find(|service| service.r#type == "compute");
    let place = compute.and_then(|service| service.endpoints.first());
    let Some(place) = place else { return Err(Failure::retry("the catalogue has no compute service")) };
    NOVA.bind(&place.url)
}

/// `{"error": {"message": "…"}}`
fn words(answer: &Answer) -> Option<String> {
    #[derive(Deserialize)]
    struct Refused {
        error: Words,
    }
    #[derive(Deserialize)]
    struct Words {
        message: String,
    }
    answer.parse().ok().map(|refused: Refused| refused.error.message)
}

impl meta::Guest for Sessions {
    fn describe() -> Descriptor {
        Descriptor {
            name: "session".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: "1".to_owned(),
            provider_id_schemes: vec!["session".to_owned()],
            files: vec![],
            endpoints: vec![endpoint("identity"), endpoint("compute")],
            credentials: vec![
                credential("password", "identity", Place::Body, Some(LOGIN)),
                credential(TOKEN, "compute", Place::Header("x-auth-token".to_owned()), None),
            ],
            settings: vec![],
            annotations: vec![],
            budgets: vec![],
            more: vec![],
        }
    }

    fn offers() -> Result<Vec<Capability>, Failure> {
        Ok(vec![])
    }

    /// What is said of the catalogue, and whether the token can be seen in it.
    fn check(online: bool) -> Result<Vec<Problem>, Failure> {
        if !online {
            return Ok(vec![]);
        }
        let answer = SESSION.answer()?;
        let id = answer.text_at("/token/id").unwrap_or_default();
        let seen = answer.body().windows(SECRET.len()).any(|bytes| bytes == SECRET)
            || answer.header("x-subject-token").is_some_and(|token| token.as_bytes().starts_with(SECRET));
        let Login { token } = answer.parse()?;
        let kinds: Vec<String> = token.catalog.into_iter().map(|service| service.r#type).collect();
        Ok(vec![Problem::harmless("catalogue", format!("{}; id {id}; secret {seen}", kinds.join(" ")))])
    }
}

fn nowhere() -> Source {
    Source { keys: vec![], environment_variables: vec![] }
}

fn endpoint(name: &str) -> Endpoint {
    Endpoint {
        name: name.to_owned(),
        purpose: "Takes requests.".to_owned(),
        base_url: nowhere(),
        default_base_url: None,
        tls: None,
    }
}

fn credential(name: &str, endpoint: &str, place: Place, path: Option<&str>) -> Credential {
    Credential {
        name: name.to_owned(),
        purpose: "Is hidden.".to_owned(),
        required: false,
        value: nowhere(),
        uses: vec![CredentialUse { endpoint: endpoint.to_owned(), place, path: path.map(Into::into) }],
    }
}

impl instances::Guest for Sessions {
    fn find(nodes: Vec<Node>, _need: Need) -> Result<Vec<Finding>, Failure> {
        let requests = nodes.iter().map(|node| NOVA.get("/servers/{name}").arg("name", &node.name)).collect();
        let answers = send_all(requests).into_iter().zip(&nodes);
        answers
            .map(|(answer, node)| {
                answer?.done()?;
                Ok(Finding::Found(Instance {
                    provider_id: format!("session://{}", node.name),
                    instance_type: String::new(),
                    addresses: vec![],
                    zone: String::new(),
                    region: String::new(),
                    labels: vec![],
                    state: State::Running,
                    more: vec![],
                }))
            })
            .collect()
    }
}
