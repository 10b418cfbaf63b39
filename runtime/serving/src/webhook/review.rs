//! `AdmissionReview` of `admission.k8s.io/v1`, as far as a Service needs it.
//!
//! Not the types of kube: those want all members of a request, copy it twice, and cannot tell an object that does not decode from a review that
//! does not.

use hyper::StatusCode;
use k8s_openapi::api::core::v1::Service;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Decision;
use super::object::{Unreadable, service};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: String,
    #[serde(default)]
    operation: String,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

/// What the API server asks.
#[derive(Debug, PartialEq)]
pub(crate) struct Question {
    /// Of the question.
    pub(crate) uid: String,
    /// The Service; none of one that is deleted.
    pub(crate) service: Option<Box<Service>>,
    /// As it was; none of a new one.
    pub(crate) before: Option<Box<Service>>,
}

/// Why there is no answer, and with which status that is said.
pub(crate) type NoReview = (StatusCode, String);

impl Question {
    /// Reads a question with at most so many `values` of JSON in its Services.
    ///
    /// # Errors
    ///
    /// What cannot be read, with an HTTP status. It is no review that allows or denies: then the API server applies the operator's `failurePolicy`.
    pub(crate) fn read(body: &[u8], values: usize) -> Result<Self, NoReview> {
        let bad = |why: &str| (StatusCode::BAD_REQUEST, format!("failed to decode admission request: {why}"));
        if body.is_empty() {
            return Err(bad("the body is empty"));
        }
        let review: Review<'_> = serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))?;
        if (review.api_version.as_str(), review.kind.as_str()) != (API_VERSION, KIND) {
            return Err(bad(&format!("it is no {KIND} of {API_VERSION}")));
        }
        let request = review.request.ok_or_else(|| bad("it has no request"))?;
        let (service, before) = match request.operation.as_str() {
            "CREATE" => (Some(object("object", request.object, values)?.0), None),
            "UPDATE" => {
                let (service, left) = object("object", request.object, values)?;
                (Some(service), Some(object("old object", request.old_object, left)?.0))
            }
            _ => (None, None),
        };
        Ok(Self { uid: request.uid, service, before })
    }
}

fn object(what: &str, object: Option<&RawValue>, values: usize) -> Result<(Box<Service>, usize), NoReview> {
    let read = match object {
        Some(object) => service(object, values),
        None => Err(Unreadable::NotAService("it is not there".to_owned())),
    };
    read.map_err(|error| match error {
        Unreadable::TooMany => {
            let why =
                "the review has more values than a Service of its size has; raise --webhook-request-bytes if it is one";
            (StatusCode::PAYLOAD_TOO_LARGE, why.to_owned())
        }
        Unreadable::NotAService(why) => (StatusCode::BAD_REQUEST, format!("failed to decode {what}: {why}")),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewResponse<'a> {
    api_version: &'a str,
    kind: &'a str,
    response: Response<'a>,
}

#[derive(Serialize)]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    reason: &'a str,
    message: &'a str,
}

/// The answer to the question with this UID; without a decision it is yes.
pub(crate) fn answer(uid: &str, decision: Option<&Decision>) -> Vec<u8> {
    let denial = decision.and_then(|decision| decision.denial.as_deref());
    let response = Response {
        uid,
        allowed: denial.is_none(),
        status: denial.map(|message| Status { code: 403, reason: "Forbidden", message }),
        warnings: decision.map(|decision| decision.warnings.as_slice()).unwrap_or_default(),
    };
    // Texts alone, which can always be written.
    serde_json::to_vec(&ReviewResponse { api_version: API_VERSION, kind: KIND, response }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn review(request: &Value) -> Vec<u8> {
        serde_json::to_vec(&json!({ "apiVersion": API_VERSION, "kind": KIND, "request": request })).unwrap()
    }

    /// Cases of DigitalOcean's reference. There the answer is "not allowed", which no `failurePolicy` softens (T29).
    #[test]
    fn do_191_200_what_cannot_be_read_has_no_answer() {
        let web = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" }, "spec": {} });
        let wrong = json!({ "spec": { "ports": "none" } });
        let (request, old) = ("failed to decode admission request", "failed to decode old object");
        let rows = [
            (vec![], request),
            (b"{".to_vec(), request),
            (b"{}".to_vec(), request),
            (b"[]".to_vec(), request),
            (
                br#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"1"}}"#.to_vec(),
                request,
            ),
            (review(&Value::Null), request),
            (review(&json!({ "operation": "CREATE", "object": web })), request),
            (review(&json!({ "uid": "1", "operation": "CREATE" })), "failed to decode object"),
            (review(&json!({ "uid": "1", "operation": "CREATE", "object": wrong })), "failed to decode object"),
            (review(&json!({ "uid": "1", "operation": "UPDATE", "object": web, "oldObject": wrong })), old),
            (review(&json!({ "uid": "1", "operation": "UPDATE", "object": web })), old),
        ];
        for (body, says) in rows {
            let error = Question::read(&body, 100).unwrap_err().1;
            assert!(error.starts_with(says), "{}: {error}", String::from_utf8_lossy(&body));
        }
        let question =
            Question::read(&review(&json!({ "uid": "1", "operation": "CREATE", "object": web })), 100).unwrap();
        assert_eq!((question.service.unwrap().metadata.name.as_deref(), question.before), (Some("web"), None));
        let question = Question::read(
            &review(&json!({ "uid": "1", "operation": "UPDATE", "object": web, "oldObject": web })),
            100,
        );
        assert_eq!(question.unwrap().before.unwrap().metadata.name.as_deref(), Some("web"));
        let question =
            Question::read(&review(&json!({ "uid": "1", "operation": "DELETE", "oldObject": web })), 100).unwrap();
        assert_eq!(question, Question { uid: "1".into(), service: None, before: None });
    }

    #[test]
    fn an_answer_is_a_review_with_the_uid_of_the_question() {
        let read = |answer: Vec<u8>| serde_json::from_slice::<Value>(&answer).unwrap();
        let frame = |response: Value| json!({ "apiVersion": API_VERSION, "kind": KIND, "response": response });
        assert_eq!(read(answer("7", None)), frame(json!({ "uid": "7", "allowed": true })));
        let warning = Decision { warnings: vec!["x".into()], ..Decision::default() };
        let warned = frame(json!({ "uid": "7", "allowed": true, "warnings": ["x"] }));
        assert_eq!(read(answer("7", Some(&warning))), warned);
        let denial = Decision { denial: Some("no".into()), ..Decision::default() };
        let status = json!({ "code": 403, "reason": "Forbidden", "message": "no" });
        assert_eq!(read(answer("7", Some(&denial))), frame(json!({ "uid": "7", "allowed": false, "status": status })));
    }
}
