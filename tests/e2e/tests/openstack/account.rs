//! Who logs in, with what, how often, and what the catalogue offers.

use ccm_cluster::NodeFixture;
use ccm_e2e::host::until;
use ccm_e2e::openstack_lab::Of;
use serde_json::json;

use crate::look::{await_event, await_untainted};
use crate::rig::Rig;
use crate::service_look::{await_reason, await_served, serve};
use crate::stage::LIMIT;

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_wrong_password_is_told_and_not_tried_again_and_again_and_a_right_one_in_the_file_goes_on_without_a_restart()
{
    let rig = Rig::new().await;
    let [_] = rig.members(["n0"]).await;
    rig.tenant.boot(["n1", "n2"]).await.unwrap();
    let wrong = "canary-wrong-password";
    let host = rig.start(&rig.configure(&rig.by_password(wrong), &rig.sections()), &[]);
    for name in ["n1", "n2"] {
        NodeFixture::new(name).register(rig.client()).await.unwrap();
    }
    for name in ["web", "api"] {
        serve(rig.client(), name, json!({})).await;
    }
    for name in ["web", "api"] {
        await_reason(rig.client(), name, "CredentialsRefused").await;
    }
    for name in ["n1", "n2"] {
        await_event(rig.client(), name, "Warning", "SyncNodeFailed", &["Keystone"]).await;
    }
    // Each Node and each Service asks, and Keystone is asked by few of them.
    let logins = rig.proxy.count(Of::LOGINS);
    assert!((1..=5).contains(&logins), "{logins} logins: {:#?}", rig.proxy.exchanges());
    assert!(!host.log_text().contains(wrong), "the wrong password is in the log");

    rig.configure(&rig.by_password(&rig.tenant.password), &rig.sections());
    for name in ["n1", "n2"] {
        await_untainted(rig.client(), name).await;
    }
    for name in ["web", "api"] {
        await_served(rig.client(), name).await;
    }
    rig.end(host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_token_that_is_revoked_is_renewed_when_it_is_refused() {
    let rig = Rig::new().await;
    rig.tenant.boot(["n1", "n2"]).await.unwrap();
    let host = rig.host(&[]);
    NodeFixture::new("n1").register(rig.client()).await.unwrap();
    await_untainted(rig.client(), "n1").await;
    let tokens = rig.proxy.tokens();
    assert_eq!(tokens.len(), 1, "one login serves all");
    for token in &tokens {
        rig.lab.revoke(token).await.unwrap();
    }
    let mark = rig.proxy.mark();
    NodeFixture::new("n2").register(rig.client()).await.unwrap();
    await_untainted(rig.client(), "n2").await;
    let asked = rig.proxy.since(mark);
    let refused = asked.iter().filter(|exchange| exchange.status == Some(401)).count();
    let logins = asked.iter().filter(|exchange| Of::LOGINS.is(&exchange.operation)).count();
    assert!(refused >= 1 && logins == 1, "{refused} refused, {logins} logins: {asked:#?}");
    rig.end(host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn without_octavia_in_the_catalogue_there_are_no_load_balancers_and_everything_else_works() {
    let rig = Rig::new().await;
    rig.proxy.hide("load-balancer");
    rig.tenant.boot(["n1"]).await.unwrap();
    let host = rig.host(&[]);
    NodeFixture::new("n1").register(rig.client()).await.unwrap();
    await_untainted(rig.client(), "n1").await;
    host.ready().await;
    serve(rig.client(), "web", json!({})).await;
    let octavia = async || Ok(host.log_text().contains("load-balancer"));
    until(LIMIT, octavia).await.unwrap();
    assert_eq!(rig.tenant.balancers().await.unwrap(), Vec::<serde_json::Value>::new());
    rig.end(host).await;
}
