//! Asks the component what it does with wrong values. It declares what values look like, and not whether it refuses others: managers that
//! came before it took some for their default, and so does it.
//!
//! Each question is a plain Service with one annotation, which `load-balancers.validate` judges as for the webhook. No request leaves.

use ccm_cloud::{
    Annotation, Attributes, Descriptor, Failure, IpFamily, LoadBalancers, Problem, Reaction, Service, ServicePort,
    ServiceType,
};
use serde::Serialize;

use super::Verdicts;
use super::value::{WRONG, expression};

/// What a component does with a Service for a wrong value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WrongValue {
    /// No value is wrong, as far as the declaration says.
    Any,
    Refused,
    Accepted,
    /// It was not asked, or could not tell.
    Unknown,
}

impl WrongValue {
    /// For people.
    pub(crate) const fn told(self) -> &'static str {
        match self {
            Self::Any => "the declaration does not say what would be wrong",
            Self::Refused => "the Service is refused",
            Self::Accepted => "has no effect, or another one than you think",
            Self::Unknown => "not known",
        }
    }
}

/// What a component does with wrong values.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Probed {
    /// Why nothing is known, if nothing is.
    pub(crate) unjudged: Option<String>,
    pub(crate) verdicts: Verdicts,
}

impl Probed {
    /// Nothing is known for this reason.
    pub(crate) fn unjudged(why: String) -> Self {
        Self { unjudged: Some(why), verdicts: Verdicts::default() }
    }

    /// What it does with a wrong value of this annotation.
    pub(crate) fn wrong_value(&self, annotation: &Annotation) -> WrongValue {
        let asked = || self.verdicts.get(&annotation.name).copied().unwrap_or(WrongValue::Unknown);
        if expression(annotation, "").is_none() { WrongValue::Any } else { asked() }
    }
}

/// Asks about every annotation that people write.
pub(crate) async fn probe(provider: &impl LoadBalancers, descriptor: &Descriptor) -> Probed {
    asked(descriptor, async |annotations| judge(provider, annotations).await).await
}

/// `judge`: what the component says of a Service with these annotations.
async fn asked(descriptor: &Descriptor, judge: impl AsyncFn(Attributes) -> Result<Vec<Problem>, Failure>) -> Probed {
    match judge(Attributes::new()).await {
        Err(failure) => return Probed::unjudged(failure.to_string()),
        Ok(problems) => {
            if let Some(Problem { field, message, .. }) = problems.into_iter().find(|problem| problem.fatal) {
                return Probed::unjudged(format!("it refuses every Service: {field}: {message}"));
            }
        }
    }
    let mut verdicts = Verdicts::new();
    let checked = descriptor.annotations.iter().filter(|one| one.is_asked() && expression(one, "").is_some());
    for annotation in checked {
        let name = annotation.name.replace('*', "x");
        let answer = judge([(name, WRONG.to_owned())].into()).await;
        verdicts.insert(annotation.name.clone(), verdict(&answer));
    }
    Probed { unjudged: None, verdicts }
}

/// What the component says of a Service with these annotations.
async fn judge(provider: &impl LoadBalancers, annotations: Attributes) -> Result<Vec<Problem>, Failure> {
    let service = Service {
        name: "example".to_owned(),
        namespace: "default".to_owned(),
        uid: "00000000-0000-4000-8000-000000000000".to_owned(),
        kind: ServiceType::LoadBalancer,
        annotations,
        ports: vec![ServicePort { port: 80, node_port: Some(30_080), ..ServicePort::default() }],
        ip_families: vec![IpFamily::V4],
        ..Service::default()
    };
    provider.validate(service, None, false).await
}

/// Of a Service with a wrong value: as the webhook takes the answer.
fn verdict(answer: &Result<Vec<Problem>, Failure>) -> WrongValue {
    match answer {
        Ok(problems) if problems.iter().any(|problem| problem.fatal) => WrongValue::Refused,
        Ok(_) => WrongValue::Accepted,
        Err(failure) if failure.reaction == Reaction::Invalid => WrongValue::Refused,
        Err(_) => WrongValue::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::tests::provider;
    use super::*;

    #[tokio::test]
    async fn it_is_asked_about_each_annotation_that_people_write_and_whose_value_can_be_wrong() {
        let (descriptor, _) = provider();
        let questions = RefCell::new(vec![]);
        let judge = async |annotations: Attributes| {
            let names: Vec<String> = annotations.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
            questions.borrow_mut().push(names.join(" "));
            let problem = |fatal| Problem { field: "f".to_owned(), message: "m".to_owned(), fatal };
            match names.first().map(String::as_str) {
                Some("my.example/mode=?wrong?" | "my.example/wait-x=?wrong?") => Ok(vec![problem(true)]),
                Some("my.example/size=?wrong?") => Err(Failure::new(Reaction::Retry, "m")),
                // The plain Service has a fault that is none of the annotation's.
                _ => Ok(vec![problem(false)]),
            }
        };
        let probed = asked(&descriptor, judge).await;
        let of = |name: &str| {
            let annotation = descriptor.annotations.iter().find(|one| one.name.ends_with(name)).unwrap();
            probed.wrong_value(annotation)
        };
        assert_eq!((of("mode"), of("wait-*")), (WrongValue::Refused, WrongValue::Refused));
        assert_eq!((of("public"), of("size")), (WrongValue::Accepted, WrongValue::Unknown));
        // Of any text none is wrong, and nobody but the provider writes the job.
        assert_eq!((of("note"), of("job")), (WrongValue::Any, WrongValue::Unknown));
        let wanted = ["", "mode", "public", "size", "wait-x"];
        let wanted =
            wanted.map(|name| if name.is_empty() { String::new() } else { format!("my.example/{name}=?wrong?") });
        assert_eq!(*questions.borrow(), wanted);
    }

    #[tokio::test]
    async fn a_component_that_refuses_every_service_says_nothing_about_annotations() {
        let (descriptor, _) = provider();
        let problem = || Problem { field: "spec.ports".to_owned(), message: "none".to_owned(), fatal: true };
        let probed = asked(&descriptor, async |_| Ok(vec![problem()])).await;
        assert_eq!(probed, Probed::unjudged("it refuses every Service: spec.ports: none".to_owned()));
        let probed = asked(&descriptor, async |_| Err(Failure::new(Reaction::Invalid, "no subnet"))).await;
        assert_eq!(probed.verdicts, Verdicts::new());
        assert!(probed.unjudged.unwrap().contains("no subnet"));
    }

    #[test]
    fn only_a_clear_no_is_a_refusal() {
        let problem = |fatal| Problem { field: "f".to_owned(), message: "m".to_owned(), fatal };
        for (answer, expected) in [
            (Ok(vec![]), WrongValue::Accepted),
            (Ok(vec![problem(false)]), WrongValue::Accepted),
            (Ok(vec![problem(false), problem(true)]), WrongValue::Refused),
            (Err(Failure::new(Reaction::Invalid, "m")), WrongValue::Refused),
            (Err(Failure::new(Reaction::Retry, "m")), WrongValue::Unknown),
            (Err(Failure::new(Reaction::Unauthorized, "m")), WrongValue::Unknown),
        ] {
            assert_eq!(verdict(&answer), expected, "{answer:?}");
        }
    }
}
