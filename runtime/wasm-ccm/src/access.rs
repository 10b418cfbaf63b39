//! Joins the wall before the health port with the API server, which says whose a token is and what that user may get.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_apiserver::{ApiGate, ApiGateSettings, ApiMetrics, Purpose, config_from};
use ccm_serving::access::{AccessMetrics, Reviews, Wall};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::registry::Registry;

use crate::dry_run;
use ccm_cli::{AccessArgs, RunArgs};

/// How long the API server may take for one review. A scraper waits 10 s for both.
const REVIEW_TIME: Duration = Duration::from_secs(4);
const TOKEN_REVIEW: Purpose = Purpose { verb: "create", resource: "tokenreviews" };
const ACCESS_REVIEW: Purpose = Purpose { verb: "create", resource: "subjectaccessreviews" };

/// Asks the API server.
pub(crate) struct ApiReviews {
    authentication: ApiGate,
    authorization: ApiGate,
}

/// The wall before the health port; none where only this machine reaches the port, unless the operator wants it there as well. `here`: the
/// way to the API server of all the rest.
///
/// # Errors
///
/// Names the kubeconfig that cannot be used.
pub(crate) async fn wall(
    args: &RunArgs,
    here: &Client,
    metrics: &ApiMetrics,
    registry: &mut Registry,
) -> Result<Option<Arc<Wall<ApiReviews>>>> {
    if args.secure_port == 0
        || (args.bind_address.to_canonical().is_loopback() && !args.access.authentication_on_loopback)
    {
        return Ok(None);
    }
    let AccessArgs { authentication_kubeconfig, authorization_kubeconfig, .. } = &args.access;
    let reviews = ApiReviews {
        authentication: gate(args, here, metrics, "--authentication-kubeconfig", authentication_kubeconfig.as_deref())
            .await?,
        authorization: gate(args, here, metrics, "--authorization-kubeconfig", authorization_kubeconfig.as_deref())
            .await?,
    };
    Ok(Some(Arc::new(Wall::new(args.access.settings(), reviews, AccessMetrics::register(registry)))))
}

/// The way to who reviews: of a kubeconfig, or that of all the rest.
async fn gate(
    args: &RunArgs,
    here: &Client,
    metrics: &ApiMetrics,
    flag: &str,
    kubeconfig: Option<&Path>,
) -> Result<ApiGate> {
    let client = match kubeconfig {
        Some(file) => {
            let config = config_from(flag, Some(file), None).await?;
            dry_run::client_of(&config, args.pings(), metrics, args.dry_run)
                .with_context(|| format!("{flag} {}", file.display()))?
        }
        None => here.clone(),
    };
    let settings = ApiGateSettings { request_timeout: REVIEW_TIME, ..ApiGateSettings::default() };
    Ok(ApiGate::new(client, metrics.clone(), settings))
}

