//! Components that are good and components that are not, and the places they come from.

use std::io::Write as _;
use std::path::Path;

use ccm_e2e::host::{SERVICE_ACCOUNT, component};
use ccm_e2e::manifest::put_config_map;
use flate2::Compression;
use flate2::write::GzEncoder;
use kube::Client;

use crate::stage;

pub(crate) fn cloudlycke() -> Vec<u8> {
    std::fs::read(stage::cloudlycke()).unwrap()
}

pub(crate) fn hostile() -> Vec<u8> {
    std::fs::read(component("guests/hostile.wasm").unwrap()).unwrap()
}

pub(crate) fn hostile_wasi() -> Vec<u8> {
    std::fs::read(component("guests/hostile-wasi.wasm").unwrap()).unwrap()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn half(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len() / 2].to_vec()
}

/// A component that is fine but for 50 KB that mean nothing.
fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    // A custom section: its size (50,002, as LEB128), then a name of one byte.
    bytes.extend([0, 0xd2, 0x86, 0x03, 1, b'x']);
    bytes.extend([0; 50_000]);
    bytes
}

/// Where a provider comes from.
#[derive(Clone)]
pub(crate) enum Place {
    File(Vec<u8>),
    Folder(Vec<(&'static str, Vec<u8>)>),
    /// A ConfigMap, by its name alone.
    Map(Vec<(&'static str, Vec<u8>)>),
    /// A key in a ConfigMap.
    Key(&'static str, Vec<(&'static str, Vec<u8>)>),
    /// A file or ConfigMap that is not there.
    NoFile,
    NoMap,
}

impl Place {
    /// Makes it, instead of what was there before, and returns what `--provider` is told.
    pub(crate) async fn put(&self, folder: &Path, client: Option<&Client>, name: &str) -> String {
        let path = folder.join(name);
        let namespace = SERVICE_ACCOUNT.0;
        let map = format!("configmap:{namespace}/{name}");
        match self {
            Self::File(bytes) => {
                std::fs::create_dir_all(folder).unwrap();
                // At once, as whoever looks meanwhile must not see half of it.
                let new = folder.join(format!("{name}.new"));
                std::fs::write(&new, bytes).unwrap();
                std::fs::rename(new, &path).unwrap();
                path.display().to_string()
            }
            Self::NoFile => path.display().to_string(),
            Self::Folder(files) => {
                std::fs::remove_dir_all(&path).ok();
                std::fs::create_dir_all(&path).unwrap();
                for (file, bytes) in files {
                    std::fs::write(path.join(file), bytes).unwrap();
                }
                path.display().to_string()
            }
            Self::Map(keys) | Self::Key(_, keys) => {
                let keys = keys.iter().map(|(key, bytes)| ((*key).to_owned(), bytes.clone()));
                put_config_map(client.unwrap(), namespace, name, keys).await.unwrap();
                if let Self::Key(key, _) = self { format!("{map}/{key}") } else { map }
            }
            Self::NoMap => map,
        }
    }
}

/// A provider that is refused.
pub(crate) struct Bad {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    /// More flags.
    pub(crate) flags: Vec<String>,
    /// What is said of it: what is wrong, and the way out.
    pub(crate) says: Vec<&'static str>,
    /// The same place put right.
    pub(crate) repair: Place,
}

fn bad(name: &'static str, place: Place, says: &[&'static str], repair: Place) -> Bad {
    Bad { name, place, flags: vec![], says: says.to_vec(), repair }
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// Bytes, files and folders that are no provider: `run` and `inspect` say the same of them.
pub(crate) fn bad_files() -> Vec<Bad> {
    let good = || Place::File(cloudlycke());
    let component = |parts: &str| Place::File(wat(&format!("(component (instance $i) {parts})")));
    let meta = "(export \"ccm:cloud/meta@0.2.0\" (instance $i))";
    let instances = "(export \"ccm:cloud/instances@0.2.0\" (instance $i))";
    // Of the contract before this one.
    let version = "(export \"ccm:cloud/meta@0.1.0\" (instance $i))";
    let import = format!("(import \"evil:door/open@1.0.0\" (instance)) {meta} {instances}");
    let files = |names: &[&'static str]| Place::Folder(names.iter().map(|name| (*name, cloudlycke())).collect());
    let with = |mut bad: Bad, flag: &str| {
        bad.flags.push(flag.to_owned());
        bad
    };
    vec![
        bad(
            "text",
            Place::File(b"#!/bin/sh\n".to_vec()),
            &["not a WebAssembly component", "build the provider for wasm32"],
            good(),
        ),
        bad("empty", Place::File(vec![]), &["it is empty", "build the provider for wasm32"], good()),
        bad("wat", Place::File(b"(component)".to_vec()), &["WebAssembly text", "give its .wasm file"], good()),
        bad("module", Place::File(wat("(module)")), &["core WebAssembly module", "wasm-tools component new"], good()),
        bad("damaged", Place::File(half(&cloudlycke())), &["it is damaged", "at byte"], good()),
        bad(
            "version",
            component(version),
            &["made for ccm:cloud@0.1.0", "speaks ccm:cloud@0.2.0", "rebuild the provider"],
            good(),
        ),
        bad("export", component(meta), &["does not offer ccm:cloud/instances@0.2.0", "must export"], good()),
        bad("import", component(&import), &["asks for evil:door/open@1.0.0", "may import only"], good()),
        bad("types", component(&format!("{meta} {instances}")), &["types differ", "rebuild it"], good()),
        bad(
            "gzip",
            Place::File(half(&gzip(&cloudlycke()))),
            &["gzip stream is broken", "pack and upload it again"],
            good(),
        ),
        bad(
            "zstd",
            Place::File(half(&zstd(&cloudlycke()))),
            &["zstd stream is broken", "pack and upload it again"],
            good(),
        ),
        bad(
            "bomb",
            Place::File(gzip(&vec![0; 20 << 20])),
            &["unpacked it has more than 16777216 bytes", "component-bytes"],
            good(),
        ),
        with(
            bad("packed", good(), &["raise the limit source-bytes"], Place::File(gzip(&cloudlycke()))),
            &format!("--limit=source-bytes={}", cloudlycke().len() - 1),
        ),
        with(
            bad("padded", Place::File(padded(cloudlycke())), &["raise the limit component-bytes"], good()),
            &format!("--limit=component-bytes={}", cloudlycke().len()),
        ),
        with(bad("wasi", Place::File(hostile_wasi()), &["asks for WASI", "--wasi=deny-all"], good()), "--wasi=off"),
        bad(
            "two",
            files(&["a.wasm", "b.wasm.gz"]),
            &["2 components (a.wasm, b.wasm.gz)", "leave one"],
            files(&["a.wasm"]),
        ),
        bad(
            "none",
            Place::Folder(vec![("README.md", vec![])]),
            &["holds README.md", "must end in .wasm"],
            files(&["p.wasm"]),
        ),
        bad("nothing", Place::Folder(vec![]), &["it is empty", "must end in .wasm"], files(&["p.wasm"])),
        bad("absent", Place::NoFile, &["cannot read", "No such file"], good()),
    ]
}

/// What only `run` can meet: ConfigMaps, and what the operator says of the provider.
pub(crate) fn bad_in_cluster() -> Vec<Bad> {
    let map = |keys: &[&'static str]| Place::Map(keys.iter().map(|key| (*key, gzip(&cloudlycke()))).collect());
    let key =
        |keys: &[&'static str]| Place::Key("b.wasm.gz", keys.iter().map(|key| (*key, gzip(&cloudlycke()))).collect());
    vec![
        bad("no-map", Place::NoMap, &["does not exist", "kubectl create configmap no-map"], map(&["a.wasm.gz"])),
        bad("no-key", key(&["a.wasm.gz"]), &["no key \"b.wasm.gz\"", "it holds a.wasm.gz"], key(&["b.wasm.gz"])),
        bad(
            "two-keys",
            map(&["a.wasm.gz", "b.wasm"]),
            &["2 components (a.wasm.gz, b.wasm)", "name the one"],
            map(&["b.wasm"]),
        ),
        bad("empty-map", map(&[]), &["holds no component", "must end in .wasm"], map(&["a.wasm"])),
        bad(
            "broken-map",
            Place::Map(vec![("a.wasm.gz", half(&gzip(&cloudlycke())))]),
            &["gzip stream is broken", "upload it again"],
            map(&["a.wasm.gz"]),
        ),
        Bad {
            flags: vec!["--cloud-provider=cloudlycke".to_owned()],
            ..bad(
                "other-name",
                Place::File(hostile()),
                &["calls itself \"hostile\"", "asks for \"cloudlycke\"", "change one of the two"],
                Place::File(cloudlycke()),
            )
        },
    ]
}
