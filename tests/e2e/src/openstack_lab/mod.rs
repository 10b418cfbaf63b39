//! The OpenStack of `./just lab-openstack`, a project of one's own in it, and a way to it on which things go wrong.

#![expect(clippy::indexing_slicing, reason = "of JSON: a field that is not there is null, and nothing panics")]

mod account;
mod cost;
mod fault;
mod proxy;
mod tenant;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use http::Method;
use serde_json::{Value, json};
use tokio::process::Command;

pub use self::account::granted;
pub use self::cost::Cost;
pub use self::fault::{Act, Fault, Of, Planned, When};
pub use self::proxy::{Exchange, Proxy};
pub use self::tenant::{Server, Tenant};

/// Where the lab is, and its administrator.
#[derive(Debug, Clone)]
pub struct Lab(Arc<Known>);

#[derive(Debug)]
struct Known {
    /// Each service as the catalogue calls it, and its address.
    services: Vec<(String, String)>,
    said: Value,
    client: reqwest::Client,
}

impl Lab {
    /// The one that runs on this machine.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn find() -> Result<Self> {
        let path = folder()?.join("lab.json");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{}: run `./just lab-openstack`", path.display()))?;
        let said: Value = serde_json::from_str(&text)?;
        let of_services = said["services"].as_object().context("lab.json has no services")?;
        let mut services = vec![("identity".to_owned(), proxy::base(&said["identity"])?)];
        for (name, url) in of_services {
            services.push((name.clone(), proxy::base(url)?));
        }
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self(Arc::new(Known { services, said, client })))
    }

    /// The address of a service.
    fn service(&self, name: &str) -> Option<&str> {
        self.addresses().find(|(service, _)| *service == name).map(|(_, base)| base)
    }

    fn addresses(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.services.iter().map(|(name, base)| (name.as_str(), base.as_str()))
    }

    /// What `lab.json` says under this name.
    ///
    /// # Errors
    ///
    /// Nothing.
    pub fn said(&self, name: &str) -> Result<&str> {
        self.0.said[name].as_str().with_context(|| format!("lab.json has no {name}"))
    }

    /// Logs in with a password; returns the token.
    async fn login(&self, user: &str, password: &str, project: &str) -> Result<String> {
        let domain = json!({ "id": "default" });
        let user = json!({ "name": user, "domain": domain, "password": password });
        let body = json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": user } },
            "scope": { "project": { "name": project, "domain": domain } },
        } });
        let url = format!("{}/v3/auth/tokens", self.service("identity").context("no Keystone")?);
        let request = self.0.client.post(url).header("content-type", "application/json").body(body.to_string());
        let answer = request.send().await?;
        let status = answer.status();
        let token = answer.headers().get("x-subject-token").and_then(|token| token.to_str().ok()).map(str::to_owned);
        token.with_context(|| format!("login: {status}"))
    }

    /// A token of the administrator.
    ///
    /// # Errors
    ///
    /// Keystone gives none.
    pub async fn admin(&self) -> Result<Caller> {
        let user = self.said("administrator")?;
        let token = self.login(user, self.said("password")?, "admin").await?;
        Ok(Caller { lab: self.clone(), token })
    }

    /// Asks one of the lab's databases, for what no API can do.
    ///
    /// # Errors
    ///
    /// The statement fails.
    pub async fn sql(&self, schema: &str, statement: &str) -> Result<()> {
        run_lab(&["sql", schema, statement]).await
    }

    /// A token is no longer valid, and every service knows.
    ///
    /// # Errors
    ///
    /// Keystone refuses.
    pub async fn revoke(&self, token: &str) -> Result<()> {
        let url = format!("{}/v3/auth/tokens", self.service("identity").context("no Keystone")?);
        let admin = self.admin().await?;
        let request = self.0.client.delete(url).header("x-auth-token", admin.token).header("x-subject-token", token);
        ensure!(request.send().await?.status().is_success(), "the token cannot be revoked");
        self.ended_tokens_forgotten().await;
        Ok(())
    }

    /// Waits until no service takes a token that Keystone has ended: they remember good ones, and nothing shows for how long still.
    async fn ended_tokens_forgotten(&self) {
        tokio::time::sleep(Duration::from_secs(self.0.said["token_cache"].as_u64().unwrap_or_default())).await;
    }
}

