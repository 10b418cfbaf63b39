//! `--controllers`, with upstream's names, aliases and rules.

/// A controller that this program runs, or will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controller {
    Node,
    NodeLifecycle,
    Service,
    Route,
}

impl Controller {
    pub(crate) const ALL: [Self; 4] = [Self::Node, Self::NodeLifecycle, Self::Service, Self::Route];

    /// Upstream's canonical name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Node => "cloud-node-controller",
            Self::NodeLifecycle => "cloud-node-lifecycle-controller",
            Self::Service => "service-lb-controller",
            Self::Route => "node-route-controller",
        }
    }

    /// Upstream's short name, which its metrics use too.
    const fn alias(self) -> &'static str {
        match self {
            Self::Node => "cloud-node",
            Self::NodeLifecycle => "cloud-node-lifecycle",
            Self::Service => "service",
            Self::Route => "route",
        }
    }

    /// Whether this version runs it.
    pub(crate) const fn is_served(self) -> bool {
        matches!(self, Self::Node)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| controller.name() == name || controller.alias() == name)
    }
}

/// Which controllers were asked for: the first entry that names one wins, else `*` decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    entries: Vec<(Option<Controller>, bool)>,
}

impl Selection {
    /// Reads entries `*`, `NAME` and `-NAME`.
    ///
    /// # Errors
    ///
    /// Names the entry that is no controller, and the names that there are.
    pub(crate) fn parse(entries: &[String]) -> Result<Self, String> {
        let parse = |entry: &String| {
            if entry == "*" {
                return Ok((None, true));
            }
            let (name, on) = entry.strip_prefix('-').map_or((entry.as_str(), true), |name| (name, false));
            let controller = Controller::named(name).ok_or_else(|| {
                let known = Controller::ALL.map(Controller::name).join(", ");
                format!("{name:?} is not in the list of known controllers: {known}")
            })?;
            Ok((Some(controller), on))
        };
        Ok(Self { entries: entries.iter().map(parse).collect::<Result<_, String>>()? })
    }

    /// Whether `controller` is to run.
    pub(crate) fn has(&self, controller: Controller) -> bool {
        let named = self.entries.iter().find(|(entry, _)| *entry == Some(controller)).map(|(_, on)| *on);
        named.unwrap_or_else(|| self.entries.contains(&(None, true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_that_names_a_controller_wins() {
        use Controller::{Node, NodeLifecycle, Route, Service};
        let cases: [(&[&str], &[Controller]); 7] = [
            (&["*"], &[Node, NodeLifecycle, Service, Route]),
            (&["route"], &[Route]),
            (&["*", "-service-lb-controller"], &[Node, NodeLifecycle, Route]),
            (&["-cloud-node", "*"], &[NodeLifecycle, Service, Route]),
            (&["cloud-node", "-cloud-node"], &[Node]),
            (&["-cloud-node"], &[]),
            (&[], &[]),
        ];
        for (entries, on) in cases {
            let entries: Vec<String> = entries.iter().map(|&entry| entry.into()).collect();
            let selection = Selection::parse(&entries).unwrap();
            let selected: Vec<Controller> = Controller::ALL.into_iter().filter(|c| selection.has(*c)).collect();
            assert_eq!(selected, on, "{entries:?}");
        }
    }

    #[test]
    fn names_that_upstream_does_not_know_are_refused() {
        for name in ["service-controller", "route-controller", "-nodes", ""] {
            assert!(Selection::parse(&[name.into()]).unwrap_err().contains("cloud-node-controller"), "{name:?}");
        }
    }
}
