//! What would be left, in the order in which it goes, and how that is told.

use serde::Serialize;

use super::manager::Manager;
use crate::paste::Paste;
use crate::plain::one_line;

/// What is done together. The order is that of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    /// Services whose load balancers are there.
    LoadBalancers,
    /// Nodes that wait for a host.
    Nodes,
    /// What calls the host.
    Webhook,
    /// Objects of the manifests.
    Installation,
    /// The Lease, which a host writes again.
    Lease,
    /// What a host would write again on Services and Nodes.
    Marks,
}

const STEPS: [Step; 6] =
    [Step::LoadBalancers, Step::Nodes, Step::Webhook, Step::Installation, Step::Lease, Step::Marks];

impl Step {
    /// What is done in it.
    const fn what(self, manager: &Manager) -> &'static str {
        match (self, manager) {
            (Self::LoadBalancers, Manager::Nobody) => {
                "Load balancers. No host runs. To have them deleted, start it again and begin here. Otherwise delete each load balancer in the cloud that you do not keep, and then run the command, which takes the finalizer away"
            }
            (Self::LoadBalancers, Manager::Unseen) => {
                "Load balancers. No host has the Lease or runs in a pod. See first that none runs elsewhere, without election (--leader-elect=false) or under another Lease (--leader-elect-resource-name, --leader-elect-resource-namespace). To have the load balancers deleted, start the host again and begin here. Otherwise delete each load balancer in the cloud that you do not keep, and then run the command, which takes the finalizer away"
            }
            (Self::LoadBalancers, _) => {
                "Load balancers, while a host leads. An annotate command leaves the load balancer in the cloud, where it costs money. To delete it, delete the Service or change its type instead. Continue when no Service is listed here; if one stays, run `wasm-ccm doctor`"
            }
            (Self::Nodes, _) => {
                "Nodes that wait for the host. Start kubelets without --cloud-provider=external, or install another cloud controller manager, which serves these Nodes; the command lets pods run on a Node as it is"
            }
            (Self::Webhook, _) => "The webhook. Soon nothing answers it",
            (Self::Installation, _) => {
                "The installation, in this order. For what is in your overlay, kubectl delete -k does the same"
            }
            (Self::Lease, _) => "The Lease. Wait until no pod of the host is left: it would make the Lease again",
            (Self::Marks, _) => {
                "Marks on Services and Nodes. Wait until no pod of the host is left: it would write them again"
            }
        }
    }
}

/// One thing that would be left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Item {
    /// Kind, namespace and name.
    pub(super) object: String,
    /// What of ours is there.
    pub(super) found: String,
    /// What removes it.
    pub(super) command: String,
}

#[derive(Debug, Serialize)]
struct Part {
    step: Step,
    what: String,
    items: Vec<Item>,
}

/// All that would be left.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remains {
    manager: Manager,
    left: usize,
    /// Lists that could not be read, and why.
    unread: Vec<String>,
    steps: Vec<Part>,
    /// What is not counted.
    notes: Vec<String>,
}

impl Remains {
    pub(super) fn new(manager: Manager) -> Self {
        let steps = STEPS.map(|step| Part { step, what: step.what(&manager).to_owned(), items: vec![] }).into();
        let mut unread = vec![];
        if manager == Manager::Unknown {
            unread.push("whether a host runs: neither its Lease nor its pods say so".to_owned());
        }
        Self { manager, left: 0, unread, steps, notes: vec![] }
    }

    pub(super) const fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Texts come from the cluster: each is made one line, as is what could not be read, and each note.
    pub(super) fn add(&mut self, step: Step, item: Item) {
        if let Some(part) = self.steps.iter_mut().find(|part| part.step == step) {
            let Item { object, found, command } = item;
            let [object, found, command] = [object, found, command].map(|text| one_line(&text));
            part.items.push(Item { object, found, command });
            self.left += 1;
        }
    }

    pub(super) fn unread(&mut self, what: String) {
        self.unread.extend([what].map(|what| one_line(&what)));
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.extend([note].map(|note| one_line(&note)));
    }

    /// With commands that can be pasted.
    pub(super) fn completed(mut self, paste: &Paste) -> Self {
        for part in &mut self.steps {
            part.what = paste.complete(&part.what);
            for item in &mut part.items {
                item.command = paste.complete(&item.command);
            }
        }
        self
    }

    /// Whether anything would be left.
    #[must_use]
    pub const fn is_any_left(&self) -> bool {
        self.left > 0
    }

    /// Whether something could not be read.
    #[must_use]
    pub const fn is_any_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![];
        let parts = self.steps.iter().filter(|part| !part.items.is_empty());
        for (number, Part { what, items, .. }) in parts.enumerate() {
            lines.push(format!("{}. {what}:", number + 1));
            let mut items = items.iter().peekable();
            while let Some(Item { object, found, command }) = items.next() {
                lines.push(format!("   {}", one_line(&format!("{object}: {found}"))));
                // One command of Helm removes many.
                if items.peek().is_none_or(|next| next.command != *command) {
                    lines.push(format!("     {command}"));
                }
            }
        }
        lines.extend(self.unread.iter().map(|what| one_line(&format!("not known: {what}"))));
        lines.extend(self.notes.iter().map(|note| one_line(&format!("note: {note}"))));
        lines.push("note: clouds are not asked. Look there for load balancers and routes; the Secret with your credentials stays: docs/guides/remove.md".to_owned());
        lines.push(format!("{} left, {} could not be read", self.left, self.unread.len()));
        lines.join("\n")
    }

    #[cfg(test)]
    pub(super) fn items(&self, step: Step) -> &[Item] {
        &self.steps.iter().find(|part| part.step == step).unwrap().items
    }
}

