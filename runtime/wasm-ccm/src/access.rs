//! Joins the wall before the health port with the API server, which says whose a token is and what that user may get.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_apiserver::{ApiGate, ApiGateSettings, ApiMetrics, Purpose, client, config_from};
use ccm_serving::access::{AccessMetrics, Reviews, Wall};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::registry::Registry;

use crate::cli::RunArgs;

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
    let settings = ApiGateSettings { request_timeout: REVIEW_TIME, ..ApiGateSettings::default() };
    let mut gates = vec![];
    for (flag, file) in [
        ("--authentication-kubeconfig", &args.access.authentication_kubeconfig),
        ("--authorization-kubeconfig", &args.access.authorization_kubeconfig),
    ] {
        let client = match file {
            Some(file) => {
                let config = config_from(flag, Some(file), None).await?;
                client(&config, args.pings(), metrics).with_context(|| format!("{flag} {}", file.display()))?
            }
            None => here.clone(),
        };
        gates.push(ApiGate::new(client, metrics.clone(), settings));
    }
    let [authentication, authorization] = <[ApiGate; 2]>::try_from(gates).map_err(|_| anyhow::anyhow!("two gates"))?;
    let reviews = ApiReviews { authentication, authorization };
    Ok(Some(Arc::new(Wall::new(args.access.settings(), reviews, AccessMetrics::register(registry)))))
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
