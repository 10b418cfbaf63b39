//! One test per attack. Each ends with a call that works.

use std::time::Duration;

use ccm_cloud::{Failure, FindError, Finding, Instances as _, Need, Node, Reaction, Severity, Subject};
use ccm_egress::{ProviderContext, Settings};
use ccm_sandbox::{Limits, Sandbox};
use tracing::Level;

use crate::capture::{Capture, Line, guest_line};
use crate::rig::{Event, HOSTILE, LOGGED, RAISE, REPORT, Rig, component, crashed, found, map, node};

#[tokio::test]
async fn a_guest_that_spins_is_stopped_at_its_computing_time() {
    let rig = Rig::hostile(Limits { call_cpu: Duration::from_millis(100), ..Limits::default() }).await;
    let error = rig.attack("spin").await;
    assert_eq!(error, (crashed(&format!("more than 100ms of computing (limit call-cpu){RAISE}")), "out-of-cpu"));
}

#[tokio::test]
async fn a_guest_that_takes_too_long_is_stopped_and_may_blame_the_cloud() {
    // A good call, such as the one that describes the provider, has time enough on a busy machine.
    let limits = Limits { call_time: Duration::from_secs(1), call_cpu: Duration::from_secs(60), ..Limits::default() };
    let rig = Rig::hostile(limits).await;
    let slow = "instances.find of hostile: no answer within 1s (limit call-time); raise the limit if its cloud needs that long";
    let slow = FindError::Failed(Failure::new(Reaction::Retry, slow));
    assert_eq!(rig.attack("spin").await, (slow, "out-of-time"));
}

#[tokio::test]
async fn a_guest_that_takes_memory_gets_its_limit_and_no_more() {
    let limits = Limits { memory_bytes: 8 << 20, ..Limits::default() };
    let rig = Rig::hostile(limits).await;
    let expected = format!("more than 8388608 bytes of memory (limit memory-bytes){RAISE}");
    assert_eq!(rig.find(&["grow"]).await, Err(crashed(&expected)));
    let end = rig.end();
    assert_eq!(end.outcome, "out-of-memory");
    assert!((6 << 20..=8 << 20).contains(&end.memory), "{end:?}");
    rig.attack("grow").await;
}

#[tokio::test]
async fn a_guest_that_recurses_ends_at_its_own_stack_and_not_at_the_hosts() {
    let rig = Rig::hostile(Limits::default()).await;
    let expected = format!("the provider crashed: wasm trap: call stack exhausted{LOGGED}");
    assert_eq!(rig.attack("recurse").await, (crashed(&expected), "trap"));
}

#[tokio::test]
async fn a_panic_ends_the_call_and_its_message_is_in_the_log() {
    let log = Capture::start();
    let rig = Rig::hostile(Limits::default()).await;
    log.take();
    let error = rig.attack("panic").await;
    let expected = format!("the provider crashed: wasm trap: wasm `unreachable` instruction executed{LOGGED}");
    assert_eq!(error, (crashed(&expected), "trap"));
    let lines = log.take();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((lines[0].level, lines[0].fields.as_str()), (Level::ERROR, " provider=\"hostile\""));
    let start = "the provider panicked panic=hostile on purpose at=";
    assert!(lines[0].message.starts_with(start), "{lines:?}");
}

#[tokio::test]
async fn an_abort_ends_the_call() {
    let rig = Rig::hostile(Limits::default()).await;
    let (error, outcome) = rig.attack("unreachable").await;
    assert!(matches!(&error, FindError::Crashed(failure) if failure.reaction == Reaction::Retry), "{error:?}");
    assert_eq!(outcome, "trap");
}

