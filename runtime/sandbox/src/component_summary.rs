//! Reads a component without compiling it: its imports, its exports, and the size of its parts.

use ccm_egress::line;
use serde::Serialize;
use wasmparser::{ComponentInstance, Encoding, Parser, Payload};

use crate::error::one_line;
use crate::instance_size::InstanceSize;
use crate::{CONTRACT, Limits, LoadError};

/// Interfaces of the contract that a provider may import.
const IMPORTS: [&str; 9] = ["types", "http", "credentials", "settings", "cache", "clock", "log", "events", "nodes"];
/// Packages that the deny-all WASI has, of any version 0.2.
const WASI: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];
/// Most bytes of a name to keep. No real name is longer.
const MAX_NAME: usize = 256;
/// Interfaces of the contract that a provider must export.
const REQUIRED: [&str; 2] = ["meta", "instances"];
/// Interfaces of the contract that a provider may export.
const EXPORTS: [&str; 7] =
    ["meta", "instances", "load-balancers", "load-balancer-survey", "load-balancer-orphan", "routes", "cluster"];

/// What can be said of a component before it is compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentSummary {
    /// Bytes, unpacked.
    pub size: usize,
    /// Names of the interfaces that it asks for, in its order.
    pub imports: Vec<String>,
    /// Names of the interfaces that it offers, in its order.
    pub exports: Vec<String>,
    /// Functions in all its modules.
    pub functions: usize,
    /// Types in all its modules and components.
    pub types: usize,
    /// Imports, exports, globals, tags and segments in all its modules.
    pub module_items: usize,
    /// What the host keeps for the instances of a call, in bytes.
    #[serde(skip)]
    instance_bytes: usize,
}

impl ComponentSummary {
    /// Reads the summary of a component, and refuses what this host would not compile.
    ///
    /// # Errors
    ///
    /// [`LoadError`], of the kinds that say something about bytes, size and names.
    pub fn read(bytes: &[u8], limits: &Limits, wasi: bool) -> Result<Self, LoadError> {
        if bytes.len() > limits.component_bytes {
            return Err(LoadError::TooLarge { size: bytes.len(), limit: limits.component_bytes });
        }
        match bytes {
            [] => return Err(LoadError::NotWasm("it is empty")),
            [0x7f, b'E', b'L', b'F', ..] if wasmtime::Engine::detect_precompiled(bytes).is_some() => {
                return Err(LoadError::Precompiled);
            }
            [0, b'a', b's', b'm', _, _, 0, _, ..] => return Err(LoadError::CoreModule),
            [0, b'a', b's', b'm', ..] => {}
            [b'(', ..] => return Err(LoadError::NotWasm("it looks like WebAssembly text")),
            _ => return Err(LoadError::NotWasm("it does not begin with the magic bytes of WebAssembly")),
        }
        let (summary, implemented) = Self::parse(bytes, limits)?;
        summary.check_names(&implemented, wasi)?;
        Ok(summary)
    }

    /// The contract that it is made for, package and version; none when it names none.
    #[must_use]
    pub fn contract(&self) -> Option<String> {
        self.imports.iter().chain(&self.exports).find_map(|name| {
            let (interface, version) = name.split_once('@')?;
            let (package, _) = interface.split_once('/')?;
            (package == "ccm:cloud").then(|| format!("{package}@{version}"))
        })
    }

    /// What the host keeps for the instances of a call, in bytes.
    pub(crate) const fn instance_bytes(&self) -> usize {
        self.instance_bytes
    }

    /// Whether it asks for any WASI interface.
    #[must_use]
    pub fn needs_wasi(&self) -> bool {
        self.imports.iter().any(|name| is_wasi(name))
    }

