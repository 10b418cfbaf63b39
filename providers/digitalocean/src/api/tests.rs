use ccm_sdk::testing::{FakeCloud, Reply};

use super::*;

#[test]
fn statuses_that_mean_something_else_here_have_their_reaction() {
    for (status, body, reaction, after) in [
        (403, "Load Balancer can't be updated while it processes previous actions", Reaction::Pending, Some(15_000)),
        (403, "You are not authorized to perform this operation", Reaction::Unauthorized, None),
        (403, "you have reached your load balancer limit", Reaction::Quota, None),
        (422, "droplet limit exceeded", Reaction::Quota, None),
        (422, "There is already a load balancer with that name", Reaction::Conflict, None),
        (422, "some of the specified target droplets don't belong to the same VPC", Reaction::Retry, None),
        (422, "entry port is invalid", Reaction::Invalid, None),
        (422, "health check only supports TCP and HTTP", Reaction::Invalid, None),
        // Who knows what that is about: it is tried again.
        (422, "something is not as it should be", Reaction::Retry, None),
        (400, "bad request", Reaction::Retry, None),
    ] {
        let reply = Reply::json(status, format!(r#"{{"id": "x", "message": "{body}"}}"#)).header("x-request-id", "r-1");
        let _cloud = FakeCloud::new().on("api GET /v2/x", reply);
        let failure = CLOUD.get("/v2/x").send().and_then(Answer::done).expect_err("it is refused");
        assert_eq!((failure.reaction, failure.retry_after_ms), (reaction, after), "{body}");
        assert_eq!(failure.message, format!("GET /v2/x: {status}, request id r-1: {body}"));
    }
}

#[test]
fn a_refusal_whose_words_cannot_be_read_is_tried_again() {
    for status in [400, 403, 422] {
        for body in [r#"{"id": "forbidden", "mess"#, "<html>blocked</html>", ""] {
            let _cloud = FakeCloud::new().on("api GET /v2/x", Reply::json(status, body));
            let failure = CLOUD.get("/v2/x").send().and_then(Answer::done).expect_err("it is refused");
            assert_eq!(failure.reaction, Reaction::Retry, "{status} {body}");
        }
    }
}

#[test]
fn the_words_of_a_refused_tag_are_found_too() {
    let body = r#"{"error": "tag name is invalid", "messages": null, "root_causes": []}"#;
    let _cloud = FakeCloud::new().on("api POST /v2/tags", Reply::json(400, body));
    assert_eq!(
        tags::create("x").map_err(|failure| failure.message),
        Err("POST /v2/tags: 400: tag name is invalid".to_owned())
    );
}

#[test]
fn the_token_stands_in_one_header_only() {
    let cloud = FakeCloud::new().on("api GET /v2/x", Reply::status(200));
    assert_eq!(CLOUD.get("/v2/x").send().map(|answer| answer.status()), Ok(200));
    let headers = &cloud.requests()[0].headers;
    let authorization =
        headers.iter().find(|(name, _)| name == "authorization").map(|(_, value)| ccm_sdk::testing::text(value));
    assert_eq!(authorization.as_deref(), Some("Bearer <access-token>"));
}
