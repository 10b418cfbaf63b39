//! What a provider says of its configuration. Where the cloud refuses its credentials, their names and places are said with it: the provider
//! knows neither.

use anyhow::Result;
use ccm_cloud::{Failure, Problem, Reaction};
use ccm_egress::Egress;
use ccm_sandbox::Provider;

/// What is wrong with its configuration, by its own word and, with `online`, by that of the cloud.
///
/// # Errors
///
/// There is no answer, or it cannot judge.
pub(crate) async fn problems(provider: &Provider, online: bool) -> Result<Vec<Problem>> {
    let judged = provider.check(online).await?;
    judged.map_err(|failure| {
        let given = provider.egress().map(Egress::given_credentials).unwrap_or_default();
        unjudged(failure, &given)
    })
}

/// `given`: names and places of the credentials.
fn unjudged(failure: Failure, given: &[(String, String)]) -> anyhow::Error {
    let is_refused = failure.reaction == Reaction::Unauthorized && !given.is_empty();
    let told = if is_refused {
        let given: Vec<String> = given.iter().map(|(name, place)| format!("{name} ({place})")).collect();
        format!("it cannot judge its configuration; check the credential {}", given.join(", "))
    } else {
        "it cannot judge its configuration".to_owned()
    };
    anyhow::Error::from(failure).context(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_login_names_the_credentials_and_where_they_come_from() {
        let failure = |reaction| Failure::new(reaction, "login failed: POST /v3/auth/tokens: 401");
        let given = [("password", "Global.password in /etc/cloud.conf"), ("id", "env:OS_ID")];
        let given = given.map(|(name, place)| (name.to_owned(), place.to_owned()));
        let refused = unjudged(failure(Reaction::Unauthorized), &given);
        assert_eq!(
            format!("{refused:#}"),
            "it cannot judge its configuration; check the credential password (Global.password in /etc/cloud.conf), id (env:OS_ID): \
             login failed: POST /v3/auth/tokens: 401"
        );
        assert!(refused.downcast_ref::<Failure>().is_some(), "the gate looks at its reaction");
        for (reaction, given) in [(Reaction::Retry, &given[..]), (Reaction::Unauthorized, &[])] {
            let other = unjudged(failure(reaction), given);
            assert_eq!(
                format!("{other:#}"),
                "it cannot judge its configuration: login failed: POST /v3/auth/tokens: 401"
            );
        }
    }
}
