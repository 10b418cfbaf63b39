//! Keys, certificates, tokens and kubeconfigs of one control plane.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::json;

use crate::User;

/// Name of the administrator.
pub(crate) const ADMIN: &str = "admin";

/// File name of the administrator's kubeconfig.
pub(crate) const KUBECONFIG: &str = "kubeconfig";

/// Certificate authority and serving certificate for loopback, and the key that service account tokens are signed with.
///
/// The API server would make a serving certificate by itself; an RSA key costs it up to a second.
pub(crate) fn write_keys(folder: &Path) -> Result<()> {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "ccm-cluster");
    let ca_key = KeyPair::generate()?;
    fs::write(folder.join("ca.crt"), ca.self_signed(&ca_key)?.pem())?;

    let key = KeyPair::generate()?;
    let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
    let certificate = CertificateParams::new(names)?.signed_by(&key, &Issuer::new(ca, ca_key))?;
    fs::write(folder.join("api-server.crt"), certificate.pem())?;
    fs::write(folder.join("api-server.key"), key.serialize_pem())?;

    let service_account = KeyPair::generate()?;
    fs::write(folder.join("service-account.key"), service_account.serialize_pem())?;
    fs::write(folder.join("service-account.pub"), service_account.public_key_pem())?;
    Ok(())
}

/// Writes the token file of the API server and one kubeconfig per user; returns the kubeconfigs in the order of `users`.
pub(crate) fn write_users(folder: &Path, url: &str, users: &[User]) -> Result<Vec<PathBuf>> {
    let mut tokens = String::new();
    let mut kubeconfigs = Vec::new();
    for (number, user) in users.iter().enumerate() {
        if user.name.is_empty()
            || user.name.contains(['"', '\n'])
            || users.iter().take(number).any(|u| u.name == user.name)
        {
            bail!("user name {:?} is empty, not unique, or has a quote or line break in it", user.name);
        }
        let token = random_token()?;
        // The user name is the uid as well.
        tokens.push_str(&format!("{token},\"{0}\",\"{0}\",\"{1}\"\n", user.name, user.groups.join(",")));
        let name = if user.name == ADMIN { KUBECONFIG.to_owned() } else { format!("user-{number}.kubeconfig") };
        let path = folder.join(name);
        let text = serde_json::to_string_pretty(&kubeconfig(&folder.join("ca.crt"), url, &user.name, &token))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        kubeconfigs.push(path);
    }
    fs::write(folder.join("tokens.csv"), tokens)?;
    Ok(kubeconfigs)
}

/// JSON is YAML.
fn kubeconfig(ca: &Path, url: &str, user: &str, token: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ccm-cluster",
        "clusters": [{ "name": "ccm-cluster", "cluster": { "server": url, "certificate-authority": ca } }],
        "users": [{ "name": user, "user": { "token": token } }],
        "contexts": [{ "name": "ccm-cluster", "context": { "cluster": "ccm-cluster", "user": user } }],
    })
}

fn random_token() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
