//! What a host must survive of load balancers: the name of the Service says what is wrong.

use ccm_sdk::cluster;
use ccm_sdk::events::{self, Severity};
use ccm_sdk::load_balancer_survey::{self, Standing, Wish};
use ccm_sdk::load_balancers::{self, Mark, Outcome};
use ccm_sdk::nodes;
use ccm_sdk::types::{Backend, Failure, Ingress, Node, Problem, Service, Subject};

use crate::{Hostile, attack};

/// Not in any call that a test makes.
const STRANGER: &str = "not-of-this-call";

fn good() -> Vec<Ingress> {
    vec![Ingress::ip("192.0.2.1")]
}

/// Asks about all of them, whatever is said of those before.
fn asking(selectors: impl IntoIterator<Item = String>) -> Outcome {
    let refused = selectors.into_iter().filter_map(|selector| nodes::matching(&selector).err());
    match refused.reduce(|_, last| last) {
        Some(why) => Outcome::failed(Failure::retry(why)),
        None => Outcome::done(vec![Ingress::ip("192.0.2.2")]),
    }
}

fn change(service: &Service) -> Outcome {
    let outcome = Outcome::done(good());
    match service.name.as_str() {
        "panic" => attack::panic(),
        "spin" => attack::spin(),
        "empty" => Outcome::done(vec![]),
        "bad-ip" => Outcome::done(vec![Ingress::ip("203.0.113.300")]),
        "bad-hostname" => Outcome::done(vec![Ingress::hostname("Web_1")]),
        "mode-without-ip" => Outcome::done(vec![Ingress::hostname("web").proxied()]),
        "undeclared" => outcome.annotate("other.example/written-id", "1"),
        "not-written" => outcome.annotate("hostile.example/mood", "1"),
        "no-name" => outcome.annotate("hostile.example/written-a b", "1"),
        "twice" => {
            let mut outcome = outcome.annotate("hostile.example/written-id", "1");
            outcome.annotations.extend(outcome.annotations.clone());
            outcome
        }
        "written" => Outcome::failed(Failure::quota("no more"))
            .annotate("hostile.example/written-id", "lb-1")
            .unannotate("hostile.example/written-job"),
        "sees" => {
            let seen = service.annotations.iter().map(|(name, value)| format!("annotation {name}={value}"));
            let labels = service.labels.iter().map(|(name, value)| format!("label {name}={value}"));
            Outcome { changes: seen.chain(labels).collect(), ..outcome }
        }
        "echo" => Outcome { changes: vec![format!("{service:?}")], ..Outcome::done(service.ingress.clone()) },
        "chatty" => Outcome {
            changes: vec!["first\nlevel=error forged ".repeat(1 << 8); 500],
            ..Outcome::failed(Failure::retry("first\nlevel=error forged ".repeat(1 << 10)))
        },
        "many-selectors" => asking((0..5_000).map(|number| format!("pool=p{number}"))),
        "huge-selector" => asking(["a".repeat(9 << 20)]),
        "long-selector" => asking([format!("pool in ({})", "a,".repeat(8 << 10))]),
        "wide-selector" => asking([vec!["a"; 65].join(",")]),
        "bad-selector" => asking(["pool in (a".to_owned()]),
        "any-selector" => asking([String::new(), "nobody-has-this".to_owned(), "!nobody-has-this".to_owned()]),
        "event" => {
            let own = Subject::Service((service.namespace.clone(), service.name.clone()));
            for about in [Subject::Call, own, Subject::Service((service.namespace.clone(), STRANGER.to_owned()))] {
                events::emit(&about, Severity::Warning, "Hostile", "event");
            }
            outcome
        }
        _ => outcome,
    }
}

impl load_balancers::Guest for Hostile {
    fn name(service: Service) -> String {
        if service.name == "chatty" { "name\n".repeat(1 << 10) } else { service.name }
    }

    fn locks(service: Service) -> Vec<String> {
        if service.name == "many-locks" { (0..101).map(|lock| lock.to_string()).collect() } else { vec![service.name] }
    }

    fn get(service: Service) -> Result<Option<Vec<Ingress>>, Failure> {
        Ok(match service.name.as_str() {
            "absent" => None,
            // Nothing there yet is no mistake of a question.
            "empty" => Some(vec![]),
            _ => Some(change(&service).ingress),
        })
    }

    fn get_mark(service: Service) -> Result<Option<Mark>, Failure> {
        let uid = match service.name.as_str() {
            "absent" => return Ok(None),
            "panic" => attack::panic(),
            "short-mark" => Some(service.uid.chars().take(15).collect()),
            "no-uid" => Some("the Service of somebody else".to_owned()),
            "chatty" => return Ok(Some(Mark { load_balancer: "id\n".repeat(1 << 10), uid: None })),
            _ => Some(service.uid),
        };
        Ok(Some(Mark { load_balancer: "lb-1".to_owned(), uid }))
    }

    fn ensure(service: Service, _backends: Vec<Backend>) -> Outcome {
        change(&service)
    }

    fn update_backends(service: Service, backends: Vec<Backend>) -> Outcome {
        match service.name.as_str() {
            "echo" => Outcome::done(good()).changed(format!("{backends:?}")),
            _ => change(&service),
        }
    }

    fn ensure_deleted(service: Service) -> Outcome {
        change(&service)
    }

    fn validate(service: Service, _before: Option<Service>, _online: bool) -> Result<Vec<Problem>, Failure> {
        if service.name == "panic" {
            attack::panic()
        }
        Ok(if service.name == "chatty" { attack::problems() } else { vec![] })
    }
}

impl load_balancer_survey::Guest for Hostile {
    fn survey(backends: Vec<Backend>, mut wishes: Vec<Wish>) -> Result<Vec<Standing>, Failure> {
        match wishes.first().map_or("", |wish| wish.service.name.as_str()) {
            "panic" => attack::panic(),
            "refuse" => return Err(Failure::unauthorized("no")),
            "too-few" => wishes.truncate(wishes.len().saturating_sub(1)),
            "too-many" => wishes.extend(wishes.first().cloned()),
            _ => {}
        }
        let standing = |wish: &Wish| match wish.service.name.as_str() {
            "missing" => Standing::Missing,
            "unknown" => Standing::Unknown(Failure::throttled("slower")),
            "differs" => {
                let names = wish.backends.iter().filter_map(|index| backends.get(usize::try_from(*index).ok()?));
                Standing::Differs(names.map(|backend| backend.name.clone()).collect())
            }
            _ => Standing::InStep(change(&wish.service).ingress),
        };
        Ok(wishes.iter().map(standing).collect())
    }
}

impl cluster::Guest for Hostile {
    fn reconcile(nodes: Vec<Node>, services: Vec<Service>) -> Result<Vec<(Subject, Failure)>, Failure> {
        let mut failures = vec![];
        for Node { name, .. } in nodes {
            match name.as_str() {
                "panic" => attack::panic(),
                "refuse" => return Err(Failure::unauthorized("no")),
                "stranger" => failures.push((Subject::Node(STRANGER.to_owned()), Failure::retry("?"))),
                _ => failures.push((Subject::Node(name), Failure::retry("bad Node"))),
            }
        }
        for Service { namespace, name, .. } in services {
            let subject = if name == "stranger" { STRANGER.to_owned() } else { name };
            failures.push((Subject::Service((namespace, subject)), Failure::retry("bad Service")));
        }
        Ok(failures)
    }
}
