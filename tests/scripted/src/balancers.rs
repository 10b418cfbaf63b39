//! Load balancers and the cluster: the annotation of a Service is a JSON object with a plan per function.
//!
//! ```json
//! {"ensure": {"steps": [{"send": {"method": "post", "effect": "once", "path": "/balancers"}}], "ingress": ["192.0.2.7"]}}
//! ```
//!
//! What came of each step is told as a change of the outcome or of `orphan`, a problem of `validate`, a lock, or a difference of
//! `survey`. A function without a plan does what is least: `ensure` keeps the Service's ingress or gives one address, `delete` succeeds.

use std::collections::BTreeMap;
use std::time::Duration;

use ccm_sdk::load_balancer_orphan;
use ccm_sdk::load_balancer_survey::{self, Standing, Wish};
use ccm_sdk::load_balancers::{self, Mark, Outcome};
use ccm_sdk::types::{Backend, Failure, Ingress, Node, Problem, Service, Subject};
use ccm_sdk::{cluster, log};
use serde::Deserialize;

use crate::script::{self, Step};
use crate::{SCRIPT, Scripted};

/// Given to Services without a plan and without an ingress. From the range for documentation (RFC 5737).
const ADDRESS: &str = "192.0.2.1";

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Plan {
    #[serde(default)]
    steps: Vec<Step>,
    /// Addresses.
    ingress: Option<Vec<String>>,
    /// To write; null removes.
    #[serde(default)]
    annotations: BTreeMap<String, Option<String>>,
    /// Not ready before so many milliseconds have passed.
    pending_ms: Option<u64>,
    /// Tells the Service last, as it came, each character as the next one: the host takes no secret out of that.
    #[serde(default)]
    shifted: bool,
}

/// The plan of a Service for one function.
fn plan(service: &Service, function: &str) -> Result<Option<Plan>, Failure> {
    let Some(script) = service.annotation(SCRIPT) else { return Ok(None) };
    let plans: Result<BTreeMap<String, Plan>, _> = serde_json::from_str(script);
    let mut plans =
        plans.map_err(|error| Failure::invalid(format!("the script cannot be read: {error}")).annotation(SCRIPT))?;
    Ok(plans.remove(function))
}

/// What came of the steps for one function; nothing where there is no plan.
fn steps(service: &Service, function: &str) -> Result<Vec<String>, Failure> {
    let plan = plan(service, function)?.unwrap_or_default();
    Ok(told(script::run_steps(plan.steps)?))
}

fn told(results: Vec<(String, String)>) -> Vec<String> {
    results.into_iter().map(|(_, text)| text).collect()
}

fn places(addresses: &[String]) -> Vec<Ingress> {
    addresses.iter().map(Ingress::ip).collect()
}

/// Where clients reach the Service when nobody says anything about it.
fn unplanned(service: &Service) -> Vec<Ingress> {
    if service.ingress.is_empty() { vec![Ingress::ip(ADDRESS)] } else { service.ingress.clone() }
}

fn change(service: &Service, function: &str, ingress: Vec<Ingress>) -> Result<Outcome, Failure> {
    let plan = plan(service, function)?.unwrap_or_default();
    let Plan { steps, ingress: planned, annotations, pending_ms, shifted } = plan;
    let results = script::run_steps(steps);
    let mut outcome = match (results, pending_ms) {
        (Err(failure), _) => Outcome::failed(failure),
        (Ok(results), None) => {
            Outcome { changes: told(results), ..Outcome::done(planned.as_deref().map_or(ingress, places)) }
        }
        (Ok(results), Some(ms)) => {
            let failure = Failure::pending("the script says that it takes time").after(Duration::from_millis(ms));
            Outcome { changes: told(results), ..Outcome::failed(failure) }
        }
    };
    if shifted {
        outcome.changes.push(script::shifted(&format!("{service:?}")));
    }
    outcome.annotations = annotations.into_iter().collect();
    Ok(outcome)
}

impl load_balancers::Guest for Scripted {
    fn name(service: Service) -> String {
        let last = steps(&service, "name").ok().and_then(|mut results| results.pop());
        last.unwrap_or_else(|| format!("{}-{}", service.namespace, service.name))
    }

    fn locks(service: Service) -> Vec<String> {
        steps(&service, "locks").unwrap_or_else(|failure| vec![failure.message])
    }

    fn get(service: Service) -> Result<Option<Vec<Ingress>>, Failure> {
        let Some(Plan { steps, ingress, .. }) = plan(&service, "get")? else {
            return Ok(Some(service.ingress).filter(|ingress| !ingress.is_empty()));
        };
        for result in told(script::run_steps(steps)?) {
            log::info("step", &[("result", &result)]);
        }
        Ok(ingress.as_deref().map(places))
    }

    fn get_mark(service: Service) -> Result<Option<Mark>, Failure> {
        Ok(steps(&service, "get-mark")?.pop().map(|load_balancer| Mark { load_balancer, uid: None }))
    }

    fn ensure(service: Service, _backends: Vec<Backend>) -> Outcome {
        change(&service, "ensure", unplanned(&service)).into()
    }

    fn update_backends(service: Service, backends: Vec<Backend>) -> Outcome {
        let names: Vec<_> = backends.iter().map(|backend| backend.name.as_str()).collect();
        Outcome::from(change(&service, "update-backends", unplanned(&service)))
            .changed(format!("backends: {}", names.join(", ")))
    }

    fn ensure_deleted(service: Service) -> Outcome {
        change(&service, "delete", vec![]).into()
    }

    fn validate(service: Service, before: Option<Service>, online: bool) -> Result<Vec<Problem>, Failure> {
        let mut problems: Vec<_> = steps(&service, "validate")?
            .into_iter()
            .enumerate()
            .map(|(step, result)| Problem::fatal(step.to_string(), result))
            .collect();
        if let Some(before) = before {
            problems.push(Problem::harmless("before", before.full_name()));
        }
        if online {
            problems.push(Problem::harmless("online", "true"));
        }
        Ok(problems)
    }
}

impl load_balancer_survey::Guest for Scripted {
    fn survey(_backends: Vec<Backend>, wishes: Vec<Wish>) -> Result<Vec<Standing>, Failure> {
        let standing = |wish: Wish| match steps(&wish.service, "survey") {
            Err(failure) => Standing::Unknown(failure),
            Ok(results) if !results.is_empty() => Standing::Differs(results),
            Ok(_) if wish.service.ingress.is_empty() => Standing::Missing,
            Ok(_) => Standing::InStep(wish.service.ingress),
        };
        Ok(wishes.into_iter().map(standing).collect())
    }
}

impl load_balancer_orphan::Guest for Scripted {
    fn orphan(service: Service) -> Result<Vec<String>, Failure> {
        steps(&service, "orphan")
    }
}

impl cluster::Guest for Scripted {
    /// The steps of each Service; what came of them is its failure.
    fn reconcile(_nodes: Vec<Node>, services: Vec<Service>) -> Result<Vec<(Subject, Failure)>, Failure> {
        let mut failures = vec![];
        for service in services {
            let subject = || Subject::Service((service.namespace.clone(), service.name.clone()));
            match steps(&service, "reconcile") {
                Err(failure) => failures.push((subject(), failure)),
                Ok(results) => failures.extend(results.into_iter().map(|result| (subject(), Failure::retry(result)))),
            }
        }
        Ok(failures)
    }
}
