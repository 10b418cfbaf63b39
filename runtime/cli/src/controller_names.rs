//! `--controllers`, with upstream's names, aliases and rules.

use ccm_controllers::{ClusterController, NodeController, NodeLifecycleController, RouteController, ServiceController};

/// A controller that this program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Initialises and refreshes Nodes.
    Node,
    /// Deletes and taints Nodes.
    NodeLifecycle,
    /// Makes load balancers.
    Service,
    /// Keeps routes to pods.
    Route,
    /// Looks after the cluster as a whole.
    Cluster,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Node, Self::NodeLifecycle, Self::Service, Self::Route, Self::Cluster];

    /// Upstream's canonical name, where there is one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "cloud-node-controller",
            Self::NodeLifecycle => "cloud-node-lifecycle-controller",
            Self::Service => "service-lb-controller",
            Self::Route => "node-route-controller",
            Self::Cluster => "cloud-cluster-controller",
        }
    }

    /// Upstream's short name, which its metrics use too.
    pub const fn alias(self) -> &'static str {
        match self {
            Self::Node => "cloud-node",
            Self::NodeLifecycle => "cloud-node-lifecycle",
            Self::Service => "service",
            Self::Route => "route",
            Self::Cluster => "cloud-cluster",
        }
    }

    /// Names of its loops, which the watchdog knows.
    pub const fn loops(self) -> &'static [&'static str] {
        match self {
            Self::Node => NodeController::LOOPS,
            Self::NodeLifecycle => NodeLifecycleController::LOOPS,
            Self::Service => ServiceController::LOOPS,
            Self::Route => RouteController::LOOPS,
            Self::Cluster => ClusterController::LOOPS,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| controller.name() == name || controller.alias() == name)
    }
}

/// Which controllers were asked for: the first entry that names one wins, else `*` decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    entries: Vec<(Option<Controller>, bool)>,
}