impl Reviews for ApiReviews {
    async fn token(&self, token: &str, audience: Option<&'static str>) -> Result<Option<UserInfo>, String> {
        let audiences = audience.map(|audience| vec![audience.to_owned()]);
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.authentication.client());
        let parameters = PostParams::default();
        let asked = self.authentication.read(TOKEN_REVIEW, reviews.create(&parameters, &review)).await;
        let status = asked.map_err(|error| error.to_string())?.status.unwrap_or_default();
        // An API server that knows nothing of audiences names none.
        let is_meant = audience.is_none_or(|audience| status.audiences.iter().flatten().any(|one| one == audience));
        Ok(status.user.filter(|_| status.authenticated == Some(true) && is_meant))
    }

    async fn access(&self, user: &UserInfo, path: &str) -> Result<bool, String> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
        let UserInfo { extra, groups, uid, username } = user.clone();
        let spec = SubjectAccessReviewSpec {
            extra,
            groups,
            uid,
            user: username,
            non_resource_attributes: Some(attributes),
            resource_attributes: None,
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.authorization.client());
        let parameters = PostParams::default();
        let asked = self.authorization.read(ACCESS_REVIEW, reviews.create(&parameters, &review)).await;
        Ok(asked
            .map_err(|error| error.to_string())?
            .status
            .is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use ccm_serving::access::AUDIENCE;
    use clap::Parser;
    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunArgs,
    }

    /// Reviews, each with the path that it was sent to.
    type Asked = Arc<Mutex<Vec<(String, Value)>>>;

    /// An API server that answers each review with this status, and the reviews it got.
    fn server(status: Value) -> (Client, Asked) {
        let asked = Asked::default();
        let seen = Arc::clone(&asked);
        let answer = move |request: Request<Body>| {
            let (seen, status) = (Arc::clone(&seen), status.clone());
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                seen.lock().push((path, review["spec"].clone()));
                review["status"] = status;
                Ok::<_, Infallible>(
                    Response::builder().status(201).body(Body::from(review.to_string().into_bytes())).unwrap(),
                )
            }
        };
        (Client::new(tower::service_fn(answer), "default"), asked)
    }

    fn reviews(client: &Client) -> ApiReviews {
        let metrics = ApiMetrics::register(&mut Registry::default());
        let gate = ApiGate::new(client.clone(), metrics, ApiGateSettings::default());
        ApiReviews { authentication: gate.clone(), authorization: gate }
    }

    /// On all other addresses the pages would be open to the network.
    #[tokio::test]
    async fn there_is_a_wall_on_every_address_but_those_of_loopback_and_there_where_it_is_wanted() {
        let (client, _) = server(json!({}));
        for (flags, expected) in [
            (&[][..], true),
            (&["--bind-address=0.0.0.0"], true),
            (&["--bind-address=::"], true),
            (&["--bind-address=192.0.2.1"], true),
            (&["--bind-address=127.0.0.1"], false),
            (&["--bind-address=127.3.2.1"], false),
            (&["--bind-address=::1"], false),
            (&["--bind-address=::ffff:127.0.0.1"], false),
            (&["--bind-address=127.0.0.1", "--authentication-on-loopback"], true),
            (&["--secure-port=0"], false),
        ] {
            let args = Cli::try_parse_from(["run", "--provider=a.wasm"].iter().chain(flags)).ok().unwrap().run;
            let mut registry = Registry::default();
            let metrics = ApiMetrics::register(&mut registry);
            let wall = wall(&args, &client, &metrics, &mut registry).await.unwrap();
            assert_eq!(wall.is_some(), expected, "{flags:?}");
        }
        let flags = ["run", "--provider=a.wasm", "--authorization-kubeconfig=/nowhere"];
        let args = Cli::try_parse_from(flags).ok().unwrap().run;
        let metrics = ApiMetrics::register(&mut Registry::default());
        let error = wall(&args, &client, &metrics, &mut Registry::default()).await.err().unwrap();
        assert!(format!("{error:#}").starts_with("--authorization-kubeconfig /nowhere: "), "{error:#}");
    }

    #[tokio::test]
    async fn a_token_is_somebodys_only_when_it_is_authenticated_and_meant_for_the_audience() {
        let user = json!({ "username": "prometheus", "uid": "7", "groups": ["g"], "extra": { "k": ["v"] } });
        for (status, audience, expected) in [
            (json!({ "authenticated": true, "user": user }), None, true),
            (json!({ "authenticated": true, "user": user, "audiences": ["x", AUDIENCE] }), Some(AUDIENCE), true),
            // One that knows nothing of audiences.
            (json!({ "authenticated": true, "user": user }), Some(AUDIENCE), false),
            (json!({ "authenticated": true, "user": user, "audiences": ["x"] }), Some(AUDIENCE), false),
            (json!({ "authenticated": false, "user": user, "audiences": [AUDIENCE] }), Some(AUDIENCE), false),
            (json!({ "user": user }), None, false),
            (json!({ "authenticated": true }), None, false),
            (json!({ "error": "expired" }), None, false),
        ] {
            let (client, asked) = server(status.clone());
            let told = reviews(&client).token("secret", audience).await.unwrap();
            assert_eq!(told.is_some(), expected, "{status} {audience:?}");
            let mut spec = json!({ "token": "secret" });
            if let Some(audience) = audience {
                spec["audiences"] = json!([audience]);
            }
            assert_eq!(*asked.lock(), [("/apis/authentication.k8s.io/v1/tokenreviews".to_owned(), spec)]);
        }
    }

    #[tokio::test]
    async fn whether_a_user_may_get_a_path_is_asked_with_all_that_is_known_of_the_user() {
        let user = json!({ "username": "prometheus", "uid": "7", "groups": ["g"], "extra": { "k": ["v"] } });
        let user: UserInfo = serde_json::from_value(user).unwrap();
        for (status, expected) in [
            (json!({ "allowed": true }), true),
            (json!({ "allowed": false }), false),
            (json!({ "allowed": true, "denied": true }), false),
            (json!({}), false),
        ] {
            let (client, asked) = server(status.clone());
            assert_eq!(reviews(&client).access(&user, "/metrics").await, Ok(expected), "{status}");
            let spec = json!({
                "user": "prometheus", "uid": "7", "groups": ["g"], "extra": { "k": ["v"] },
                "nonResourceAttributes": { "path": "/metrics", "verb": "get" },
            });
            assert_eq!(*asked.lock(), [("/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned(), spec)]);
        }
    }
}
