//! The cloud's firewall lets in what Services have as node ports.

use ccm_sdk::types::{Failure, Node, Service, Subject};

use crate::REFUSE;
use crate::api::{self, Firewall};

/// Writes nothing where nothing differs.
pub(crate) fn reconcile(nodes: &[Node], services: &[Service]) -> Result<Vec<(Subject, Failure)>, Failure> {
    let (desired, failures) = rules(nodes, services);
    if api::firewall()? != desired {
        api::replace_firewall(&desired)?;
    }
    Ok(failures)
}

fn rules(nodes: &[Node], services: &[Service]) -> (Firewall, Vec<(Subject, Failure)>) {
    let (mut ports, mut failures) = (vec![], vec![]);
    for service in services.iter().filter(|service| !service.deleting) {
        match service.annotation(REFUSE) {
            Some(why) => {
                let subject = Subject::Service((service.namespace.clone(), service.name.clone()));
                failures.push((subject, Failure::invalid(why).annotation(REFUSE)));
            }
            None => ports.extend(service.ports.iter().filter_map(|port| port.node_port)),
        }
    }
    ports.sort_unstable();
    ports.dedup();
    let mut machines: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    machines.sort();
    (Firewall { ports, machines }, failures)
}

#[cfg(test)]
mod tests {
    use ccm_sdk::testing::{FakeCloud, Reply, text};

    use super::*;

    const RULES: &str = "api GET /v1/firewall";

    #[test]
    fn rules_that_do_not_differ_are_not_written() {
        let cloud = FakeCloud::new().on(RULES, Reply::json(200, r#"{"ports": [], "machines": ["a", "b"]}"#));
        assert_eq!(reconcile(&[Node::named("b"), Node::named("a")], &[]), Ok(vec![]));
        assert_eq!(cloud.lines(), [RULES]);
    }

    #[test]
    fn one_that_is_refused_does_not_stop_the_others() {
        let cloud = FakeCloud::new()
            .on(RULES, Reply::json(200, r#"{"ports": [], "machines": []}"#))
            .on("api PUT /v1/firewall", Reply::status(204));
        let mut services = [80, 81].map(crate::balancers::tests::node_port_service);
        services[0].annotations.push((REFUSE.to_owned(), "not here".to_owned()));
        let failures = reconcile(&[Node::named("a")], &services).expect("one failed");
        let subject = Subject::Service(("shop".to_owned(), "web".to_owned()));
        assert_eq!(failures, [(subject, Failure::invalid("not here").annotation(REFUSE))]);
        assert_eq!(text(&cloud.requests()[1].body), r#"{"ports":[30081],"machines":["a"]}"#);
    }
}
