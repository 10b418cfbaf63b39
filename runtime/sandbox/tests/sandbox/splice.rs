//! Real components with more in them: sections can be appended to a component, and what was there stays valid. So a
//! component can keep to the contract and still break a limit, before any of its own code runs.

use wasmparser::{Validator, WasmFeatures};

/// Where the next thing of each kind is counted.
struct Counts {
    types: u32,
    core_functions: u32,
    core_modules: u32,
    core_instances: u32,
}

/// A component that grows.
pub(crate) struct Splice {
    bytes: Vec<u8>,
    counts: Counts,
}

impl Splice {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let validated = Validator::new_with_features(WasmFeatures::all()).validate_all(&bytes).unwrap();
        let types = validated.as_ref();
        let counts = Counts {
            types: types.component_type_count(),
            core_functions: types.function_count(),
            core_modules: types.module_count(),
            core_instances: types.core_instance_count(),
        };
        Self { bytes, counts }
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a core module and instantiates it so many times, without imports.
    pub(crate) fn instances(self, text: &str, times: usize) -> Self {
        let mut spliced = self.module(text);
        let instance = [vec![0x00], leb(spliced.counts.core_modules - 1), leb(0)].concat();
        spliced.section(2, &[leb(times), instance.repeat(times)].concat());
        spliced
    }

    /// Appends a resource type of its own and a module that imports `resource.new` of it as function `new` of module `r`.
    pub(crate) fn with_resource(mut self, text: &str) -> Self {
        self.section(7, &[0x01, 0x3f, 0x7f, 0x00]);
        self.section(8, &[vec![0x01, 0x02], leb(self.counts.types)].concat());
        self.instantiated_with_function("new", text)
    }

    /// Appends a module that imports a function without parameters of the component's import `interface`, as function of the
    /// same name of module `r`.
    pub(crate) fn with_import(mut self, interface: &str, function: &str, text: &str) -> Self {
        let instance = imported_instance(&self.bytes, interface);
        let component_functions = {
            let validated = Validator::new_with_features(WasmFeatures::all()).validate_all(&self.bytes).unwrap();
            validated.as_ref().component_function_count()
        };
        self.section(6, &[vec![0x01, 0x01, 0x00], leb(instance), name(function)].concat());
        self.section(8, &[vec![0x01, 0x01, 0x00], leb(component_functions), leb(0)].concat());
        self.instantiated_with_function(function, text)
    }

    /// The core function that the last section made becomes import `r` of the module.
    fn instantiated_with_function(self, function: &str, text: &str) -> Self {
        let imported = self.counts.core_functions;
        let arguments = self.counts.core_instances;
        let mut spliced = self.module(text);
        let exports = [vec![0x01], leb(1), name(function), vec![0x00], leb(imported)].concat();
        let instance =
            [vec![0x00], leb(spliced.counts.core_modules - 1), leb(1), name("r"), vec![0x12], leb(arguments)];
        spliced.section(2, &[leb(2), exports, instance.concat()].concat());
        spliced
    }

    fn module(mut self, text: &str) -> Self {
        let module = wat::parse_str(text).unwrap();
        self.section(1, &module);
        self.counts.core_modules += 1;
        self
    }

    fn section(&mut self, id: u8, content: &[u8]) {
        self.bytes.push(id);
        self.bytes.extend(leb(content.len()));
        self.bytes.extend(content);
    }
}

fn imported_instance(bytes: &[u8], interface: &str) -> usize {
    let mut names = vec![];
    for payload in wasmparser::Parser::new(0).parse_all(bytes) {
        if let wasmparser::Payload::ComponentImportSection(section) = payload.unwrap() {
            names.extend(section.into_iter().map(|import| import.unwrap().name.name.to_owned()));
        }
    }
    names.iter().position(|name| name.starts_with(interface)).unwrap()
}

fn name(text: &str) -> Vec<u8> {
    [leb(text.len()), text.as_bytes().to_vec()].concat()
}

/// A number in the encoding of WebAssembly.
pub(crate) fn leb(number: impl TryInto<usize>) -> Vec<u8> {
    let Ok(mut rest) = number.try_into() else { panic!("not a number of WebAssembly") };
    let mut bytes = vec![];
    loop {
        let low = u8::try_from(rest & 0x7f).unwrap();
        rest >>= 7;
        if rest == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Replaces every occurrence of a text, by one of the same length: names then fit among themselves, and to nothing else.
pub(crate) fn renamed(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|(_, part)| *part == from.as_bytes()).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "{from} is not in it");
    for at in places {
        bytes.get_mut(at..at + to.len()).unwrap().copy_from_slice(to.as_bytes());
    }
    bytes
}
