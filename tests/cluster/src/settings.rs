//! What a control plane is made of: which components run, who may log in, extra flags.

use std::path::PathBuf;

/// What to start. The default is etcd and kube-apiserver alone: ready in two to three seconds, and no other writer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// kube-scheduler: binds pods to nodes.
    pub scheduler: bool,
    /// kube-controller-manager with all its default controllers: Deployments, node life cycle taints, garbage
    /// collection.
    ///
    /// With it the API server taints new Nodes `node.kubernetes.io/not-ready`, as clusters do, and the node life cycle
    /// controller lifts that. Without it the admission plugin that does so (`TaintNodesByCondition`) is off, since
    /// nobody would lift the taint.
    ///
    /// It also marks a Node as unreachable after 50 s without heartbeat: let kwok keep it alive
    /// ([`NodeFixture::kwok`](crate::NodeFixture::kwok)).
    pub controller_manager: bool,
    /// kwok: plays the kubelet of every Node with the annotation `kwok.x-k8s.io/node=fake`. It renews the Node's lease
    /// and lets its pods run; it never writes addresses.
    pub kwok: bool,
    /// Users besides the administrator, each with a token and a kubeconfig of their own. What they may do, RBAC objects
    /// say.
    pub users: Vec<User>,
    /// Added to the flags of kube-apiserver; a flag given here wins over ours.
    pub api_server_flags: Vec<String>,
    /// Added to the flags of kube-controller-manager; a flag given here wins over ours.
    pub controller_manager_flags: Vec<String>,
    /// Lets the API server keep a record of all writes, for [`ControlPlane::writes`](crate::ControlPlane::writes).
    pub audit: bool,
    /// Folder for the components' logs, which then stay; created when absent. Without it they go when the control plane
    /// goes.
    pub logs: Option<PathBuf>,
}

impl Settings {
    /// Every component: what a Deployment needs to come up on fake nodes.
    pub fn everything() -> Self {
        Self { scheduler: true, controller_manager: true, kwok: true, ..Self::default() }
    }

    /// Adds a user.
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.users.push(user);
        self
    }
}

/// Somebody who may log in to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User name, also the key for [`ControlPlane::kubeconfig_of`](crate::ControlPlane::kubeconfig_of).
    pub name: String,
    /// Groups; `system:authenticated` comes by itself.
    pub groups: Vec<String>,
}

impl User {
    /// A user without groups.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), groups: Vec::new() }
    }

    /// A user that is to RBAC what the service account is.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        }
    }

    /// Adds a group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }
}
