//! The cluster's Nodes, for providers that choose among backends or must know whose account they see.

/// Answers label selectors, and tells provider IDs.
pub trait NodeSelector: Send + Sync + 'static {
    /// Names of the Nodes that a Kubernetes label selector matches, in order; all of them for an empty one.
    ///
    /// # Errors
    ///
    /// The selector cannot be read, or the Nodes are not known yet: why, in words for the provider.
    fn matching(&self, selector: &str) -> Result<Vec<String>, String>;

    /// Provider IDs that begin with one of these, at most so many: those of Nodes that are Ready first, then by name.
    ///
    /// # Errors
    ///
    /// The Nodes are not known yet: why, in words for the provider.
    fn provider_ids(&self, prefixes: &[String], most: usize) -> Result<Vec<String>, String>;
}
