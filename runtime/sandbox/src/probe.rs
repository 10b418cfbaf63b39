//! Shows tests what a guest has in its memory when a call is over. Without the feature `memory-probe` there is nothing here.

use wasmtime::{Config, Store};

/// Is given the function and the content of one linear memory, once for each of them.
#[cfg(feature = "memory-probe")]
pub type MemoryProbe = std::sync::Arc<dyn Fn(&'static str, &[u8]) + Send + Sync>;

/// Whoever looks, if anybody does.
#[derive(Clone, Default)]
pub(crate) struct Probe {
    #[cfg(feature = "memory-probe")]
    look: Option<MemoryProbe>,
}

#[cfg(feature = "memory-probe")]
impl Probe {
    pub(crate) fn new(look: MemoryProbe) -> Self {
        Self { look: Some(look) }
    }

    /// Other engines do not tell which memories a store has.
    pub(crate) fn prepare(&self, config: &mut Config) {
        if self.look.is_some() {
            config.guest_debug(true);
        }
    }

    pub(crate) fn look<T: 'static>(&self, function: &'static str, store: &mut Store<T>) {
        let Some(look) = &self.look else { return };
        let mut seen = std::collections::BTreeSet::new();
        for instance in store.debug_all_instances() {
            let memories = (0..).map_while(|index| instance.debug_memory(&mut *store, index)).collect::<Vec<_>>();
            for memory in memories {
                // Instances import each other's memories.
                if seen.insert(memory.data_ptr(&*store).addr()) {
                    look(function, memory.data(&*store));
                }
            }
        }
    }
}

#[cfg(not(feature = "memory-probe"))]
impl Probe {
    pub(crate) const fn prepare(&self, _: &mut Config) {}

    pub(crate) const fn look<T: 'static>(&self, _: &'static str, _: &mut Store<T>) {}
}