    /// The summary, and the interfaces that the component's own modules have functions of.
    fn parse(bytes: &[u8], limits: &Limits) -> Result<(Self, Vec<String>), LoadError> {
        let malformed = |error: wasmparser::BinaryReaderError| LoadError::Malformed {
            message: one_line(error.message()),
            offset: u64::try_from(error.offset()).unwrap_or(u64::MAX),
        };
        let mut summary = Self { size: bytes.len(), ..Self::default() };
        let mut implemented: Vec<String> = vec![];
        let mut depth = 0_usize;
        let mut unfolded = Unfolded::default();
        let mut size = InstanceSize::default();
        // Of modules: components have sections of their own.
        let items = |summary: &mut Self, size: &mut InstanceSize, count: u32| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            size.items(count);
            summary.module_items = summary.module_items.saturating_add(count);
            let what = "imports, exports, globals, tags and segments";
            at_most(what, summary.module_items, limits.module_items, "module-items")
        };
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(malformed)? {
                Payload::Version { encoding, .. } => {
                    if depth == 0 && encoding == Encoding::Module {
                        return Err(LoadError::CoreModule);
                    }
                    depth = depth.saturating_add(1);
                    size.begin(encoding == Encoding::Module);
                    unfolded.begin(depth, limits)?;
                }
                Payload::End(_) => {
                    depth = depth.saturating_sub(1);
                    size.end();
                    unfolded.end();
                }
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        summary.imports.push(line(import.map_err(malformed)?.name.name, MAX_NAME));
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        summary.exports.push(line(export.map_err(malformed)?.name.name, MAX_NAME));
                    }
                }
                // Only modules have these; one in a component within the component is none of the outer one's.
                Payload::ExportSection(section) => {
                    items(&mut summary, &mut size, section.count())?;
                    for export in section.into_iter().filter(|_| depth == 2) {
                        let name = implements(export.map_err(malformed)?.name);
                        implemented.extend(name.filter(|name| !implemented.contains(name)));
                    }
                }
                Payload::ImportSection(section) => items(&mut summary, &mut size, section.count())?,
                Payload::GlobalSection(section) => items(&mut summary, &mut size, section.count())?,
                Payload::TagSection(section) => items(&mut summary, &mut size, section.count())?,
                Payload::ElementSection(section) => items(&mut summary, &mut size, section.count())?,
                Payload::DataSection(section) => items(&mut summary, &mut size, section.count())?,
                Payload::FunctionSection(section) => {
                    size.functions(usize::try_from(section.count()).unwrap_or(usize::MAX));
                    summary.add_functions(section.count(), limits)?;
                }
                Payload::TypeSection(section) => summary.add_types(section.count(), limits)?,
                Payload::CoreTypeSection(section) => summary.add_types(section.count(), limits)?,
                Payload::ComponentTypeSection(section) => summary.add_types(section.count(), limits)?,
                Payload::InstanceSection(section) => {
                    unfolded.add(section.count(), limits)?;
                    size.instances(section).map_err(malformed)?;
                }
                Payload::ComponentAliasSection(section) => unfolded.add(section.count(), limits)?,
                Payload::ComponentCanonicalSection(section) => unfolded.add(section.count(), limits)?,
                Payload::ComponentInstanceSection(section) => {
                    for instance in section {
                        unfolded.add(1, limits)?;
                        if let ComponentInstance::Instantiate { .. } = instance.map_err(malformed)? {
                            size.component();
                            unfolded.add_component(limits)?;
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    let range = body.range();
                    let size = range.end.saturating_sub(range.start);
                    at_most("bytes in one function", size, limits.function_bytes, "function-bytes")?;
                }
                _ => {}
            }
        }
        summary.instance_bytes = size.bytes(limits.instances);
        Ok((summary, implemented))
    }

    fn add_functions(&mut self, count: u32, limits: &Limits) -> Result<(), LoadError> {
        self.functions = self.functions.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        at_most("functions", self.functions, limits.functions, "functions")
    }

    fn add_types(&mut self, count: u32, limits: &Limits) -> Result<(), LoadError> {
        self.types = self.types.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        at_most("types", self.types, limits.types, "types")
    }

    fn check_names(&self, implemented: &[String], wasi: bool) -> Result<(), LoadError> {
        if let Some(needed) = self.contract()
            && needed != CONTRACT
        {
            return Err(LoadError::ContractVersion { needed });
        }
        let (asked, unknown): (Vec<&String>, Vec<&String>) = self
            .imports
            .iter()
            .filter(|name| !IMPORTS.iter().any(|own| **name == full_name(own)))
            .partition(|name| is_offered_wasi(name));
        if !unknown.is_empty() {
            return Err(LoadError::UnknownImports(unknown.into_iter().cloned().collect()));
        }
        if !asked.is_empty() && !wasi {
            return Err(LoadError::WasiOff(asked.into_iter().cloned().collect()));
        }
        // Between two exports a component that breaks off is a whole one, without those that follow.
        let lost: Vec<String> = implemented.iter().filter(|name| !self.exports.contains(name)).cloned().collect();
        if !lost.is_empty() {
            return Err(LoadError::BrokenOff(lost));
        }
        let missing: Vec<String> =
            REQUIRED.iter().map(|name| full_name(name)).filter(|name| !self.exports.contains(name)).collect();
        if missing.is_empty() { Ok(()) } else { Err(LoadError::MissingExports(missing)) }
    }
}

