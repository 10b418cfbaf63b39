//! A token of another account does not make anybody believe that load balancers are gone.

use super::*;

const DROPLET: &str = "api GET /v2/droplets/100";
const NEXT: &str = "api GET /v2/droplets/101";

fn known(most: u32) -> Result<Vec<String>, String> {
    Ok(["digitalocean://100", "digitalocean://101"].iter().take(most as usize).map(|id| (*id).to_owned()).collect())
}

fn droplet(id: u64) -> Reply {
    Reply::json(200, json!({ "droplet": { "id": id, "name": "n" } }).to_string())
}

fn unknown_id() -> FakeCloud {
    FakeCloud::new().always(LIST, many(&[])).always(GET, not_found())
}

#[test]
fn with_the_token_of_another_account_nothing_counts_as_gone() {
    for (reply, reaction) in [
        (not_found(), Reaction::Retry),
        (Reply::json(401, "{}"), Reaction::Unauthorized),
        (Reply::status(500), Reaction::Retry),
    ] {
        for annotations in [&[][..], &[(names::NAME, "my-lb")]] {
            let service = settled_service(annotations);
            let cloud = unknown_id().always(DROPLET, reply.clone()).always(NEXT, reply.clone());
            for done in [
                super::super::delete(&config(), &service, known),
                super::super::ensure(&config(), &service, &nodes(), known),
            ] {
                assert_eq!((failure(&done).0, written(&done)), (reaction, vec![]));
                let message = done.outcome.failure.expect("it proves nothing").message;
                assert!(message.starts_with("that it is missing proves nothing: "), "{message}");
            }
            assert!(super::super::get(&config(), &service, known).is_err());
            assert!(routes(&cloud).iter().all(|line| line.starts_with("api GET ")), "{:?}", cloud.lines());
        }
    }
    let service = settled_service(&[]);
    let cloud = unknown_id();
    let done = super::super::delete(&config(), &service, |_| Err("not known yet".to_owned()));
    assert_eq!((failure(&done).0, routes(&cloud)), (Reaction::Retry, vec![LIST.to_owned(), GET.to_owned()]));
}

#[test]
fn what_a_token_of_the_cluster_does_not_see_is_gone() {
    for (first, service_spec) in [(droplet(100), &[DROPLET][..]), (not_found(), &[DROPLET, NEXT])] {
        let service = settled_service(&[]);
        let cloud = unknown_id().on(DROPLET, first.clone()).on(NEXT, droplet(101));
        let done = super::super::delete(&config(), &service, known);
        assert_eq!((done.outcome.failure.clone(), written(&done)), (None, vec![(names::ID, None)]));
        assert_eq!(routes(&cloud), [&[LIST, GET], service_spec].concat());

        let cloud = unknown_id().on(DROPLET, first).on(NEXT, droplet(101)).on(POST, one(&balancer("lb-2")));
        let done = super::super::ensure(&config(), &service, &nodes(), known);
        assert_eq!(written(&done), [(names::ID, Some("lb-2"))]);
        assert_eq!(routes(&cloud), [&[GET, LIST], service_spec, &[POST]].concat());
    }
}

#[test]
fn what_is_there_and_what_was_never_there_needs_no_proof() {
    let cloud = FakeCloud::new().on(LIST, many(&[balancer("lb-1")])).on(DELETE, Reply::status(204));
    assert_eq!(super::super::delete(&config(), &settled_service(&[]), known).outcome.failure, None);
    assert_eq!(routes(&cloud), [LIST, DELETE]);
    let cloud = FakeCloud::new().always(LIST, many(&[])).on(POST, one(&balancer("lb-1")));
    assert_eq!(super::super::delete(&config(), &service(&[]), known), Done::new());
    assert_eq!(addresses(&super::super::ensure(&config(), &service(&[]), &nodes(), known)), both());
    assert_eq!(routes(&cloud), [LIST, LIST, POST]);
}