#[tokio::test]
async fn more_data_than_a_host_call_may_carry_is_refused_in_either_direction_out_of_the_guest() {
    // 32 MiB in an argument, 16 MiB in an answer.
    for (name, enough) in [("huge-string", 40 << 20), ("huge-answer", 20 << 20)] {
        let rig = Rig::hostile(Limits { memory_bytes: 256 << 20, ..Limits::default() }).await;
        let (error, outcome) = rig.attack(name).await;
        assert_eq!(outcome, "trap", "{name}");
        let error = error.to_string();
        assert!(
            error.contains("too much data") && error.ends_with(&format!("(limit host-call-bytes){RAISE}")),
            "{error}"
        );
        let limits = Limits { memory_bytes: 256 << 20, host_call_bytes: enough, ..Limits::default() };
        assert!(Rig::hostile(limits).await.find(&[name]).await.is_ok(), "{name} within {enough} bytes");
    }
}

#[tokio::test]
async fn another_number_of_findings_than_of_nodes_is_no_answer() {
    let rig = Rig::hostile(Limits::default()).await;
    let message = |count, asked| {
        format!("the provider's answer breaks the contract: it gave {count} findings for {asked} nodes{REPORT}")
    };
    for (name, count) in [("too-few", 0), ("too-many", 2)] {
        assert_eq!(rig.attack(name).await, (crashed(&message(count, 1)), "bad-answer"));
    }
    assert_eq!(rig.find(&["too-few", "b", "c"]).await, Err(crashed(&message(2, 3))));
}

#[tokio::test]
async fn a_flood_of_log_lines_is_cut_in_number_and_length_and_cannot_forge_other_lines() {
    let log = Capture::start();
    let rig = Rig::hostile(Limits::default()).await;
    log.take();
    assert_eq!(rig.find(&["log-flood"]).await, Ok(vec![found("log-flood", &[])]));
    let lines = log.take();
    let (last, written) = lines.split_last().unwrap();
    assert_eq!(written.len(), 50, "{last:?}");
    assert_eq!(
        *last,
        Line {
            level: Level::WARN,
            message: "provider logged more than 50 lines in one call, the rest is dropped".to_owned(),
            fields: " provider=\"hostile\" dropped=9950".to_owned(),
        }
    );
    let forged = r#"first\nlevel=error msg="second"\r\n"#;
    let escapes = r"\u{1b}[2J\u{1b}[31mred\u{7}\u{0}\u{202e}desrever";
    let expected = [
        guest_line(Level::INFO, r"plain line=0 a\nb=c=plain"),
        guest_line(Level::INFO, &format!(r"{forged} line=1 a\nb=c={forged}")),
        guest_line(Level::INFO, &format!(r"{escapes} line=2 a\nb=c={escapes}")),
    ];
    assert_eq!(written[..3], expected);
    for line in written {
        assert!(line.message.len() <= 4096 + '…'.len_utf8(), "{} bytes", line.message.len());
        assert!(!line.message.contains(char::is_control), "{line:?}");
    }
    assert!(written[3].message.ends_with('…'), "what is cut says so");
}

