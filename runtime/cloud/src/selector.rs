//! Nodes by their labels, for providers that choose among backends.

/// Answers label selectors.
pub trait NodeSelector: Send + Sync + 'static {
    /// Names of the Nodes that a Kubernetes label selector matches, in order; all of them for an empty one.
    ///
    /// # Errors
    ///
    /// The selector cannot be read, or the Nodes are not known yet: why, in words for the provider.
    fn matching(&self, selector: &str) -> Result<Vec<String>, String>;
}
