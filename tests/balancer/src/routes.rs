//! The cloud's routes: one table, which is written as a whole, all or nothing. Of a Node called `short-…` it keeps the outcome back.
//!
//! With `routes` in the form in its bytes it says of them what is not so: `lost` finds none, `disowned` knows no Node behind any.

use ccm_sdk::routes::{self, Outcome, Route, State, Wish};
use ccm_sdk::types::{Failure, Node};

use crate::form::field;
use crate::{Balancer, api};

impl routes::Guest for Balancer {
    fn get_all(nodes: Vec<Node>) -> Result<Vec<Route>, Failure> {
        let lie = field("routes").unwrap_or_default();
        let route = |(network, machine): (String, String)| {
            let is_known = lie != "disowned" && nodes.iter().any(|node| node.name == machine);
            Route {
                name: network.clone(),
                destination_cidr: network,
                node: is_known.then(|| machine.clone()),
                next_hop: Some(machine),
                state: if is_known { State::InPlace } else { State::Blackhole },
                more: vec![],
            }
        };
        Ok(api::routes()?.into_iter().filter(|_| lie != "lost").map(route).collect())
    }

    fn change(obsolete: Vec<Route>, wanted: Vec<Wish>) -> Result<Vec<Outcome>, Failure> {
        let before = api::routes()?;
        let mut table = before.clone();
        let mut outcomes = vec![];
        for route in &obsolete {
            table.remove(&route.destination_cidr);
            outcomes.push(done());
        }
        for wish in &wanted {
            table.insert(wish.destination_cidr.clone(), wish.node.clone());
            if !wish.node.starts_with("short-") {
                outcomes.push(done());
            }
        }
        if table != before {
            api::replace_routes(&table)?;
        }
        Ok(outcomes)
    }
}

fn done() -> Outcome {
    Outcome { failure: None, changes: vec![], more: vec![] }
}

#[cfg(test)]
mod tests {
    use ccm_sdk::testing::{FakeCloud, Reply, text};

    use super::routes::Guest as _;
    use super::*;

    const TABLE: &str = "api GET /v1/routes";

    fn wish(network: &str, node: &str) -> Wish {
        Wish {
            destination_cidr: network.to_owned(),
            node: node.to_owned(),
            node_provider_id: String::new(),
            node_addresses: vec![],
        }
    }

    #[test]
    fn what_leads_to_no_node_leads_nowhere() {
        let _cloud = FakeCloud::new().on(TABLE, Reply::json(200, r#"{"10.0.0.0/24": "a", "10.0.1.0/24": "gone"}"#));
        let routes = Balancer::get_all(vec![Node::named("a")]).expect("a table");
        let shown: Vec<_> = routes.iter().map(|route| (route.node.as_deref(), route.state)).collect();
        assert_eq!(shown, [(Some("a"), State::InPlace), (None, State::Blackhole)]);
    }

    #[test]
    fn the_table_is_written_once_and_not_at_all_where_nothing_differs() {
        let table = || Reply::json(200, r#"{"10.0.0.0/24": "a"}"#);
        let cloud = FakeCloud::new().on(TABLE, table()).on("api PUT /v1/routes", Reply::status(204));
        let outcomes = Balancer::change(vec![], vec![wish("10.0.1.0/24", "b"), wish("10.0.2.0/24", "short-c")]);
        assert_eq!(outcomes.expect("it is written").len(), 1);
        let written = r#"{"10.0.0.0/24":"a","10.0.1.0/24":"b","10.0.2.0/24":"short-c"}"#;
        assert_eq!(text(&cloud.requests()[1].body), written);

        let cloud = FakeCloud::new().on(TABLE, table());
        assert_eq!(Balancer::change(vec![], vec![wish("10.0.0.0/24", "a")]).expect("nothing to do"), [done()]);
        assert_eq!(cloud.lines(), [TABLE]);
    }
}
