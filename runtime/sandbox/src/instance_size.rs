//! How much the host keeps for the instances of a call beside their memories and tables, found out before anything is compiled: a module of
//! some megabytes can have a million globals, and be instantiated many times.
//!
//! Never counts too little: every module counts once, and each further instance as one of the largest module.

use wasmparser::{Instance, InstanceSectionReader};

/// For an instance of an empty module.
const INSTANCE: usize = 1 << 10;
/// For an import, an export, a global, a tag or a segment: an imported function is the largest.
const ITEM: usize = 48;
/// For a function that can be pointed at.
const FUNCTION: usize = 32;

/// Counts while a component is read.
#[derive(Default)]
pub(crate) struct InstanceSize {
    /// Components and modules that have begun.
    open: Vec<Open>,
    modules: usize,
    /// Of all modules, once each.
    bytes: usize,
    largest: usize,
    /// Most instances that a component makes.
    instances: usize,
}

#[derive(Default)]
struct Open {
    is_module: bool,
    bytes: usize,
    instances: usize,
}

impl InstanceSize {
    pub(crate) fn begin(&mut self, is_module: bool) {
        self.open.push(Open { is_module, bytes: INSTANCE, instances: 0 });
    }

    pub(crate) fn end(&mut self) {
        let Some(Open { is_module, bytes, instances }) = self.open.pop() else { return };
        if is_module {
            self.modules = self.modules.saturating_add(1);
            self.bytes = self.bytes.saturating_add(bytes);
            self.largest = self.largest.max(bytes);
        }
        self.instances = self.instances.max(instances);
    }

    pub(crate) fn items(&mut self, count: usize) {
        self.add(count.saturating_mul(ITEM));
    }

    pub(crate) fn functions(&mut self, count: usize) {
        self.add(count.saturating_mul(FUNCTION));
    }

    fn add(&mut self, bytes: usize) {
        if let Some(open) = self.open.last_mut() {
            open.bytes = open.bytes.saturating_add(bytes);
        }
    }

    /// Instances of modules; others only give names to what is there.
    ///
    /// # Errors
    ///
    /// The section is damaged.
    pub(crate) fn instances(&mut self, section: InstanceSectionReader<'_>) -> wasmparser::Result<()> {
        for instance in section {
            if let Instance::Instantiate { .. } = instance? {
                self.made(1);
            }
        }
        Ok(())
    }

    /// An instance of a component: as many as the one makes that makes the most.
    pub(crate) fn component(&mut self) {
        self.made(self.instances);
    }

    fn made(&mut self, instances: usize) {
        if let Some(open) = self.open.last_mut() {
            open.instances = open.instances.saturating_add(instances);
        }
    }

    /// The bytes of all, where there are at most so many.
    pub(crate) fn bytes(&self, most: usize) -> usize {
        let further = self.instances.min(most).saturating_sub(self.modules);
        self.bytes.saturating_add(further.saturating_mul(self.largest))
    }
}
