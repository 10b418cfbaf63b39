use super::*;

fn trouble(name: &str, reason: &str, why: Option<&str>, next: Option<&str>) -> Trouble {
    let text = |text: Option<&str>| text.map(str::to_owned);
    Trouble { name: name.into(), reason: reason.into(), why: text(why), next: text(next) }
}

#[test]
fn a_service_says_when_its_next_try_is_or_what_it_waits_for() {
    let of = |next_try, waits_for_change| {
        let (name, why) = ("default/web".to_owned(), Some("it is refused".to_owned()));
        service(ServiceTrouble { name, reason: "QuotaExceeded", why, next_try, waits_for_change })
    };
    let told = |next| trouble("default/web", "QuotaExceeded", Some("it is refused"), next);
    assert_eq!(of(Some(Duration::from_millis(29_100)), false), told(Some("next try in 30 s")));
    assert_eq!(of(None, true), told(Some("tried again when the Service or its provider changes")));
    assert_eq!(of(None, false), told(None));
}

#[test]
fn a_node_that_is_not_initialised_says_what_came_of_the_last_try() {
    let of = |reaction: Option<&'static str>, unclaimed, waits_for_change| {
        let why = reaction.map(|_| "503".to_owned());
        uninitialised_node(UninitialisedNode { name: "n1".into(), why, reaction, unclaimed, waits_for_change })
    };
    let minute = Some(Duration::from_secs(60));
    let (why, change) = (Some("503"), Some("tried again when the Node changes"));
    assert_eq!(of(Some("retry"), None, false), trouble("n1", "the last try failed: retry", why, None));
    assert_eq!(of(Some("invalid"), None, true), trouble("n1", "the last try failed: invalid", why, change));
    assert_eq!(of(Some("elsewhere"), minute, false), trouble("n1", "no provider has known it for 60 s", why, None));
    assert_eq!(of(None, None, false), trouble("n1", "it waits for the cloud's answer", None, None));
}

#[test]
fn a_node_that_is_not_ready_says_what_the_cloud_says_of_its_machine() {
    let of = |answer, failure: Option<&str>, next_look| {
        let failure = failure.map(str::to_owned);
        unready_node(UnreadyNode { name: "n1".into(), answer, failure, next_look })
    };
    let next = Some("looked at again in 5 s");
    assert_eq!(of(Some("stopped"), None, Some(Duration::from_secs(5))), trouble("n1", "machine: stopped", None, next));
    assert_eq!(
        of(Some("throttled"), Some("429"), None),
        trouble("n1", "the cloud gave no answer: throttled", Some("429"), None)
    );
    assert_eq!(of(None, None, None), trouble("n1", "the cloud was not asked yet", None, None));
}
