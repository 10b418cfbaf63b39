//! Keystone: who logs in, by what, and to what; and where its catalogue says that the services are.
//!
//! Secrets are parts that the host fills in. The token never comes here: the host captures it.

#[cfg(test)]
mod tests;

use std::time::Duration;

use ccm_sdk::credentials::{Encoding, Part};
use ccm_sdk::http::CaptureSource;
use ccm_sdk::types::{Failure, Problem};
use ccm_sdk::{Answer, Request, cache, credential};

use crate::api::{COMPUTE, KEYSTONE, NETWORK, SERVICES, SESSION, SESSION_TOKEN, Service, catalogue};
use crate::config::{self, Config, FILE, Identity, Named};

pub(crate) const PASSWORD: &str = "password";
pub(crate) const TOKEN: &str = "token";
pub(crate) const APPLICATION_ID: &str = "application-credential-id";
pub(crate) const APPLICATION_SECRET: &str = "application-credential-secret";
pub(crate) const TRUSTEE_PASSWORD: &str = "trustee-password";

/// Where tokens are given. A base URL that ends in a version has less of it.
pub(crate) const TOKENS: &str = "/v3/auth/tokens";
pub(crate) const TOKENS_BELOW_VERSION: &str = "/auth/tokens";

/// The request that logs in.
pub(crate) fn request() -> Request {
    let identity = config::configured().identity;
    match body(&identity, credential::is_available) {
        Ok(body) => {
            let token = CaptureSource::Header("x-subject-token".to_owned());
            let expires = CaptureSource::JsonPointer("/token/expires_at".to_owned());
            let path = match KEYSTONE.base_path() {
                Some(path) if catalogue::has_version(&path) => TOKENS_BELOW_VERSION,
                _ => TOKENS,
            };
            KEYSTONE.post(path).operation("POST /v3/auth/tokens").body_parts("application/json", body).capture(
                SESSION_TOKEN,
                token,
                Some(expires),
            )
        }
        Err(problems) => {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Request::refused(Failure::unauthorized(told.join("; ")))
        }
    }
}

/// Gives each service the URL that the catalogue has for it. One that it lacks is asked nothing.
pub(crate) fn opened(answer: &Answer) -> Result<(), Failure> {
    let config = config::configured();
    let entries = catalogue::read(answer)?;
    for service in SERVICES {
        if let Some(url) = place(&entries, service, &config) {
            // Who needs one that the operator does not grant is told so by `check`, and by its own requests.
            let _bound: Result<(), Failure> = service.cloud.bind(&catalogue::versioned(url, service));
        }
    }
    Ok(())
}

fn place<'c>(entries: &'c [catalogue::Entry], service: Service, config: &Config) -> Option<&'c str> {
    catalogue::url(entries, service, config.interface.text(), &config.region)
}

/// Whether the operator has given the URL. A base URL alone does not say: one that was found, in another region, lasts until another takes
/// its place. Where the operator gave one, the host looks at no other; everywhere else it takes only a URL.
fn is_given(service: Service) -> bool {
    service.cloud.base_path().is_some() && service.cloud.bind(NO_URL).is_ok()
}

const NO_URL: &str = "none";

/// What the catalogue lacks, or has where the operator does not let us.
pub(crate) fn unreachable(answer: &Answer, services: &[Service]) -> Result<Vec<Problem>, Failure> {
    let config = config::configured();
    let entries = catalogue::read(answer)?;
    let mut problems = vec![];
    for &service in services {
        if is_given(service) {
            continue;
        }
        let field = format!("endpoint {}", service.kind);
        match place(&entries, service, &config) {
            // Without Nova and Neutron nothing works; and where there was one, in another region, that would still be asked.
            None if [COMPUTE, NETWORK].contains(&service.kind) => {
                problems.push(Problem::fatal(field, missing(service, &config)));
            }
            None => problems.push(Problem::harmless(field, missing(service, &config))),
            Some(url) => {
                // Whoever forgot the grant of a host is told so before anything depends on it.
                if let Err(failure) = service.cloud.bind(&catalogue::versioned(url, service)) {
                    problems.push(Problem::fatal(field, failure.message));
                }
            }
        }
    }
    Ok(problems)
}

