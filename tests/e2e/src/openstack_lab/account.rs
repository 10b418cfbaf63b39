//! How a host gets into a project: its `cloud.conf`, and what it is granted.

use anyhow::Result;

use super::{Proxy, Server, Tenant};

/// Places of credentials in the body of a login, whether or not the address of Keystone ends in the version.
const LOGINS: [&str; 3] = [
    "password=identity:body-json:/auth/identity/password/user/password",
    "application-credential-id=identity:body-json:/auth/identity/application_credential/id",
    "application-credential-secret=identity:body-json:/auth/identity/application_credential/secret",
];

/// Where the token comes from, and where it goes.
const TOKEN: [&str; 5] = [
    "session-token=identity:capture-header:X-Subject-Token",
    "session-token=compute:header:X-Auth-Token",
    "session-token=network:header:X-Auth-Token",
    "session-token=load-balancer:header:X-Auth-Token",
    "session-token=key-manager:header:X-Auth-Token",
];

/// Flags of a host that uses the lab: which provider, that the cloud is on this machine and speaks no TLS, and what may be done with
/// credentials.
pub fn granted() -> impl Iterator<Item = String> {
    let uses = LOGINS.iter().chain(&TOKEN).map(|granted| format!("--credential-use={granted}"));
    ["--cloud-provider=openstack", "--allow-http", "--allow-loopback", "--allow-shared-address=services"]
        .map(str::to_owned)
        .into_iter()
        .chain(uses)
}

impl Tenant {
    /// How an application credential logs in.
    #[must_use]
    pub fn by_credential(&self) -> String {
        let Self { credential, secret, .. } = self;
        format!("application-credential-id = {credential}\napplication-credential-secret = {secret}\n")
    }

    /// How the user logs in, with this password.
    #[must_use]
    pub fn by_password(&self, password: &str) -> String {
        let name = &self.name;
        format!("username = {name}\npassword = {password}\ntenant-name = {name}\ndomain-id = default\n")
    }

    /// Sections for load balancers in the network with addresses outside, with more options, and routes through the router.
    ///
    /// # Errors
    ///
    /// The lab has no network outside.
    pub fn sections(&self, more: &str) -> Result<String> {
        let Self { subnet, router, .. } = self;
        let outside = self.outside()?;
        Ok(format!(
            "[LoadBalancer]\nsubnet-id = {subnet}\nfloating-network-id = {outside}\n{more}[Route]\nrouter-id = {router}\n"
        ))
    }
}

impl Proxy {
    /// A `cloud.conf` that leads here: a login, and sections besides.
    #[must_use]
    pub fn cloud_conf(&self, login: &str, more: &str) -> String {
        format!("[Global]\nauth-url = {}\nregion = RegionOne\n{login}{more}", self.auth_url())
    }
}

impl Server {
    /// What the Go manager calls it.
    #[must_use]
    pub fn provider_id(&self) -> String {
        format!("openstack:///{}", self.id)
    }
}