impl Selection {
    /// Reads entries `*`, `NAME` and `-NAME`.
    ///
    /// # Errors
    ///
    /// Names the entry that is no controller, and the names that there are.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        let parse = |entry: &String| {
            if entry == "*" {
                return Ok((None, true));
            }
            let (name, on) = entry.strip_prefix('-').map_or((entry.as_str(), true), |name| (name, false));
            let controller = Controller::named(name).ok_or_else(|| {
                let known = Controller::ALL.map(|one| format!("{} ({})", one.name(), one.alias())).join(", ");
                let names = Controller::ALL.into_iter().flat_map(|one| [one.name(), one.alias()]);
                let meant = ccm_cloud::nearest(name, names);
                let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
                format!("there is no controller {name:?}{meant}; there are {known}")
            })?;
            Ok((Some(controller), on))
        };
        let entries: Vec<(Option<Controller>, bool)> = entries.iter().map(parse).collect::<Result<_, String>>()?;
        let selection = Self { entries };
        if !Controller::ALL.into_iter().any(|controller| selection.has(controller)) {
            return Err(format!("nothing would run; ask for * or {}", Controller::Node.name()));
        }
        Ok(selection)
    }

    /// Whether a controller is to run that works on Services.
    pub fn watches_services(&self) -> bool {
        [Controller::Service, Controller::Cluster].into_iter().any(|controller| self.has(controller))
    }

    /// Whether `controller` is to run.
    pub fn has(&self, controller: Controller) -> bool {
        let named = self.entries.iter().find(|(entry, _)| *entry == Some(controller)).map(|(_, on)| *on);
        named.unwrap_or_else(|| self.entries.contains(&(None, true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(entries: &[&str]) -> Result<Vec<Controller>, String> {
        let entries: Vec<String> = entries.iter().map(|&entry| entry.into()).collect();
        let selection = Selection::parse(&entries)?;
        Ok(Controller::ALL.into_iter().filter(|controller| selection.has(*controller)).collect())
    }

    #[test]
    fn case_251_256_the_first_entry_that_names_a_controller_wins_by_either_name() {
        use Controller::{Cluster, Node, NodeLifecycle, Route, Service};
        let cases: [(&[&str], &[Controller]); 10] = [
            (&["service", "-service", "cloud-node"], &[Node, Service]),
            (&["service-lb-controller", "-service", "cloud-node"], &[Node, Service]),
            (&["-service", "service-lb-controller", "cloud-node"], &[Node]),
            (&["*", "-service"], &[Node, NodeLifecycle, Route, Cluster]),
            (&["-node-route-controller", "cloud-node-lifecycle", "cloud-cluster"], &[NodeLifecycle, Cluster]),
            (&["*"], &[Node, NodeLifecycle, Service, Route, Cluster]),
            (&["cloud-node"], &[Node]),
            (&["route"], &[Route]),
            (&["*", "-service-lb-controller"], &[Node, NodeLifecycle, Route, Cluster]),
            (&["cloud-node", "-cloud-node"], &[Node]),
        ];
        for (entries, on) in cases {
            assert_eq!(select(entries).unwrap(), on, "{entries:?}");
        }
    }

    #[test]
    fn what_would_not_run_is_refused_and_not_ignored() {
        let cases: [(&[&str], &str); 3] = [
            (
                &["-cloud-node", "-cloud-node-lifecycle", "-service", "-route", "-cloud-cluster", "*"],
                "nothing would run",
            ),
            (&["-cloud-node"], "nothing would run"),
            (&[], "nothing would run"),
        ];
        for (entries, part) in cases {
            let error = select(entries).unwrap_err();
            assert!(error.contains(part), "{entries:?}: {error}");
        }
    }

    #[test]
    fn services_are_watched_for_the_controllers_that_work_on_them() {
        for (controller, watched) in Controller::ALL.into_iter().zip([false, false, true, false, true]) {
            let selection = Selection { entries: vec![(Some(controller), true)] };
            assert_eq!(selection.watches_services(), watched, "{controller:?}");
        }
    }

    #[test]
    fn case_253_names_are_whole_words_and_end_in_controller() {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|letter| letter.is_ascii_lowercase());
        for controller in Controller::ALL {
            let (name, alias) = (controller.name(), controller.alias());
            assert!(name.ends_with("-controller") && name.split('-').all(is_word), "{name}");
            assert!(!alias.ends_with("-controller") && alias.split('-').all(is_word), "{alias}");
            for text in [name, alias] {
                assert_eq!(Controller::named(text), Some(controller), "{text} is its own and nobody else's");
            }
        }
        let upstream = [
            "cloud-node-controller",
            "cloud-node-lifecycle-controller",
            "service-lb-controller",
            "node-route-controller",
        ];
        assert_eq!(Controller::ALL.map(Controller::name)[..4], upstream);
    }

    #[test]
    fn a_misspelt_name_leads_to_the_one_that_was_meant() {
        for (entry, meant) in [
            ("cloud-nodes", "cloud-node"),
            ("-cloud-node-lifecycel", "cloud-node-lifecycle"),
            ("services", "service"),
            ("service-lb-controler", "service-lb-controller"),
        ] {
            let error = Selection::parse(&[entry.into()]).unwrap_err();
            let name = entry.trim_start_matches('-');
            let told =
                format!("there is no controller {name:?}; did you mean {meant}?; there are cloud-node-controller");
            assert!(error.starts_with(&told), "{error}");
        }
        let error = Selection::parse(&["everything".into()]).unwrap_err();
        assert!(error.starts_with("there is no controller \"everything\"; there are"), "{error}");
    }

    #[test]
    fn case_256_names_that_upstream_does_not_know_are_refused() {
        for name in ["service-controller", "-service-controller", "route-controller", "-nodes", ""] {
            assert!(Selection::parse(&[name.into()]).unwrap_err().contains("cloud-node-controller"), "{name:?}");
        }
    }
}
