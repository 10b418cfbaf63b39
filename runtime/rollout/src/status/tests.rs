use ccm_cloud::is_plain;
use serde_json::{Value, json};

use super::*;
use crate::slot::Refusals;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn version(version: &str, digit: &str) -> Version {
    let digest = format!("sha256:{}", digit.repeat(64));
    Version { name: "cloud".into(), version: version.into(), digest, signed: None }
}

fn shown(statuses: &ProviderStatuses, source: &str, standing: SlotStanding<Arc<Version>>) {
    statuses.change(source, |known| known.standing = Some(standing));
}

fn full() -> ProviderStatuses {
    const SOURCE: &str = "configmap:kube-system/cloud";
    let statuses = ProviderStatuses::default();
    let standing = SlotStanding {
        proven: Arc::new(version("1.0", "a")),
        candidate: Some(Arc::new(version("2.0", "b"))),
        is_apart: false,
        refused: Refusals::default(),
        generation: 7,
        since: at("2026-01-02T03:04:05.678Z"),
    };
    shown(&statuses, SOURCE, standing);
    let refused = NotTaken {
        digest: Some("sha256:cc".into()),
        step: Step::Trust.as_str(),
        reason: "it is not signed".into(),
        since: at("2026-01-02T03:00:00Z"),
    };
    let times = Times { read_ms: 501.4, compile_ms: 812.6, takeover_ms: 3.2, exchange_ms: 0.0214, first_call_ms: None };
    statuses.change(SOURCE, |known| (known.not_taken, known.times) = (Some(refused), Some(times)));
    statuses
}

#[test]
fn an_operator_reads_who_serves_since_when_and_what_was_refused_and_why() {
    let digest = "b".repeat(64);
    let expected = format!(
        "provider configmap:kube-system/cloud
  serving     cloud 2.0
  digest      sha256:{digest}
  phase       probation, generation 7, since 2026-01-02T03:04:05Z
  last good   cloud 1.0 (sha256:aaaaaaaaaaaa)
  refused     sha256:cc at trust, 2026-01-02T03:00:00Z: it is not signed
  last load   read 501 ms, compiled 813 ms, taken over 3 ms, exchanged 0.021 ms
"
    );
    assert_eq!(full().text(), expected);
}

#[test]
fn a_program_reads_the_same() {
    let read: Value = serde_json::from_str(&full().json()).unwrap();
    let component = |version: &str, digit: &str| json!({ "name": "cloud", "version": version, "digest": format!("sha256:{}", digit.repeat(64)) });
    let expected = json!({ "configmap:kube-system/cloud": {
        "serving": component("2.0", "b"),
        "phase": "probation",
        "lastGood": component("1.0", "a"),
        "since": "2026-01-02T03:04:05.678Z",
        "generation": 7,
        "refused": {
            "digest": "sha256:cc", "step": "trust", "reason": "it is not signed", "since": "2026-01-02T03:00:00Z"
        },
        "times": { "readMs": 501.4, "compileMs": 812.6, "takeoverMs": 3.2, "exchangeMs": 0.0214 },
    }});
    assert_eq!(read, expected);
}

#[test]
fn before_the_first_provider_it_says_what_that_means_and_why() {
    let statuses = ProviderStatuses::default();
    assert_eq!((statuses.text().as_str(), statuses.json().as_str()), ("", "{}\n"));
    let refused = NotTaken::now(Step::Source, None, "it holds no component");
    let since = format!("{:.0}", refused.since);
    statuses.change("/providers", |known| known.not_taken = Some(refused));
    let expected = format!(
        "provider /providers
  serving     none yet: nothing is written to the cluster for it
  refused     at source, {since}: it holds no component
"
    );
    assert_eq!(statuses.text(), expected);
    let read: Value = serde_json::from_str(&statuses.json()).unwrap();
    assert_eq!((&read["/providers"]["serving"], &read["/providers"]["generation"]), (&Value::Null, &json!(0)));
}

