//! A Node whose kubelet runs without `--cloud-provider=external`: no manager is asked to take care of it.

/// What is seen of it.
pub const FOUND: &str = "has neither a provider ID nor the uninitialized taint, so no manager initialises it: its kubelet seems to run without --cloud-provider=external";

/// What to do. `name`: that of the Node, as a shell takes it. A machine of no cloud would keep the taint, and be out of service.
#[must_use]
pub fn fix(name: &str) -> String {
    format!(
        "if it is a machine of the cloud: start the kubelet with --cloud-provider=external, then `kubectl taint node {name} node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule`: the host initialises the Node and takes the taint away; if it is not, leave it as it is"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The taint asks for the initialisation, and not for a provider ID.
    #[test]
    fn what_is_seen_says_what_is_missing_and_what_comes_of_it() {
        let says = "has neither a provider ID nor the uninitialized taint, so no manager initialises it: ";
        assert!(FOUND.starts_with(says), "{FOUND}");
    }

    /// A machine of no cloud was taken out of service: no manager takes the taint away again.
    #[test]
    fn what_is_no_machine_of_the_cloud_is_left_as_it_is() {
        let fix = fix("n1");
        let taint = "`kubectl taint node n1 node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule`";
        assert!(
            fix.starts_with("if it is a machine of the cloud: start the kubelet with ") && fix.contains(taint),
            "{fix}"
        );
        assert!(fix.ends_with("; if it is not, leave it as it is"), "{fix}");
    }
}
