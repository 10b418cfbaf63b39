//! Who this provider is, and what it asks the operator for.

use ccm_sdk::meta::{
    ConfigFile, ConfigFormat, Credential, CredentialUse, Descriptor, Endpoint, Place, Setting, Source, TlsSources,
};

use crate::api::{COMPUTE, IDENTITY, KEY_MANAGER, LOAD_BALANCER, NETWORK, SESSION_TOKEN};
use crate::{annotations, config, login};

/// What may have secrets beside `clouds.yaml`.
const SECURE: &str = "secure";

pub(crate) fn descriptor() -> Descriptor {
    Descriptor {
        files: files(),
        endpoints: endpoints(),
        credentials: credentials(),
        settings: settings(),
        annotations: annotations::all(),
        ..Descriptor::new("openstack", env!("CARGO_PKG_VERSION"))
    }
}

fn files() -> Vec<ConfigFile> {
    let file = |name: &str, format, path_keys: &[&str], default_paths: &[&str]| ConfigFile {
        name: name.to_owned(),
        format,
        path_keys: path_keys.iter().map(|&key| key.to_owned()).collect(),
        default_paths: default_paths.iter().map(|&path| path.to_owned()).collect(),
    };
    let clouds_file = format!("{}:Global.clouds-file", config::FILE);
    vec![
        file(config::FILE, ConfigFormat::Ini, &[], &[]),
        file(config::CLOUDS, ConfigFormat::Yaml, &[&clouds_file], &["/etc/openstack/clouds.yaml"]),
        file(SECURE, ConfigFormat::Yaml, &[], &["/etc/openstack/secure.yaml"]),
    ]
}

/// A key of `[Global]`, and what it is called in the entry of `clouds.yaml`.
fn source(key: &str, in_entry: &str) -> Source {
    let keys = [format!("{}:Global.{key}", config::FILE), format!("{}:clouds.{{cloud}}.{in_entry}", config::CLOUDS)];
    Source { keys: keys.into_iter().filter(|key| !key.ends_with('.')).collect(), environment_variables: vec![] }
}

fn secret(key: &str) -> Source {
    let in_entry = format!("auth.{}", key.replace('-', "_"));
    let mut source = source(key, &in_entry);
    // What stands apart takes the place of what stands in the file.
    source.keys.insert(1, format!("{SECURE}:clouds.{{cloud}}.{in_entry}"));
    source
}

fn endpoints() -> Vec<Endpoint> {
    let nowhere = || Source { keys: vec![], environment_variables: vec![] };
    let tls = || TlsSources {
        ca_file: source("ca-file", "cacert"),
        client_certificate: source("cert-file", "cert"),
        client_key: source("key-file", "key"),
        ca_certificates: source("cafilecontents", ""),
        verify: Source::key(&format!("{}:clouds.{{cloud}}.verify", config::CLOUDS)),
        skip_verification: Source::key(&format!("{}:Global.tls-insecure", config::FILE)),
    };
    let endpoint = |name, purpose, url| Endpoint { tls: Some(tls()), ..Endpoint::new(name, purpose, url) };
    vec![
        endpoint(IDENTITY, "Keystone: logins.", source("auth-url", "auth.auth_url")),
        endpoint(COMPUTE, "Nova: servers. Default: as the catalogue says.", nowhere()),
        endpoint(
            NETWORK,
            "Neutron: ports, routers, floating IPs, security groups. Default: as the catalogue says.",
            nowhere(),
        ),
        endpoint(LOAD_BALANCER, "Octavia: load balancers. Default: as the catalogue says.", nowhere()),
        endpoint(KEY_MANAGER, "Barbican: certificates. Default: as the catalogue says.", nowhere()),
    ]
}

fn credentials() -> Vec<Credential> {
    let in_login =
        |path: &str| CredentialUse { endpoint: IDENTITY.to_owned(), place: Place::Body, path: Some(path.to_owned()) };
    // A base URL that ends in a version leaves less of the path.
    let uses = || vec![in_login(login::TOKENS), in_login(login::TOKENS_BELOW_VERSION)];
    let given = |name: &str, purpose: &str| Credential {
        required: false,
        uses: uses(),
        ..Credential::new(name, purpose, secret(name))
    };
    let nowhere = Source { keys: vec![], environment_variables: vec![] };
    let session = Credential { required: false, ..Credential::new(SESSION_TOKEN, "What a login gives.", nowhere) };
    let services = [COMPUTE, NETWORK, LOAD_BALANCER, KEY_MANAGER];
    vec![
        given(login::PASSWORD, "Password of the user."),
        given(login::APPLICATION_ID, "ID of an application credential."),
        given(login::APPLICATION_SECRET, "Secret of an application credential."),
        given(login::TOKEN, "A token that somebody has got already. It cannot be renewed."),
        given(login::TRUSTEE_PASSWORD, "Password of who uses a trust."),
        services.iter().fold(session, |token, service| token.in_header(service, "x-auth-token")),
    ]
}

fn settings() -> Vec<Setting> {
    let cloud = Source {
        keys: vec![format!("{}:Global.cloud", config::FILE)],
        environment_variables: vec!["OS_CLOUD".to_owned()],
    };
    let regional = Source::variable("OS_CCM_REGIONAL");
    vec![
        Setting::new(config::CLOUD, "The entry of clouds.yaml.", cloud),
        // A text, as in the Go manager: `yes` and `1` must not give new Nodes other provider IDs than it does.
        Setting::new(config::REGIONAL, "true: provider IDs carry the region, openstack://RegionOne/ID.", regional),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_login_stand_in_its_body_and_the_token_in_one_header_of_the_services() {
        let of = |credential: &Credential| -> Vec<String> {
            let place = |used: &CredentialUse| match &used.place {
                Place::Body => format!("{} body {}", used.endpoint, used.path.as_deref().unwrap_or_default()),
                Place::Header(name) => format!("{} header {name}", used.endpoint),
                Place::Query(_) | Place::Signing => "elsewhere".to_owned(),
            };
            credential.uses.iter().map(place).collect()
        };
        for credential in credentials() {
            assert!(!credential.required, "there are several ways to log in: {}", credential.name);
            let expected: Vec<String> = if credential.name == SESSION_TOKEN {
                assert!(credential.value.keys.is_empty(), "only a login gives it");
                ["compute", "network", "load-balancer", "key-manager"]
                    .map(|one| format!("{one} header x-auth-token"))
                    .into()
            } else {
                ["/v3/auth/tokens", "/auth/tokens"].map(|path| format!("identity body {path}")).into()
            };
            assert_eq!(of(&credential), expected, "{}", credential.name);
        }
    }

    #[test]
    fn all_services_trust_whom_the_configuration_says() {
        for endpoint in endpoints() {
            let tls = endpoint.tls.expect("sources");
            let first = |source: &Source| source.keys.first().cloned().unwrap_or_default();
            let keys = [
                &tls.ca_file,
                &tls.client_certificate,
                &tls.client_key,
                &tls.ca_certificates,
                &tls.verify,
                &tls.skip_verification,
            ];
            assert_eq!(
                keys.map(first),
                [
                    "cloud-config:Global.ca-file",
                    "cloud-config:Global.cert-file",
                    "cloud-config:Global.key-file",
                    "cloud-config:Global.cafilecontents",
                    "clouds:clouds.{cloud}.verify",
                    "cloud-config:Global.tls-insecure",
                ]
            );
            assert_eq!(tls.ca_certificates.keys.len(), 1, "clouds.yaml has no such key");
        }
    }
}
