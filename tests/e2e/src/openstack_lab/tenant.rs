//! A project of a test's own: its users and secrets, its network, its machines, and a list of all that is in it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::{Caller, Lab, id, until};

/// For what takes Nova and Octavia seconds, and minutes where other builds and tests share the machine.
const LIMIT: Duration = Duration::from_secs(300);
/// For fifty servers, in a lab with two cores that has other things to do.
const REMOVAL: Duration = Duration::from_secs(400);

/// A project with a network `10.1.0.0/24`, and a router between that and the outside.
pub struct Tenant {
    lab: Lab,
    /// Who may do in it what the owner of a cluster may.
    pub user: Caller,
    /// Name of the project and of its user.
    pub name: String,
    /// The project.
    pub project: String,
    /// Password of its user. No byte of it may be seen anywhere.
    pub password: String,
    /// ID of an application credential.
    pub credential: String,
    /// Its secret. No byte of it may be seen anywhere.
    pub secret: String,
    /// The network of its machines.
    pub network: String,
    /// The subnet of that.
    pub subnet: String,
    /// The router.
    pub router: String,
    user_id: String,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its ID.
    pub id: String,
    /// Its address in the network of the project.
    pub address: String,
}

impl Tenant {
    /// Makes a project.
    ///
    /// # Errors
    ///
    /// The lab does not do it.
    pub async fn new(lab: &Lab) -> Result<Self> {
        let admin = lab.admin().await?;
        let name = format!("test-{:x}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos());
        let (password, secret) = (format!("canary-password-{name}"), format!("canary-secret-{name}"));
        let wish = json!({ "name": name, "domain_id": "default" });
        let project = id(&admin.make("identity", "/v3/projects", "project", wish).await?)?;
        let wish = json!({ "name": name, "domain_id": "default", "password": password });
        let user_id = id(&admin.make("identity", "/v3/users", "user", wish).await?)?;
        for role in ["member", "creator", "load-balancer_member"] {
            let role = lab.0.said["roles"][role].as_str().with_context(|| format!("no role {role}"))?;
            let path = format!("/v3/projects/{project}/users/{user_id}/roles/{role}");
            admin.send("identity", Method::PUT, &path, None).await?;
        }
        let user = Caller { lab: lab.clone(), token: lab.login(&name, &password, &name).await? };
        let path = format!("/v3/users/{user_id}/application_credentials");
        let wish = json!({ "name": "cluster", "secret": secret });
        let credential = id(&user.make("identity", &path, "application_credential", wish).await?)?;

        let network = id(&user.make("network", "/v2.0/networks", "network", json!({ "name": "private" })).await?)?;
        let wish = json!({ "name": "private", "network_id": network, "ip_version": 4, "cidr": "10.1.0.0/24", "enable_dhcp": false });
        let subnet = id(&user.make("network", "/v2.0/subnets", "subnet", wish).await?)?;
        let wish = json!({ "name": "router", "external_gateway_info": { "network_id": lab.said("public_network")? } });
        let router = id(&user.make("network", "/v2.0/routers", "router", wish).await?)?;
        let path = format!("/v2.0/routers/{router}/add_router_interface");
        user.send("network", Method::PUT, &path, Some(json!({ "subnet_id": subnet }))).await?;
        Ok(Self {
            lab: lab.clone(),
            user,
            name,
            project,
            password,
            credential,
            secret,
            network,
            subnet,
            router,
            user_id,
        })
    }

    /// The network that leads outside.
    pub(super) fn outside(&self) -> Result<&str> {
        self.lab.said("public_network")
    }

    /// Another password for its user, with which all tokens of the old one end: every service knows.
    ///
    /// # Errors
    ///
    /// Keystone refuses.
    pub async fn change_password(&mut self, password: &str) -> Result<()> {
        let (admin, path) = (self.lab.admin().await?, format!("/v3/users/{}", self.user_id));
        admin.send("identity", Method::PATCH, &path, Some(json!({ "user": { "password": password } }))).await?;
        password.clone_into(&mut self.password);
        // A token of the second in which the others end, ends with them.
        until(LIMIT, async || {
            self.user =
                Caller { lab: self.lab.clone(), token: self.lab.login(&self.name, password, &self.name).await? };
            Ok(self.user.ask("network", Method::GET, "/v2.0/routers", None).await?.0 == 200)
        })
        .await?;
        self.lab.ended_tokens_forgotten().await;
        Ok(())
    }

    /// Starts machines with these names, and waits until they run.
    ///
    /// # Errors
    ///
    /// Nova does not do it.
    pub async fn boot<const N: usize>(&self, names: [&str; N]) -> Result<[Server; N]> {
        self.boot_all(names).await?.try_into().ok().context("as many as there are names")
    }

    /// The same for any number.
    ///
    /// # Errors
    ///
    /// Nova does not do it.
    pub async fn boot_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Vec<Server>> {
        let mut ids = vec![];
        for name in names {
            let networks = json!([{ "uuid": self.network }]);
            let (image, flavor) = (self.lab.said("image")?, self.lab.said("flavor")?);
            let wish = json!({ "name": name.as_ref(), "imageRef": image, "flavorRef": flavor, "networks": networks });
            ids.push(id(&self.user.make("compute", "/v2.1/servers", "server", wish).await?)?);
        }
        let mut made = vec![];
        for id in ids {
            let server = self.await_status(&id, "ACTIVE").await?;
            let address = server.pointer("/addresses/private/0/addr").and_then(Value::as_str);
            let address = address.with_context(|| format!("no address in {server}"))?.to_owned();
            made.push(Server { id, address });
        }
        Ok(made)
    }

    /// Switches a machine off or on (`os-stop`, `os-start`), and waits until Nova says so.
    ///
    /// # Errors
    ///
    /// Nova does not do it.
    pub async fn switch(&self, id: &str, action: &str) -> Result<()> {
        let path = format!("/v2.1/servers/{id}/action");
        self.user.send("compute", Method::POST, &path, Some(json!({ action: null }))).await?;
        self.await_status(id, if action == "os-stop" { "SHUTOFF" } else { "ACTIVE" }).await.map(drop)
    }

    /// Deletes a machine, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// Nova does not do it.
    pub async fn delete_server(&self, id: &str) -> Result<()> {
        let path = format!("/v2.1/servers/{id}");
        self.user.delete("compute", &path).await?;
        until(LIMIT, async || self.user.is_gone("compute", &path).await).await
    }

    async fn await_status(&self, id: &str, status: &str) -> Result<Value> {
        let mut server = Value::Null;
        let looks = async || {
            server = self.user.get("compute", &format!("/v2.1/servers/{id}")).await?["server"].take();
            ensure!(server["status"] != "ERROR", "{server}");
            Ok(server["status"] == status)
        };
        until(LIMIT, looks).await.with_context(|| format!("server {id} does not become {status}"))?;
        Ok(server)
    }

    /// The load balancers of the project.
    ///
    /// # Errors
    ///
    /// Octavia refuses.
    pub async fn balancers(&self) -> Result<Vec<Value>> {
        self.list("load-balancer", "/v2.0/lbaas/loadbalancers", "loadbalancers").await
    }

    /// What a collection has in this project.
    ///
    /// # Errors
    ///
    /// It is refused.
    pub async fn list(&self, service: &str, path: &str, key: &str) -> Result<Vec<Value>> {
        let mut answer = Value::Null;
        let looks = async || match self.user.get(service, path).await {
            // Octavia fails to list what is being deleted at that moment.
            Err(error) if error.to_string().contains("object has no attribute 'to_dict'") => Ok(false),
            listed => {
                answer = listed?;
                Ok(true)
            }
        };
        until(LIMIT, looks).await.with_context(|| format!("the list {path}"))?;
        let Value::Array(all) = answer[key].take() else { anyhow::bail!("no {key} in {answer}") };
        // A shared network shows to everybody.
        let is_own = |object: &Value| object["project_id"].as_str().is_none_or(|project| project == self.project);
        Ok(all.into_iter().filter(is_own).collect())
    }

    /// All that is in the project, by kind and ID, without what changes by itself. Before and after must be equal when nothing is
    /// left behind.
    ///
    /// # Errors
    ///
    /// A service refuses.
    pub async fn inventory(&self) -> Result<BTreeMap<String, Value>> {
        const NETWORK: [&str; 7] =
            ["networks", "subnets", "routers", "ports", "floatingips", "security-groups", "security-group-rules"];
        const BALANCERS: [&str; 5] = ["loadbalancers", "listeners", "pools", "healthmonitors", "l7policies"];
        let mut found = BTreeMap::new();
        let network = NETWORK.map(|kind| ("network", format!("/v2.0/{kind}"), kind));
        let balancers = BALANCERS.map(|kind| ("load-balancer", format!("/v2.0/lbaas/{kind}"), kind));
        let servers =
            [("compute", "/v2.1/servers".to_owned(), "servers"), ("key-manager", "/v1/secrets".to_owned(), "secrets")];
        for (service, path, kind) in network.into_iter().chain(balancers).chain(servers) {
            for mut object in self.list(service, &path, &kind.replace('-', "_")).await? {
                let name = object["id"].as_str().or(object["secret_ref"].as_str()).unwrap_or_default().to_owned();
                if let Some(fields) = object.as_object_mut() {
                    fields.retain(|field, _| {
                        !["updated_at", "updated", "revision_number", "status", "security_group_rules"]
                            .contains(&&**field)
                    });
                }
                found.insert(format!("{kind} {name}"), object);
            }
        }
        Ok(found)
    }

    /// Removes the project and all that is in it.
    ///
    /// # Errors
    ///
    /// Something resists.
    pub async fn remove(self) -> Result<()> {
        until(LIMIT, async || {
            let left = self.balancers().await?;
            // Octavia finishes what it does before.
            let is_still = |balancer: &&Value| {
                !balancer["provisioning_status"].as_str().unwrap_or_default().starts_with("PENDING")
            };
            for balancer in left.iter().filter(is_still) {
                let path = format!("/v2.0/lbaas/loadbalancers/{}?cascade=true", id(balancer)?);
                self.user.delete("load-balancer", &path).await?;
            }
            Ok(left.is_empty())
        })
        .await?;
        let servers = self.list("compute", "/v2.1/servers", "servers").await?;
        for server in &servers {
            self.user.delete("compute", &format!("/v2.1/servers/{}", id(server)?)).await?;
        }
        until(REMOVAL, async || Ok(self.list("compute", "/v2.1/servers", "servers").await?.is_empty())).await?;
        for floating in self.list("network", "/v2.0/floatingips", "floatingips").await? {
            self.user.delete("network", &format!("/v2.0/floatingips/{}", id(&floating)?)).await?;
        }
        let router = format!("/v2.0/routers/{}", self.router);
        let routes = json!({ "router": { "routes": [] } });
        self.user.send("network", Method::PUT, &router, Some(routes)).await?;
        let interface = Some(json!({ "subnet_id": self.subnet }));
        self.user.send("network", Method::PUT, &format!("{router}/remove_router_interface"), interface).await?;
        self.user.delete("network", &router).await?;
        for port in self.list("network", "/v2.0/ports", "ports").await? {
            self.user.delete("network", &format!("/v2.0/ports/{}", id(&port)?)).await?;
        }
        self.user.delete("network", &format!("/v2.0/networks/{}", self.network)).await?;
        let admin = self.lab.admin().await?;
        for group in self.list("network", "/v2.0/security-groups", "security_groups").await? {
            admin.delete("network", &format!("/v2.0/security-groups/{}", id(&group)?)).await?;
        }
        admin.delete("identity", &format!("/v3/users/{}", self.user_id)).await?;
        admin.delete("identity", &format!("/v3/projects/{}", self.project)).await
    }
}
