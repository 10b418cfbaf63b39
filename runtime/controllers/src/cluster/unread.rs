//! Nodes and Services that the stores leave out, since this process cannot read them.
//!
//! To a provider, what it is not told of is gone: it would close the ports of such a Service. So it is told nothing as long as one of them that
//! may have open ports may have been told before.

use ccm_cloud::{ClusterSubject, Failure, Reaction};
use tokio::sync::watch;

use super::sync::SubjectFailure;
use crate::store::{FirstList, Shown, Unread};

/// What the stores leave out.
#[derive(Clone)]
pub(crate) struct LeftOut {
    nodes: watch::Receiver<Unread>,
    services: watch::Receiver<Unread>,
}

/// What a provider cannot be told of.
#[derive(Default)]
pub(crate) struct Untold {
    /// Each of them.
    pub(crate) objects: Vec<SubjectFailure>,
    /// Why nothing is told at all, if so.
    pub(crate) held: Option<Failure>,
}

impl LeftOut {
    /// Of the stores that these lists fill: Nodes, Services.
    pub(crate) fn of([nodes, services]: &[FirstList; 2]) -> Self {
        Self { nodes: nodes.unread(), services: services.unread() }
    }

    /// What `read` finds in the stores, and what is left out of them at the same moment.
    pub(crate) fn beside<T>(&self, read: impl FnOnce() -> T) -> (T, Untold) {
        let (nodes, services) = (self.nodes.borrow(), self.services.borrow());
        let read = read();
        let node = |name: &str| ClusterSubject::Node(name.to_owned());
        let service =
            |namespace: &str, name: &str| ClusterSubject::Service { namespace: namespace.into(), name: name.into() };
        let all = nodes.iter().map(|((_, name), one)| (node(name), one));
        let all = all.chain(services.iter().map(|((namespace, name), one)| (service(namespace, name), one)));
        let mut untold = Untold::default();
        let mut before = vec![];
        for (subject, one) in all.filter(|(_, one)| one.shown != Shown::AsBefore) {
            let mut message = format!("it cannot be read: {}; correct that, or take away what is too much", one.why);
            if one.shown == Shown::LeftOut && one.reach.exposes {
                message.push_str(". Until then, nothing is done for the cluster as a whole");
                before.push(name(&subject));
            }
            untold.objects.push((subject, Failure::new(Reaction::Invalid, message)));
        }
        untold.held = before.first().map(|first| {
            let others = match before.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            let message = format!(
                "{first}{others} cannot be read, and may have been told before: without that, the provider would take away what it has"
            );
            Failure::new(Reaction::Invalid, message)
        });
        (read, untold)
    }

    /// The UID of an object that cannot be read; none where it can be, or is gone.
    pub(crate) fn uid(&self, subject: &ClusterSubject) -> Option<String> {
        let (among, key) = match subject {
            ClusterSubject::Call | ClusterSubject::Provider => return None,
            ClusterSubject::Node(name) => (&self.nodes, (String::new(), name.clone())),
            ClusterSubject::Service { namespace, name } => (&self.services, (namespace.clone(), name.clone())),
        };
        among.borrow().get(&key).map(|one| one.uid.clone())
    }

    /// Waits until other objects cannot be read, or one for another reason.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(crate) async fn changed(&mut self) {
        tokio::select! {
            () = changed(&mut self.nodes) => {}
            () = changed(&mut self.services) => {}
        }
    }

    /// Takes all as seen.
    pub(crate) fn saw_all(&mut self) {
        self.nodes.mark_unchanged();
        self.services.mark_unchanged();
    }
}

/// Never ends when nobody reads any more.
async fn changed(unread: &mut watch::Receiver<Unread>) {
    if unread.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn name(subject: &ClusterSubject) -> String {
    match subject {
        ClusterSubject::Call | ClusterSubject::Provider => String::new(),
        ClusterSubject::Node(name) => format!("Node {name}"),
        ClusterSubject::Service { namespace, name } => format!("Service {namespace}/{name}"),
    }
}
