//! Who logs in, with what, how often, and what the catalogue offers.

use ccm_cluster::NodeFixture;
use ccm_e2e::openstack_lab::Of;
use serde_json::json;

use crate::look::{await_event, await_untainted, told};
use crate::rig::Rig;
use crate::service_look::{await_reason, await_served, is_bare, serve, the};
use crate::stage::LIMIT;

/// Of so many logins with a password that is wrong, none is in vain: the pauses between them grow.
const FEW: usize = 6;

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_wrong_password_at_the_start_is_told_and_a_right_one_in_the_file_is_taken_without_a_restart() {
    let rig = Rig::new().await;
    rig.tenant.boot(["n1"]).await.unwrap();
    let wrong = "canary-wrong-password";
    let host = rig.start(&rig.configure(&rig.tenant.by_password(wrong), &rig.sections()), &[]);
    NodeFixture::new("n1").register(rig.client()).await.unwrap();
    host.await_log(LIMIT, &["provider not taken", "401", "/auth/tokens"]).await.unwrap();
    host.await_page("/readyz", 503, LIMIT).await.unwrap();
    rig.configure(&rig.tenant.by_password(&rig.tenant.password), &rig.sections());
    await_untainted(rig.client(), "n1").await;
    let logins = rig.proxy.count(Of::LOGINS);
    assert!((2..=FEW).contains(&logins), "{logins} logins");
    assert!(!host.log_text().contains(wrong), "the wrong password is in the log");
    rig.end(host).await;
}

#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn a_password_that_is_no_longer_valid_is_told_and_seldom_tried_until_the_file_has_the_new_one() {
    let mut rig = Rig::new().await;
    rig.tenant.boot(["n1", "n2", "n3"]).await.unwrap();
    let old = rig.tenant.password.clone();
    let config = rig.configure(&rig.tenant.by_password(&old), &rig.sections());
    let host = rig.start(&config, &[]);
    NodeFixture::new("n1").register(rig.client()).await.unwrap();
    await_untainted(rig.client(), "n1").await;

    let new = format!("{old}-new");
    rig.tenant.change_password(&new).await.unwrap();
    let mark = rig.proxy.mark();
    for name in ["n2", "n3"] {
        NodeFixture::new(name).register(rig.client()).await.unwrap();
    }
    for name in ["web", "api", "dns", "smtp"] {
        serve(rig.client(), name, json!({})).await;
    }
    for name in ["web", "api", "dns", "smtp"] {
        await_reason(rig.client(), name, "CredentialsRefused").await;
    }
    for name in ["n2", "n3"] {
        await_event(rig.client(), name, "Warning", "SyncNodeFailed", &["401"]).await;
    }
    // All of them ask, and Keystone is asked by few.
    let logins = rig.proxy.since(mark).iter().filter(|exchange| Of::LOGINS.is(&exchange.operation)).count();
    assert!((1..=FEW).contains(&logins), "{logins} logins");

    rig.configure(&rig.tenant.by_password(&new), &rig.sections());
    for name in ["n2", "n3"] {
        await_untainted(rig.client(), name).await;
    }
    for name in ["web", "api", "dns", "smtp"] {
        await_served(rig.client(), name).await;
    }
    assert!(!host.log_text().contains(&old), "the old password is in the log");
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
    rig.tenant.boot(["n1", "n2"]).await.unwrap();
    let host = rig.host(&[]);
    NodeFixture::new("n1").register(rig.client()).await.unwrap();
    await_untainted(rig.client(), "n1").await;
    host.ready().await;
    serve(rig.client(), "web", json!({})).await;
    // Whoever could have begun with the Service has: a Node that came after it is done.
    NodeFixture::new("n2").register(rig.client()).await.unwrap();
    await_untainted(rig.client(), "n2").await;
    host.events_written().await;
    let web = the(rig.client(), "web").await;
    assert!(is_bare(&web), "{web:#?}");
    let conditions = web.status.as_ref().and_then(|status| status.conditions.as_ref());
    assert!(conditions.is_none_or(Vec::is_empty), "{conditions:?}");
    assert_eq!(told(rig.client(), "web").await, [""; 0]);
    assert_eq!(rig.tenant.balancers().await.unwrap(), Vec::<serde_json::Value>::new());
    rig.end(host).await;
}

/// The cloud gets Octavia while the host runs. A catalogue is as old as its login: here a new one comes with another account.
#[tokio::test]
#[ignore = "needs the lab of `./just test-openstack`"]
async fn load_balancers_begin_when_octavia_appears_in_the_catalogue() {
    let rig = Rig::new().await;
    rig.proxy.hide("load-balancer");
    rig.members(["n1"]).await;
    let before = rig.tenant.inventory().await.unwrap();
    let host = rig.host(&[]);
    host.ready().await;
    serve(rig.client(), "web", json!({})).await;
    host.await_log(LIMIT, &["load-balancer"]).await.unwrap();
    assert_eq!(rig.tenant.inventory().await.unwrap(), before);

    rig.proxy.show("load-balancer");
    rig.configure(&rig.tenant.by_password(&rig.tenant.password), &rig.sections());
    await_served(rig.client(), "web").await;
    rig.remove("web").await;
    rig.end_as(&before, host).await;
}