/// Whether there is the service: in the catalogue, or where the operator says. The answer of a login is as old as its token, so that for a
/// service that it lacks there is another login now and then.
pub(crate) fn is_reachable(service: Service) -> Result<bool, Failure> {
    let is_there = || -> Result<bool, Failure> {
        let entries = catalogue::read(&SESSION.answer()?)?;
        let found = place(&entries, service, &config::configured()).is_some();
        Ok(found || is_given(service))
    };
    if is_there()? {
        return Ok(true);
    }
    let key = format!("looked-for-{}", service.kind);
    if cache::get(&key).is_some() {
        return Ok(false);
    }
    cache::put(&key, b"", LOOK_AGAIN);
    SESSION.forget();
    is_there()
}

/// So often there is another login for a service that the catalogue lacks.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

fn missing(service: Service, config: &Config) -> String {
    let major = service.version.trim_start_matches('/').split('.').next().unwrap_or_default();
    let region = if config.region.is_empty() { "any region".to_owned() } else { format!("region {}", config.region) };
    format!(
        "failed to find {} {major} {} endpoint for {region}: No suitable endpoint could be found in the service catalog.",
        service.kind, config.interface
    )
}

/// By what somebody logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    /// The credential.
    Password(&'static str),
    Token,
    ApplicationId,
    ApplicationName,
}

fn method(identity: &Identity, has: impl Fn(&str) -> bool) -> Option<Method> {
    if identity.trust.is_some() && has(TRUSTEE_PASSWORD) {
        return Some(Method::Password(TRUSTEE_PASSWORD));
    }
    if has(PASSWORD) {
        return Some(Method::Password(PASSWORD));
    }
    if has(TOKEN) {
        return Some(Method::Token);
    }
    if has(APPLICATION_ID) {
        return Some(Method::ApplicationId);
    }
    identity.application_credential_name.is_some().then_some(Method::ApplicationName)
}

/// What is wrong with where logins go. `base` is the path of Keystone's URL, if it has one.
pub(crate) fn problem_of_url(base: Option<&str>) -> Option<Problem> {
    let message = match base {
        None => "is missing: the URL of Keystone",
        Some(path) if path.ends_with("/v2.0") => {
            "ends in /v2.0, which no Keystone has had since 2018: write /v3, or no version at all"
        }
        Some(_) => return None,
    };
    Some(Problem::fatal(format!("{FILE}:global.auth-url"), message))
}

/// What is wrong with who logs in, all of it.
pub(crate) fn problems(identity: &Identity, has: impl Fn(&str) -> bool) -> Vec<Problem> {
    body(identity, has).err().unwrap_or_default()
}

