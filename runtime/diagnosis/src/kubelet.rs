//! A Node whose kubelet runs without `--cloud-provider=external`: no manager is asked to take care of it.

/// What is seen of it.
pub const FOUND: &str =
    "has no provider ID, and no taint that asks for one: its kubelet seems to run without --cloud-provider=external";

/// What to do. `name`: that of the Node, as a shell takes it.
#[must_use]
pub fn fix(name: &str) -> String {
    format!(
        "start the kubelet with --cloud-provider=external, then `kubectl taint node {name} node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule`: the host initialises the Node and takes the taint away"
    )
}
