//! Promises about what anybody sends to the webhook's port, tried with any bytes. `cargo test` tries random ones for a second;
//! `just fuzz` lets libFuzzer look for what breaks them.

use bolero::check;
use serde_json::{Value, json};

use super::Decision;
use super::review::{Question, answer};

/// What API servers ask about, and what they do not.
const OPERATIONS: [&str; 6] = ["CREATE", "UPDATE", "DELETE", "CONNECT", "create", ""];

/// What is refused is refused on one line.
fn read(body: &[u8]) -> Option<Question> {
    Question::read(body, 16_384).inspect_err(|(_, error)| assert!(!error.contains('\n'), "{error}")).ok()
}

/// Whether this review gets an answer, which then has its UID and all words of the decision. Of the objects, a question has those that its
/// operation is about.
fn is_answered(uid: &str, operation: &str, [object, before]: [&Value; 2], words: &str) -> bool {
    let request = json!({ "uid": uid, "operation": operation, "object": object, "oldObject": before });
    let framed = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
    let Some(question) = read(&serde_json::to_vec(&framed).unwrap()) else { return false };
    let read = (question.service.is_some(), question.before.is_some());
    assert_eq!(read, (["CREATE", "UPDATE"].contains(&operation), operation == "UPDATE"), "{operation}");
    let denied = Decision { denial: Some(words.to_owned()), warnings: vec![words.to_owned()] };
    for decision in [None, Some(&denied)] {
        let told: Value = serde_json::from_slice(&answer(&question.uid, decision)).unwrap();
        let response = &told["response"];
        let words = decision.map(|_| words);
        assert_eq!(response["uid"].as_str(), Some(uid), "{operation}");
        assert_eq!(response["allowed"].as_bool(), Some(decision.is_none()), "{operation}");
        assert_eq!(response["status"]["message"].as_str(), words, "{operation}");
        assert_eq!(response["warnings"][0].as_str(), words, "{operation}");
    }
    true
}

/// Whatever is asked is refused on one line, or is answered with the ID of the question.
#[test]
fn admission_reviews() {
    let (none, web) = (Value::Null, json!({ "spec": { "type": "LoadBalancer" } }));
    // Random bytes seldom are a review of a Service. These are, and say line breaks where an error may repeat them.
    for uid in ["705ab4f5-6393-11e8-b7cc-42010a800002", "", "\"\\\n\0\u{2028}ü"] {
        for operation in OPERATIONS {
            assert!(is_answered(uid, operation, [&web, &web], "no,\n\"ü\"\0"), "{operation}");
        }
        for (operation, objects, good) in [
            ("CREATE", [&web, &none], true),
            ("CREATE", [&none, &web], false),
            ("UPDATE", [&web, &none], false),
            ("UPDATE", [&none, &web], false),
            ("DELETE", [&none, &web], true),
            ("DELETE", [&none, &none], true),
        ] {
            assert_eq!(is_answered(uid, operation, objects, ""), good, "{operation} {objects:?}");
        }
        for wrong in [
            json!("a\nb"),
            json!(["a\nb"]),
            json!({ "metadata": "a\nb" }),
            json!({ "metadata": { "creationTimestamp": "a\nb" } }),
            json!({ "metadata": { "annotations": { "a\nb": 1 } } }),
            json!({ "spec": { "ports": "a\nb" } }),
        ] {
            for (operation, objects, good) in [
                ("CREATE", [&wrong, &none], false),
                ("UPDATE", [&wrong, &web], false),
                ("UPDATE", [&web, &wrong], false),
                ("DELETE", [&none, &wrong], true),
            ] {
                assert_eq!(is_answered(uid, operation, objects, ""), good, "{operation} {objects:?}");
            }
        }
    }
    check!().with_type::<(u8, String, String, Vec<u8>)>().for_each(|(number, uid, text, bytes)| {
        drop(read(bytes));
        let operation = OPERATIONS.into_iter().cycle().nth(usize::from(*number)).unwrap_or_default();
        let good = json!({
            "metadata": { "name": text, "annotations": { text.as_str(): text } },
            "spec": { "type": text, "ports": [{ "port": number, "name": text, "targetPort": text }] },
        });
        assert!(is_answered(uid, operation, [&good, &good], text), "{operation} {good}");
        let timed = json!({ "metadata": { "creationTimestamp": text } });
        let any: Value = serde_json::from_slice(bytes).unwrap_or_else(|_| web.clone());
        for objects in [[&any, &good], [&good, &any], [&timed, &good]] {
            let is_refused = !is_answered(uid, operation, objects, text);
            assert!(!is_refused || ["CREATE", "UPDATE"].contains(&operation), "{operation} {objects:?}");
        }
        // An operation of any name is none that has objects.
        is_answered(uid, text, [&any, &any], text);
    });
}