/// Somebody with a token, who asks the lab itself and not the proxy.
#[derive(Debug, Clone)]
pub struct Caller {
    lab: Lab,
    token: String,
}

impl Caller {
    /// Sends a request, such as `"network", PUT, "/v2.0/routers/…"`; returns what comes back, `null` where that is no JSON.
    ///
    /// # Errors
    ///
    /// It is refused; the error has the answer.
    pub async fn send(&self, service: &str, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let (status, text) = self.ask(service, method.clone(), path, body).await?;
        ensure!(status < 400, "{method} {service}{path}: {status} {text}");
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// What a collection or an object is now.
    ///
    /// # Errors
    ///
    /// It is refused.
    pub async fn get(&self, service: &str, path: &str) -> Result<Value> {
        self.send(service, Method::GET, path, None).await
    }

    /// Whether there is no such thing.
    ///
    /// # Errors
    ///
    /// It is neither there nor away.
    pub async fn is_gone(&self, service: &str, path: &str) -> Result<bool> {
        match self.ask(service, Method::GET, path, None).await? {
            (404, _) => Ok(true),
            (status, _) if status < 300 => Ok(false),
            (status, text) => bail!("GET {service}{path}: {status} {text}"),
        }
    }

    /// Makes something; returns it without its wrapper.
    ///
    /// # Errors
    ///
    /// It is refused.
    pub async fn make(&self, service: &str, path: &str, kind: &str, wish: Value) -> Result<Value> {
        let answer = self.send(service, Method::POST, path, Some(json!({ kind: wish }))).await?;
        answer.get(kind).cloned().with_context(|| format!("POST {service}{path}: no {kind} in {answer}"))
    }

    /// Deletes something, which may be gone already.
    ///
    /// # Errors
    ///
    /// It is refused.
    pub async fn delete(&self, service: &str, path: &str) -> Result<()> {
        let (status, text) = self.ask(service, Method::DELETE, path, None).await?;
        ensure!(status < 400 || status == 404, "DELETE {service}{path}: {status} {text}");
        Ok(())
    }

    async fn ask(&self, service: &str, method: Method, path: &str, body: Option<Value>) -> Result<(u16, String)> {
        let base = self.lab.service(service).with_context(|| format!("the lab has no {service}"))?;
        let mut request =
            self.lab.0.client.request(method, format!("{base}{path}")).header("x-auth-token", &self.token);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = request.header("accept", "application/json").send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }
}

/// Waits until it holds; looks three times a second, since a look costs the lab as much as what a host asks for.
///
/// # Errors
///
/// It did not within `limit`, or the look failed.
pub async fn until(limit: Duration, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let mut looks = tokio::time::interval(Duration::from_millis(333));
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    crate::host::until(limit, async || {
        looks.tick().await;
        holds().await
    })
    .await
}

/// The ID of what an API has returned.
///
/// # Errors
///
/// It has none.
pub fn id(of: &Value) -> Result<String> {
    Ok(of["id"].as_str().with_context(|| format!("no ID in {of}"))?.to_owned())
}

fn folder() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("OPENSTACK_LAB") {
        return Ok(named.into());
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => cache.into(),
        None => Path::new(&std::env::var_os("HOME").context("no HOME")?).join(".cache"),
    };
    Ok(cache.join("wasm-ccm/openstack-lab"))
}

async fn run_lab(arguments: &[&str]) -> Result<()> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clouds/openstack/lab.py");
    let run = Command::new("python3").arg(program).args(arguments).output().await?;
    ensure!(run.status.success(), "lab {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    Ok(())
}
