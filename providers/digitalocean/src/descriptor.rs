//! Who this provider is, and what it asks the operator for.

use ccm_sdk::meta::{Credential, CredentialUse, Descriptor, Endpoint, Place};

use crate::api::balancers;
use crate::{annotations, api, config, provider_id};

pub(crate) fn descriptor() -> Descriptor {
    Descriptor {
        name: "digitalocean".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: "1".to_owned(),
        provider_id_schemes: vec![provider_id::SCHEME.to_owned()],
        files: vec![],
        endpoints: vec![Endpoint {
            name: api::ENDPOINT.to_owned(),
            purpose: "The API of DigitalOcean; a path in front of /v2 is kept for all requests.".to_owned(),
            base_url: config::source("DO_OVERRIDE_URL"),
            default_base_url: Some("https://api.digitalocean.com".to_owned()),
            tls: None,
        }],
        credentials: vec![Credential {
            name: api::TOKEN.to_owned(),
            purpose: "Personal access token with read and write scope.".to_owned(),
            required: true,
            value: config::source("DO_ACCESS_TOKEN"),
            uses: vec![CredentialUse {
                endpoint: api::ENDPOINT.to_owned(),
                place: Place::Header("authorization".to_owned()),
                path: None,
            }],
        }],
        settings: config::settings(),
        annotations: annotations::all(),
        more: [
            ("dry-run", balancers::VALIDATE_ONLY),
            // Of each token.
            ("requests-per-minute", "250"),
            ("requests-per-hour", "5000"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ccm_sdk::meta::AnnotationRole;

    use super::*;

    #[test]
    fn all_annotations_of_the_go_manager_are_declared_once_and_one_is_written() {
        let annotations = descriptor().annotations;
        let names: BTreeSet<&str> = annotations.iter().map(|annotation| annotation.name.as_str()).collect();
        assert_eq!(names.len(), annotations.len());
        // 36 with the prefix, three without, and what is misspelt.
        assert_eq!(names.len(), 36 + 3 + 1);
        let written: Vec<_> =
            annotations.iter().filter(|a| a.role == AnnotationRole::Both).map(|a| a.name.as_str()).collect();
        assert_eq!(written, ["kubernetes.digitalocean.com/load-balancer-id"]);
    }

    #[test]
    fn every_environment_variable_of_the_go_manager_has_its_place() {
        let descriptor = descriptor();
        let sources = descriptor.settings.iter().map(|setting| &setting.value);
        let sources = sources.chain(descriptor.endpoints.iter().map(|endpoint| &endpoint.base_url));
        let sources = sources.chain(descriptor.credentials.iter().map(|credential| &credential.value));
        let mut variables: Vec<_> = sources.flat_map(|source| source.environment_variables.clone()).collect();
        variables.sort();
        assert_eq!(
            variables,
            [
                "DEBUG_ADDR",
                "DEFAULT_LB_TYPE",
                "DO_ACCESS_TOKEN",
                "DO_API_RATE_LIMIT_QPS",
                "DO_CLUSTER_ID",
                "DO_CLUSTER_VPC_ID",
                "DO_OVERRIDE_URL",
                "METRICS_ADDR",
                "PUBLIC_ACCESS_FIREWALL_NAME",
                "PUBLIC_ACCESS_FIREWALL_TAGS",
                "REGION",
            ]
        );
    }
}