/// Counts what a component becomes when the components in it are unfolded, as the compiler does: ten components that
/// instantiate each other ten times are ten billion instances in 900 bytes, and compiling one in another in another takes
/// time and memory by the square of the depth. Never counts too little: every instance counts as one of the largest
/// component that was seen before it.
#[derive(Default)]
struct Unfolded {
    /// Parts of components that have begun.
    open: Vec<usize>,
    /// Parts of the largest component that has ended.
    largest: usize,
    /// Sum over all components and modules.
    depths: usize,
}

impl Unfolded {
    fn begin(&mut self, depth: usize, limits: &Limits) -> Result<(), LoadError> {
        self.open.push(0);
        self.depths = self.depths.saturating_add(depth);
        check_parts(self.depths, limits)
    }

    fn end(&mut self) {
        self.largest = self.largest.max(self.open.pop().unwrap_or(0));
    }

    fn add(&mut self, count: u32, limits: &Limits) -> Result<(), LoadError> {
        self.add_parts(usize::try_from(count).unwrap_or(usize::MAX), limits)
    }

    fn add_component(&mut self, limits: &Limits) -> Result<(), LoadError> {
        self.add_parts(self.largest, limits)
    }

    fn add_parts(&mut self, count: usize, limits: &Limits) -> Result<(), LoadError> {
        let Some(parts) = self.open.last_mut() else { return Ok(()) };
        *parts = parts.saturating_add(count);
        check_parts(*parts, limits)
    }
}

fn check_parts(parts: usize, limits: &Limits) -> Result<(), LoadError> {
    at_most("parts when all components in it are unfolded", parts, limits.functions, "functions")
}

/// The interface of the contract that a function of a module is part of, by the name that every linker of components asks
/// for: `ccm:cloud/meta@0.2.0#describe`.
fn implements(function: &str) -> Option<String> {
    let (interface, _) = function.split_once('#')?;
    EXPORTS.iter().map(|name| full_name(name)).find(|name| name == interface)
}

/// An interface of the contract, as components name it.
pub(crate) fn full_name(interface: &str) -> String {
    CONTRACT.replacen('@', &format!("/{interface}@"), 1)
}

fn is_wasi(name: &str) -> bool {
    name.starts_with("wasi:")
}

/// Whether the deny-all WASI has it, should it be on.
fn is_offered_wasi(name: &str) -> bool {
    name.strip_prefix("wasi:").and_then(|name| name.split_once('/')).is_some_and(|(package, interface)| {
        WASI.contains(&package) && interface.split_once('@').is_some_and(|(_, version)| version.starts_with("0.2."))
    })
}

fn at_most(what: &'static str, count: usize, limit: usize, setting: &'static str) -> Result<(), LoadError> {
    if count > limit { Err(LoadError::TooComplex { what, limit, setting }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interfaces_that_are_known_are_those_of_the_contract() {
        let world = include_str!("../../../wit/v0.2/world.wit");
        let named = |kind: &str| {
            let lines = world.lines().filter_map(|line| line.trim().strip_prefix(kind)?.strip_suffix(';'));
            lines.map(str::trim).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut exports = named("export ");
        // Smaller worlds come before the largest, which has all.
        let largest = exports.split_off(exports.len() - EXPORTS.len() + REQUIRED.len());
        assert!(exports.iter().all(|name| EXPORTS.contains(&name.as_str())), "{exports:?}");
        let required = exports.into_iter().take(REQUIRED.len());
        assert_eq!(EXPORTS.to_vec(), required.chain(largest).collect::<Vec<_>>());
        let types = std::iter::once("types".to_owned());
        assert_eq!(IMPORTS.to_vec(), types.chain(named("import ")).collect::<Vec<_>>());
    }
}