/// A component that does not compile made lines of its own, such as that it is proven.
#[test]
fn no_reason_makes_lines_of_the_page() {
    let statuses = ProviderStatuses::default();
    let refused = |step, reason: &str| Some(NotTaken::now(step, None, reason));
    statuses.change("/providers", |known| {
        known.not_taken = refused(Step::Compile, "no\n  phase       proven\r\u{1b}[2J\u{202e}x");
        known.rejected_configuration = refused(Step::Check, &"\n".repeat(1 << 20));
    });
    let text = statuses.text();
    let begins: Vec<&str> = text.lines().map(|line| line.split_once("at ").map_or(line, |(begin, _)| begin)).collect();
    let serving = "  serving     none yet: nothing is written to the cluster for it";
    assert_eq!(begins, ["provider /providers", serving, "  refused     ", "  config      refused "], "{text}");
    assert!(text.contains(r": no\n  phase       proven\r\u{1b}[2J\u{202e}x"), "{text}");
    assert!(text.len() < 20 << 10, "{} bytes", text.len());
    assert!(text.lines().all(|line| line.chars().all(is_plain)), "{text:?}");
}

#[test]
fn a_rollback_is_told_as_a_refusal_by_the_probation() {
    assert_eq!(NotTaken::now(Step::Probation, Some("sha256:dd".into()), "it crashed").step, "probation");
}

#[test]
fn providers_stand_one_below_the_other_by_their_source() {
    let statuses = full();
    let standing = SlotStanding {
        proven: Arc::new(version("1", "e")),
        candidate: None,
        is_apart: false,
        refused: Refusals::default(),
        generation: 1,
        since: at("2026-01-02T03:04:05Z"),
    };
    shown(&statuses, "/b.wasm", standing);
    let text = statuses.text();
    let heads: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(heads, ["provider /b.wasm", "provider configmap:kube-system/cloud"]);
}

#[test]
fn times_are_told_in_milliseconds_with_their_fractions() {
    for (micros, told) in [(0, 0.0), (1, 0.001), (1_500, 1.5), (2_000_000, 2_000.0)] {
        assert_eq!(milliseconds(Duration::from_micros(micros)), told);
    }
}

#[test]
fn whoever_explains_an_object_is_told_what_is_not_used_and_who_serves_instead() {
    let statuses = full();
    let refused = NotTaken::now(Step::Trust, None, "line 3: no such key");
    statuses.change("configmap:kube-system/cloud", |known| known.rejected_configuration = Some(refused));
    let told: Vec<_> = statuses
        .refusals()
        .into_iter()
        .map(|refusal| (refusal.source, refusal.serving, refusal.is_configuration, refusal.reason))
        .collect();
    let (source, serving) =
        ("configmap:kube-system/cloud".to_owned(), Some("cloud 2.0 (sha256:bbbbbbbbbbbb)".to_owned()));
    let component = (source.clone(), serving.clone(), false, "it is not signed".to_owned());
    assert_eq!(told, [component, (source, serving, true, "line 3: no such key".to_owned())]);
    assert_eq!(ProviderStatuses::default().refusals(), []);
}

/// The process is ready, and does not start again: nobody saw it.
#[test]
fn a_credential_that_cannot_be_read_any_more_is_told_in_one_line_wherever_its_provider_is() {
    let statuses = full();
    assert_eq!(statuses.unreadable(), Vec::<String>::new());
    let reason = "credential \"token\": cannot read /token: No such file or directory (os error 2)".to_owned();
    let since = at("2026-01-02T03:00:00Z");
    let lost = |reason: String| UnreadableCredential { credential: "token".into(), reason, since };
    statuses.change("configmap:kube-system/cloud", |known| known.unreadable = vec![lost(reason.clone())]);
    let told = format!(
        "unreadable since 2026-01-02T03:00:00Z: {reason}; the value that was read last stays in use until this process ends"
    );
    assert_eq!(statuses.unreadable(), [format!("provider configmap:kube-system/cloud: credential {told}")]);
    assert!(statuses.text().contains(&format!("\n  credential  {told}\n")), "{}", statuses.text());
    let read: Value = serde_json::from_str(&statuses.json()).unwrap();
    let expected = json!([{ "credential": "token", "reason": reason, "since": "2026-01-02T03:00:00Z" }]);
    assert_eq!(read["configmap:kube-system/cloud"]["unreadableCredentials"], expected);

    statuses.change("configmap:kube-system/cloud", |known| known.unreadable = vec![lost("a\n[-]nodes\u{1b}".into())]);
    let [line]: [String; 1] = statuses.unreadable().try_into().unwrap();
    assert!(!line.contains(char::is_control), "{line}");
}