#[tokio::test]
async fn a_flood_of_events_is_cut_and_only_objects_of_the_call_get_any() {
    for events in [20, 3] {
        let rig = Rig::hostile(Limits { events, ..Limits::default() }).await;
        assert_eq!(rig.find(&["event-flood", "other"]).await.map(|findings| findings.len()), Ok(2));
        let about = Subject::Node { name: "event-flood".to_owned(), uid: "uid of event-flood".to_owned() };
        let event =
            |i| -> Event { (about.clone(), Severity::Warning, "Hostile".to_owned(), format!("event {}", 2 * i)) };
        assert_eq!(rig.record.take_events(), (0..events).map(event).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn dropped_events_are_told_in_the_log() {
    let log = Capture::start();
    let rig = Rig::hostile(Limits { events: 2, ..Limits::default() }).await;
    log.take();
    rig.find(&["event-flood"]).await.unwrap();
    let lines = log.take();
    let stranger = guest_line(Level::WARN, "an Event about an object that is not in this call is dropped");
    let flood = guest_line(Level::WARN, "more than 2 Events in one call (limit events), the rest is dropped");
    assert_eq!(lines[..4], [stranger.clone(), stranger.clone(), flood, stranger]);
}

#[tokio::test]
async fn no_request_leaves() {
    let rig = Rig::hostile(Limits::default()).await;
    assert_eq!(
        rig.labels(node("http"), Need::Metadata).await,
        map(&[
            ("hostile.example/reason", "denied"),
            ("hostile.example/message", "GET /: the provider declares no endpoint `evil`, only []"),
        ])
    );
}

/// A provider ID is written once and for ever.
#[tokio::test]
async fn a_provider_id_of_a_scheme_that_was_not_declared_is_not_believed() {
    let rig = Rig::hostile(Limits::default()).await;
    let findings = rig.find(&["foreign-id", "good"]).await.unwrap();
    let [Finding::Unknown(failure), good] = findings.as_slice() else { panic!("{findings:?}") };
    assert!(failure.message.contains("aws:///eu-1a/i-0123"), "{failure}");
    assert_eq!(*good, found("good", &[]));

    let own = Node { provider_id: Some("aws:///eu-1a/i-0123".into()), ..node("foreign-id") };
    let kept = rig.provider.find(vec![own], Need::Metadata).await.unwrap();
    assert!(matches!(kept.as_slice(), [Finding::Found(_)]), "the Node's own ID may come back: {kept:?}");
}

#[tokio::test]
async fn a_provider_that_was_left_a_part_of_its_scheme_is_believed_about_no_other_part() {
    let component = Sandbox::try_new().unwrap().load(component(HOSTILE), Limits::default(), true).await.unwrap();
    let component = component.configured(Some("hostile-east"), &["hostile://east/".to_owned()]);
    assert_eq!((component.descriptor().name.as_str(), component.declared().name.as_str()), ("hostile-east", "hostile"));
    let provider = component.into_provider(ProviderContext::closed(), None, None);
    let findings = provider.find(vec![node("good")], Need::Metadata).await.unwrap();
    let [Finding::Unknown(failure)] = findings.as_slice() else { panic!("{findings:?}") };
    let parts = ["\"hostile://good\"", "none of its own (they begin with hostile://east/)"];
    assert!(parts.iter().all(|part| failure.message.contains(part)), "{failure}");
}

#[tokio::test]
async fn what_a_provider_says_is_one_short_line_wherever_it_goes() {
    let rig = Rig::hostile(Limits::default()).await;
    let findings = rig.find(&["chatty"]).await.unwrap();
    let [Finding::Unknown(failure)] = findings.as_slice() else { panic!("{findings:?}") };
    assert!(failure.message.len() <= 1024 + '…'.len_utf8() && !failure.message.contains('\n'), "{failure}");

    let settings = Settings { values: map(&[("mood", "complaining")]), ..Settings::default() };
    let rig = Rig::with_settings(HOSTILE, Limits::default(), settings).await;
    let problems = rig.provider.check(false).await.unwrap().unwrap();
    assert_eq!(problems.len(), 50);
    assert!(problems[0].fatal && problems.iter().skip(1).all(|problem| !problem.fatal), "the fatal one is kept");
    let short = |text: &str, most: usize| text.len() <= most + '…'.len_utf8() && !text.contains('\n');
    assert!(problems.iter().all(|problem| short(&problem.field, 256) && short(&problem.message, 1024)));
}

#[tokio::test]
async fn an_offer_of_what_is_not_exported_is_no_answer() {
    let settings = Settings { values: map(&[("mood", "lying")]), ..Settings::default() };
    let rig = Rig::with_settings(HOSTILE, Limits::default(), settings).await;
    let error = rig.provider.offers().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the provider's answer breaks the contract: it names routes and does not export it{REPORT}")
    );
    assert_eq!(rig.end().outcome, "bad-answer");
}
