//! Annotations of a Node that look like its provider's, and are none.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use ccm_cloud::{Descriptor, Keeper};
use parking_lot::Mutex;

use super::NodeController;
use crate::shrink::shrink;
use crate::store::Node;
use crate::unknown_annotations::{told, unknown};
use crate::view::node::is_uninitialized;

/// What one provider declares at this moment.
type Declares = Box<dyn Fn() -> Arc<Descriptor> + Send + Sync>;

/// What was last said of a Node.
struct Told {
    uid: Box<str>,
    message: String,
}

/// Tells annotations of Nodes that their providers do not know.
#[derive(Default)]
pub(crate) struct UnknownAnnotations {
    /// In the operator's order of the providers. Without it, nothing is told.
    providers: OnceLock<Vec<Declares>>,
    /// By name of the Node; also of those of which nothing is to be said.
    told: Mutex<HashMap<Box<str>, Told>>,
}

impl UnknownAnnotations {
    /// What each provider declares. The first word counts.
    pub(super) fn knows<D>(&self, providers: impl IntoIterator<Item = D>)
    where
        D: Fn() -> Arc<Descriptor> + Send + Sync + 'static,
    {
        let boxed = |declares: D| -> Declares { Box::new(declares) };
        self.providers.get_or_init(|| providers.into_iter().map(boxed).collect());
    }

    /// What is to be said of the annotations of a Node that is `keeper`'s, where that is something else than before. As of a Service, it is not
    /// said again of a Node that an earlier process has initialised: that one has said it.
    pub(crate) fn news(&self, node: &Node, keeper: Option<Keeper>) -> Option<String> {
        let providers = self.providers.get()?;
        let provider = match keeper {
            Some(Keeper::Provider(place)) => providers.get(place),
            Some(Keeper::Any) | None => None,
        };
        let names = node.annotations.iter().map(|(name, _)| name);
        let message = provider.map(|declares| told(unknown(names, &declares()))).unwrap_or_default();
        let uid = node.uid.as_deref().unwrap_or_default();
        let now = Told { uid: uid.into(), message: message.clone() };
        let before = self.told.lock().insert(node.name.clone(), now).filter(|before| &*before.uid == uid);
        let is_news = before.map_or_else(|| is_uninitialized(node), |before| before.message != message);
        (is_news && !message.is_empty()).then_some(message)
    }

    /// There is no such Node any more.
    pub(crate) fn forget(&self, name: &str) {
        let mut told = self.told.lock();
        told.remove(name);
        shrink(&mut told);
    }
}

impl NodeController {
    /// With what each provider declares, in the operator's order: an annotation of a Node that looks like its provider's, and is none, is told
    /// at the Node.
    #[must_use]
    pub fn knowing<D>(self, providers: impl IntoIterator<Item = D>) -> Self
    where
        D: Fn() -> Arc<Descriptor> + Send + Sync + 'static,
    {
        self.syncer.unknown_annotations.knows(providers);
        self
    }
}