/// The body of a login.
fn body(identity: &Identity, has: impl Fn(&str) -> bool) -> Result<Vec<Part>, Vec<Problem>> {
    let mut body = Body { parts: vec![], problems: vec![] };
    body.raw(r#"{"auth":{"identity":"#);
    match method(identity, &has) {
        Some(method) => {
            body.identity(identity, method, &has);
            body.scope(identity, method);
        }
        None => body
            .wrong("password", "You must provide a password to authenticate, or an application credential, or a token"),
    }
    body.raw("}}");
    if body.problems.is_empty() { Ok(body.parts) } else { Err(body.problems) }
}

/// JSON in pieces, some of which the host fills in.
struct Body {
    parts: Vec<Part>,
    problems: Vec<Problem>,
}

impl Body {
    fn raw(&mut self, text: &str) {
        self.parts.push(Part::bytes(text));
    }

    fn text(&mut self, text: &str) {
        self.raw(&serde_json::Value::from(text).to_string());
    }

    fn secret(&mut self, credential: &str) {
        self.raw("\"");
        self.parts.push(Part::secret(credential, Encoding::JsonString));
        self.raw("\"");
    }

    fn wrong(&mut self, key: &str, message: &str) {
        self.problems.push(Problem::fatal(format!("{FILE}:global.{key}"), message));
    }

    fn identity(&mut self, identity: &Identity, method: Method, has: impl Fn(&str) -> bool) {
        match method {
            Method::Password(credential) => {
                self.raw(r#"{"methods":["password"],"password":{"user":{"#);
                self.user(identity);
                self.raw(r#","password":"#);
                self.secret(credential);
                self.raw("}}}");
            }
            Method::Token => {
                self.raw(r#"{"methods":["token"],"token":{"id":"#);
                self.secret(TOKEN);
                self.raw("}}");
                if identity.project.is_none()
                    && identity.domain.is_none()
                    && identity.trust.is_none()
                    && !identity.system
                {
                    self.wrong("token", "a token needs a scope: name the project with tenant-id or tenant-name");
                }
            }
            Method::ApplicationId | Method::ApplicationName => {
                self.raw(r#"{"methods":["application_credential"],"application_credential":{"#);
                if method == Method::ApplicationId {
                    self.raw(r#""id":"#);
                    self.secret(APPLICATION_ID);
                } else {
                    self.raw(r#""name":"#);
                    self.text(identity.application_credential_name.as_deref().unwrap_or_default());
                    self.raw(r#","user":{"#);
                    self.user(identity);
                    self.raw("}");
                }
                if !has(APPLICATION_SECRET) {
                    self.wrong(APPLICATION_SECRET, "You must provide an Application Credential Secret");
                }
                self.raw(r#","secret":"#);
                self.secret(APPLICATION_SECRET);
                self.raw("}}");
            }
        }
    }

    fn user(&mut self, identity: &Identity) {
        let trustee = identity.trustee.as_deref().filter(|_| identity.trust.is_some());
        match (trustee.or(identity.user.id.as_deref()), identity.user.name.as_deref()) {
            (Some(id), name) if trustee.is_some() || name.is_none() => {
                self.raw(r#""id":"#);
                self.text(id);
            }
            (None, Some(name)) => {
                self.raw(r#""name":"#);
                self.text(name);
                self.raw(r#","domain":"#);
                let domain = identity.user_domain.or(&identity.domain);
                self.named(
                    domain,
                    "user-domain-name",
                    "You must provide exactly one of DomainID or DomainName to authenticate by Username",
                );
            }
            _ => self
                .wrong("username", "Exactly one of Username and UserID must be provided for password authentication"),
        }
    }

    /// By its ID, where both are known.
    fn named(&mut self, named: &Named, key: &str, missing: &str) {
        match (&named.id, &named.name) {
            (Some(id), _) => {
                self.raw(r#"{"id":"#);
                self.text(id);
            }
            (None, Some(name)) => {
                self.raw(r#"{"name":"#);
                self.text(name);
            }
            (None, None) => self.wrong(key, missing),
        }
        self.raw("}");
    }

    /// An application credential has its own.
    fn scope(&mut self, identity: &Identity, method: Method) {
        if matches!(method, Method::ApplicationId | Method::ApplicationName) {
            return;
        }
        if let Some(trust) = &identity.trust {
            self.raw(r#","scope":{"OS-TRUST:trust":{"id":"#);
            self.text(trust);
            self.raw("}}");
        } else if let Some(id) = &identity.project.id {
            self.raw(r#","scope":{"project":{"id":"#);
            self.text(id);
            self.raw("}}");
        } else if let Some(name) = &identity.project.name {
            self.raw(r#","scope":{"project":{"name":"#);
            self.text(name);
            self.raw(r#","domain":"#);
            let domain = identity.project_domain.or(&identity.domain);
            self.named(
                domain,
                "tenant-domain-name",
                "You must provide exactly one of DomainID or DomainName in a Scope with ProjectName",
            );
            self.raw("}}");
        } else if identity.system {
            self.raw(r#","scope":{"system":{"all":true}}"#);
        } else if !identity.domain.is_none() {
            self.raw(r#","scope":{"domain":"#);
            self.named(&identity.domain, "domain-name", "");
            self.raw("}");
        }
    }
}
