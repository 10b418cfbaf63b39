//! Promises about what anybody sends to the webhook's port, tried with any bytes. `cargo test` tries random ones for a second;
//! `just fuzz` lets libFuzzer look for what breaks them.

use bolero::check;
use serde_json::{Value, json};

use super::review::{Question, answer};

/// Whatever is asked is refused on one line, or is answered with the ID of the question.
#[test]
fn admission_reviews() {
    check!().with_type::<(String, String, Vec<u8>)>().for_each(|(uid, operation, bytes)| {
        let object: Value =
            serde_json::from_slice(bytes).unwrap_or_else(|_| json!({ "spec": { "type": "LoadBalancer" } }));
        let request = json!({ "uid": uid, "operation": operation, "object": object, "oldObject": object });
        let framed = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
        for body in [bytes.clone(), serde_json::to_vec(&framed).unwrap()] {
            match Question::read(&body, 16_384) {
                Ok(question) => {
                    let told: Value = serde_json::from_slice(&answer(&question.uid, None)).unwrap();
                    assert_eq!(told["response"]["uid"], question.uid);
                }
                Err((_, error)) => assert!(!error.contains('\n'), "{error}"),
            }
        }
    });
}