/// Whether it stands in a command as it is.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(object: &str, command: &str) -> Item {
        Item { object: object.to_owned(), found: "found".to_owned(), command: command.to_owned() }
    }

    #[test]
    fn steps_are_told_in_the_order_of_the_work_and_one_command_for_many_objects_once() {
        let mut remains = Remains::new(Manager::Nobody);
        assert!(!remains.is_any_left() && !remains.is_any_unread());
        assert!(remains.text().ends_with("\n0 left, 0 could not be read") && !remains.text().contains("1."));
        remains.add(Step::Marks, item("Service a/b", "last"));
        remains.add(Step::Installation, item("Role a", "helm uninstall x"));
        remains.add(Step::Installation, item("Role b", "helm uninstall x"));
        remains.add(Step::LoadBalancers, item("Service a/c", "first"));
        remains.unread("Secrets: forbidden".to_owned());
        let text = remains.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("note: ")).collect();
        let begins = [
            "1. Load balancers. No host runs. ",
            "   Service a/c: found",
            "     first",
            "2. The installation, ",
            "   Role a: found",
            "   Role b: found",
            "     helm uninstall x",
            "3. Marks on Services and Nodes. Wait until ",
            "   Service a/b: found",
            "     last",
            "not known: Secrets: forbidden",
            "4 left, 1 could not be read",
        ];
        assert_eq!(lines.len(), begins.len(), "{text}");
        assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{text}");
        assert!(remains.is_any_left() && remains.is_any_unread());
    }

    /// Whoever may write a Lease says who holds it.
    #[test]
    fn no_text_of_others_moves_the_terminal() {
        let mut remains = Remains::new(Manager::Nobody);
        let found = "the last holder is \u{1b}[2Jx\n0 left, 0 could not be read".to_owned();
        remains.add(Step::Lease, Item { found, ..item("Lease a/b", "command") });
        remains.unread("Secrets: \u{202e}no".to_owned());
        let text = remains.text();
        assert!(!text.contains(['\u{1b}', '\u{202e}']) && text.lines().count() == 6, "{text:?}");
    }

    #[test]
    fn no_text_of_the_cluster_makes_a_line_or_moves_the_terminal() {
        let bad = "x\n   Role y: found\r\u{1b}[2J";
        let mut remains = Remains::new(Manager::Nobody);
        remains.add(Step::Lease, Item { object: bad.to_owned(), found: bad.to_owned(), command: bad.to_owned() });
        remains.unread(bad.to_owned());
        remains.note(bad.to_owned());
        let text = remains.text();
        assert!(!text.contains(['\u{1b}', '\r']) && !text.lines().any(|line| line.starts_with("   Role")), "{text:?}");
        assert_eq!(text.lines().count(), 7, "{text:?}");
    }

    #[test]
    fn where_nobody_knows_whether_a_host_runs_that_is_said() {
        let remains = Remains::new(Manager::Unknown);
        assert!(remains.is_any_unread() && remains.text().contains("not known: whether a host runs"));
    }

    /// "The command keeps one in the cloud": whoever pasted the commands kept load balancers, and paid for them. Where a host was there and did
    /// not lead, the wait had no end.
    #[test]
    fn what_the_commands_keep_in_the_cloud_is_told_before_them_and_what_to_do_where_the_wait_has_no_end() {
        let mut remains = Remains::new(Manager::Host);
        remains.add(Step::LoadBalancers, item("Service a/c", "kubectl annotate"));
        let access = crate::ask::Access { kubeconfig: Some("/k/c".into()), master: None };
        let text = remains.completed(&Paste::new(&access)).text();
        let (first, _) = text.split_once("     kubectl ").unwrap();
        for part in [
            "1. Load balancers, while a host leads. ",
            "leaves the load balancer in the cloud, where it costs money",
            "To delete it, delete the Service or change its type instead",
            "if one stays, run `wasm-ccm doctor --kubeconfig=/k/c`:",
        ] {
            assert!(first.contains(part), "{part}: {text}");
        }
    }

    /// Whoever deletes a load balancer that a host takes care of makes it anew with another address.
    #[test]
    fn where_no_host_is_seen_the_commands_come_after_where_to_look_for_one() {
        let mut remains = Remains::new(Manager::Unseen);
        // After all is removed, there is neither a Lease nor a pod.
        assert!(!remains.is_any_unread());
        remains.add(Step::LoadBalancers, item("Service a/c", "command"));
        let text = remains.text();
        let (first, then) = text.split_once("Otherwise delete each load balancer").unwrap();
        for flag in ["--leader-elect=false", "--leader-elect-resource-name", "-namespace"] {
            assert!(first.contains(flag), "{text}");
        }
        assert!(!first.contains("No host runs") && then.contains("     command"), "{text}");
    }

    #[test]
    fn what_stands_in_an_object_is_no_part_of_a_command() {
        for (name, is_good) in
            [("my-cloud.2", true), ("", false), ("a;b", false), ("$(x)", false), ("a b", false), ("-x", false)]
        {
            assert_eq!(is_word(name), is_good, "{name}");
        }
    }
}
