//! Who this provider is, and what it asks the operator for.

use ccm_sdk::meta::{Budget, Credential, Descriptor, Endpoint, Source};

use crate::api::balancers;
use crate::{annotations, api, config};

pub(crate) fn descriptor() -> Descriptor {
    let url = Source::variable("DO_OVERRIDE_URL");
    let purpose = "The API of DigitalOcean; a path in front of /v2 is kept for all requests.";
    let api = Endpoint::new(api::ENDPOINT, purpose, url).or("https://api.digitalocean.com");
    let value = Source::variable("DO_ACCESS_TOKEN");
    let token = Credential::new(api::TOKEN, "Personal access token with read and write scope.", value);
    // The limits are of each token.
    let budget = Budget { per_minute: Some(250), per_hour: Some(5000), ..Budget::of(&[api::ENDPOINT]) };
    Descriptor {
        endpoints: vec![api],
        credentials: vec![token.in_header(api::ENDPOINT, "authorization")],
        settings: config::settings(),
        annotations: annotations::all(),
        budgets: vec![budget],
        more: vec![("dry-run".to_owned(), balancers::VALIDATE_ONLY.to_owned())],
        ..Descriptor::new("digitalocean", env!("CARGO_PKG_VERSION"))
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
        // 36 with the prefix, three without.
        assert_eq!(names.len(), 36 + 3);
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
