//! What is not taken as a provider, and why.

use ccm_cloud::is_plain;
use ccm_sandbox::{CONTRACT, CallError, Component, ComponentSummary, Limits, LoadError, Sandbox};
use wasmtime::Engine;

use crate::rig::{CLOUDLYCKE, HOSTILE, HOSTILE_WASI, component};
use crate::splice::{Splice, renamed};

/// Short brakes: damaged code may spin.
fn limits() -> Limits {
    Limits { call_cpu: std::time::Duration::from_millis(50), ..Limits::default() }
}

async fn load(bytes: Vec<u8>, limits: Limits, wasi: bool) -> Result<Component, LoadError> {
    Sandbox::try_new().unwrap().load(bytes, limits, wasi).await
}

async fn refusal(bytes: Vec<u8>, limits: Limits, wasi: bool) -> LoadError {
    load(bytes, limits, wasi).await.err().unwrap()
}

async fn message(text: &str) -> String {
    refusal(wat::parse_str(text).unwrap(), Limits::default(), true).await.to_string()
}

#[tokio::test]
async fn what_is_no_component_is_refused_with_the_way_out() {
    let not_wasm = "build the provider for wasm32-unknown-unknown and give its .wasm file";
    let cases: [(&[u8], String); 6] = [
        (b"", format!("it is not a WebAssembly component: it is empty; {not_wasm}")),
        (b"(component)", format!("it is not a WebAssembly component: it looks like WebAssembly text; {not_wasm}")),
        (
            b"\x1f\x8b\x08\x00",
            format!("it is not a WebAssembly component: it does not begin with the magic bytes of WebAssembly; {not_wasm}"),
        ),
        (
            b"\x7fELF\x02\x01\x01\x00",
            format!("it is not a WebAssembly component: it does not begin with the magic bytes of WebAssembly; {not_wasm}"),
        ),
        (
            b"\0asm\x01\0\0\0",
            "it is a core WebAssembly module, not a component; build it with the linker wasm-component-ld, or wrap it with \
             `wasm-tools component new`"
                .to_owned(),
        ),
        (b"\0asm", "it is damaged: unexpected end-of-file at byte 4; build or upload it again".to_owned()),
    ];
    for (bytes, expected) in cases {
        assert_eq!(refusal(bytes.to_vec(), Limits::default(), true).await.to_string(), expected, "{bytes:?}");
    }
}

#[tokio::test]
async fn machine_code_from_elsewhere_is_never_run() {
    let engine = Engine::default();
    let component = wat::parse_str("(component)").unwrap();
    let module = wat::parse_str("(module)").unwrap();
    for code in [engine.precompile_component(&component).unwrap(), engine.precompile_module(&module).unwrap()] {
        assert!(matches!(refusal(code, Limits::default(), true).await, LoadError::Precompiled));
    }
}

#[tokio::test]
async fn a_component_that_breaks_off_is_refused_wherever_it_does() {
    let is_said = |error: &LoadError| {
        matches!(
            error,
            LoadError::NotWasm(_)
                | LoadError::Malformed { .. }
                | LoadError::BrokenOff(_)
                | LoadError::MissingExports(_)
        )
    };
    for name in [CLOUDLYCKE, HOSTILE] {
        let whole = component(name);
        let sandbox = Sandbox::try_new().unwrap();
        for length in (0..whole.len()).step_by(97).chain(ends_of_sections(&whole)) {
            match sandbox.load(whole[..length].to_vec(), limits(), true).await {
                Err(error) => assert!(is_said(&error), "{name} of {length} bytes: {error}"),
                Ok(rest) => assert!(is_whole(&rest, &whole), "{name} of {length} bytes"),
            }
        }
    }
}

/// Where the outermost sections end, but for the last one.
fn ends_of_sections(component: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (vec![], 8);
    while at < component.len() {
        ends.push(at);
        at += 1;
        let mut length = 0;
        for shift in (0..).step_by(7) {
            let byte = usize::from(component[at]);
            (length, at) = (length | (byte & 127) << shift, at + 1);
            if byte < 128 {
                break;
            }
        }
        at += length;
    }
    ends
}

/// What stands behind the last export says who made it, and nobody needs that.
fn is_whole(rest: &Component, whole: &[u8]) -> bool {
    rest.summary().exports == ComponentSummary::read(whole, &Limits::default(), true).unwrap().exports
}

/// A wrapper may keep to itself what the component in it offers.
#[tokio::test]
async fn what_the_modules_of_a_component_have_code_of_it_exports() {
    let module = r#"(core module (func (export "ccm:cloud/load-balancer-survey@0.2.0#survey"))
        (func (export "ccm:cloud/meta@0.2.0#describe")) (func (export "ccm:cloud/meta@0.2.0#offers"))
        (func (export "cabi_post_ccm:cloud/cluster@0.2.0#reconcile")) (func (export "acme:thing/api@1.0.0#run")))"#;
    let meta = r#"(instance $i) (export "ccm:cloud/meta@0.2.0" (instance $i))"#;
    assert_eq!(
        message(&format!("(component {module} {meta})")).await,
        "it is damaged: it has the code of ccm:cloud/load-balancer-survey@0.2.0, and does not export it; build or upload it \
         again"
    );
    let error = refusal(wat::parse_str(format!("(component (component {module}) {meta})")).unwrap(), limits(), true);
    assert!(matches!(error.await, LoadError::MissingExports(_)));
}

#[tokio::test]
async fn a_component_with_a_wrong_bit_never_panics() {
    let whole = component(HOSTILE);
    let sandbox = Sandbox::try_new().unwrap();
    // The first ones are densest: names, types and sections' heads stand there.
    let places = (0..96_usize).map(|i| (i * 61 + i * i * i / 16, i % 8)).take_while(|(byte, _)| *byte < whole.len());
    let mut refused = 0;
    for (byte, bit) in places {
        let mut damaged = whole.clone();
        damaged[byte] ^= 1 << bit;
        if let Err(error) = sandbox.load(damaged, limits(), true).await {
            refused += 1;
            // What a panic of the compiler becomes.
            assert!(!error.to_string().contains("panic"), "bit {bit} of byte {byte}: {error}");
        }
    }
    assert!(refused > 10, "only {refused} were refused: the damage does not reach what is checked");
    assert!(sandbox.load(whole, limits(), true).await.is_ok(), "the sandbox serves on");
}

#[tokio::test]
async fn another_version_of_the_contract_is_refused_and_both_are_named() {
    assert_eq!(CONTRACT, "ccm:cloud@0.2.0");
    for version in ["0.1.0", "0.3.0"] {
        let other = renamed(&component(CLOUDLYCKE), "@0.2.0", &format!("@{version}"));
        assert_eq!(
            refusal(other, Limits::default(), true).await.to_string(),
            format!(
                "it is made for ccm:cloud@{version}, this host speaks ccm:cloud@0.2.0; rebuild the provider, or use a host that \
                 speaks ccm:cloud@{version}"
            )
        );
    }
}

#[tokio::test]
async fn required_exports_that_are_missing_are_all_named() {
    assert_eq!(
        message("(component)").await,
        "it does not offer ccm:cloud/meta@0.2.0, ccm:cloud/instances@0.2.0, which every provider of ccm:cloud@0.2.0 must \
         export"
    );
    let half = r#"(component (instance $i) (export "ccm:cloud/meta@0.2.0" (instance $i)))"#;
    assert_eq!(
        message(half).await,
        "it does not offer ccm:cloud/instances@0.2.0, which every provider of ccm:cloud@0.2.0 must export"
    );
}

#[tokio::test]
async fn imports_that_nobody_offers_are_all_named() {
    let text = r#"(component
        (import "acme:thing/api@1.0.0" (instance))
        (import "shell" (func))
        (import "ccm:cloud/secrets@0.2.0" (instance))
        (import "ccm:cloud/meta@0.2.0" (instance))
        (import "wasi:http/outgoing-handler@0.2.0" (instance))
        (import "wasi:cli/environment@0.3.0" (instance))
        (import "wasi:cli/environment@0.2.0" (instance)))"#;
    assert_eq!(
        message(text).await,
        "it asks for acme:thing/api@1.0.0, shell, ccm:cloud/secrets@0.2.0, ccm:cloud/meta@0.2.0, \
         wasi:http/outgoing-handler@0.2.0, wasi:cli/environment@0.3.0, which this host does not offer; a provider may import \
         only interfaces of ccm:cloud@0.2.0 and WASI 0.2"
    );
}

#[tokio::test]
async fn right_names_with_wrong_types_inside_are_refused_at_load_and_not_at_the_first_call() {
    let hostile = component(HOSTILE);
    // A field of an import's parameter, one of the answer of `meta.describe`, and a case of a parameter of `instances.find`.
    for (from, to) in [("maybe-sent", "maybe-gone"), ("path-keys", "path-keyz"), ("existence", "existenxe")] {
        let error = refusal(renamed(&hostile, from, to), Limits::default(), true).await;
        assert!(matches!(error, LoadError::Types(_)), "{from}: {error}");
        assert!(error.to_string().contains("rebuild it against the contract of this host"), "{error}");
    }
    let empty = r#"(component (instance $i)
        (export "ccm:cloud/meta@0.2.0" (instance $i))
        (export "ccm:cloud/instances@0.2.0" (instance $i)))"#;
    let error = message(empty).await;
    assert!(error.starts_with("its types differ from those of ccm:cloud@0.2.0: "), "{error}");
}

/// A name of a hundred kilobytes stood in the refusal as it is: it moved the terminal, and made lines of `/providerz`.
#[tokio::test]
async fn what_a_component_calls_its_parts_is_told_in_one_short_line() {
    let exports = r#"(instance $i) (export "ccm:cloud/meta@0.2.0" (instance $i)) (export "ccm:cloud/instances@0.2.0" (instance $i))"#;
    let forged = format!(r"\1b[2J\0d\0a  phase       proven\0a\u{{202e}}{}", "x".repeat(50_000));
    let long = "a".repeat(50_000);
    let cases = [
        // The compiler repeats names of modules, which may be any text.
        (
            format!(r#"(core module $m (import "{forged}" "f" (func))) (core instance (instantiate $m))"#),
            "it does not compile: ",
            r"`\u{1b}[2J phase proven \u{202e}xxx",
            "…; build it again with a tool chain that knows wasmtime 48",
        ),
        // The linker repeats names of functions, which have letters alone.
        (
            format!(r#"(import "ccm:cloud/clock@0.2.0" (instance (export "{long}" (func))))"#),
            "its types differ from those of ccm:cloud@0.2.0: ",
            "`aaa",
            "…; rebuild it against the contract of this host",
        ),
    ];
    for (parts, begin, name, end) in cases {
        let error = message(&format!("(component {parts} {exports})")).await;
        assert!(error.starts_with(begin) && error.contains(name) && error.ends_with(end), "{error}");
        assert!(error.len() < 1024 && error.chars().all(is_plain), "{} bytes: {error:?}", error.len());
    }
}

#[tokio::test]
async fn wasi_imports_are_refused_where_wasi_is_off() {
    let error = refusal(component(HOSTILE_WASI), Limits::default(), false).await;
    let LoadError::WasiOff(asked) = &error else { panic!("{error}") };
    assert!(!asked.is_empty() && asked.iter().all(|name| name.starts_with("wasi:")), "{asked:?}");
    assert!(error.to_string().ends_with("run the host with --wasi=deny-all"), "{error}");
    assert!(load(component(HOSTILE), Limits::default(), false).await.is_ok(), "one without WASI is taken");
}

#[tokio::test]
async fn a_component_over_its_size_is_refused_unread() {
    let bytes = component(HOSTILE);
    let size = bytes.len();
    let at = |component_bytes| Limits { component_bytes, ..Limits::default() };
    assert_eq!(
        refusal(bytes.clone(), at(size - 1), true).await.to_string(),
        format!("it has {size} bytes, the limit is {}; raise the limit component-bytes if that is right", size - 1)
    );
    assert!(load(bytes, at(size), true).await.is_ok());
}

#[tokio::test]
async fn more_functions_types_or_larger_bodies_than_allowed_are_refused_uncompiled() {
    let function = format!("(func {})", "nop ".repeat(500));
    let six = format!("(core module (type (func)) (type (func (param i32))) {})", "(func)".repeat(6));
    // What stands in a component within the component counts as well.
    let text = format!("(component {six} (component {six} (type u8)) (core module {function}))");
    let bytes = wat::parse_str(text).unwrap();
    let cases = [
        (Limits { functions: 12, ..Limits::default() }, "it has more than 12 functions; raise the limit functions"),
        (Limits { types: 5, ..Limits::default() }, "it has more than 5 types; raise the limit types"),
        (
            Limits { function_bytes: 501, ..Limits::default() },
            "it has more than 501 bytes in one function; raise the limit function-bytes",
        ),
    ];
    for (limits, expected) in cases {
        let error = refusal(bytes.clone(), limits, true).await.to_string();
        assert_eq!(error, format!("{expected} if that is right"));
    }
    let enough = Limits { functions: 13, types: 6, function_bytes: 502, ..Limits::default() };
    assert!(matches!(refusal(bytes, enough, true).await, LoadError::MissingExports(_)));
}

#[tokio::test]
async fn components_that_unfold_beyond_all_measure_are_refused_uncompiled() {
    // Each instantiates the one before ten times: 10^12 instances in a kilobyte.
    let step = |level: usize| {
        let instances = "(instance (instantiate $before))".repeat(10);
        format!("(component $c{level} (alias outer 1 $c{} (component $before)) {instances})", level - 1)
    };
    let many: String = (1..=12).map(step).collect();
    let many = wat::parse_str(format!("(component (component $c0) {many})")).unwrap();
    // One in another, 100,000 deep: each needs a head, a section and the length of what is in it.
    let head = b"\0asm\x0d\0\x01\0";
    let deep = (0..100_000)
        .fold(head.to_vec(), |inner, _| [&head[..], &[4], &crate::splice::leb(inner.len()), &inner].concat());
    for (what, bytes) in [("many", many), ("deep", deep)] {
        let error = refusal(bytes, Limits::default(), true).await;
        assert!(matches!(error, LoadError::TooComplex { setting: "functions", .. }), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_summary_counts_what_is_in_a_component() {
    let bytes = component(HOSTILE);
    let summary = ComponentSummary::read(&bytes, &Limits::default(), false).unwrap();
    assert_eq!(summary.size, bytes.len());
    let mut exports = summary.exports.clone();
    exports.sort(); // in the order of the linker, which nothing depends on
    let interfaces = ["cluster", "instances", "load-balancer-survey", "load-balancers", "meta"];
    assert_eq!(exports, interfaces.map(|interface| format!("ccm:cloud/{interface}@0.2.0")));
    assert_eq!((summary.contract().as_deref(), summary.needs_wasi()), (Some(CONTRACT), false));
    assert!(summary.functions > 10 && summary.types > 10, "{summary:?}");
    let exact = Limits { functions: summary.functions, types: summary.types, ..Limits::default() };
    assert_eq!(ComponentSummary::read(&bytes, &exact, false).unwrap(), summary);
}

#[tokio::test]
async fn a_description_that_cannot_be_is_refused() {
    let bad_name = refusal(renamed(&component(HOSTILE), "hostile", "Hostile"), Limits::default(), true).await;
    assert_eq!(
        bad_name.to_string(),
        "its description is wrong: its name \"Hostile\" is not a DNS label (a-z, 0-9, -; at most 63)"
    );
}

#[tokio::test]
async fn code_that_fails_while_it_is_described_is_refused_and_the_next_is_taken() {
    let sandbox = Sandbox::try_new().unwrap();
    let hostile = || Splice::new(component(HOSTILE));
    let trap = hostile().instances("(module (func $f unreachable) (start $f))", 1).done();
    let error = sandbox.load(trap, limits(), true).await.err().unwrap();
    assert!(
        matches!(error, LoadError::Describe(CallError::Trap(Some(wasmtime::Trap::UnreachableCodeReached), _))),
        "{error}"
    );
    let spin = hostile().instances("(module (func $f (loop (br 0))) (start $f))", 1).done();
    let error = sandbox.load(spin, limits(), true).await.err().unwrap();
    assert!(matches!(error, LoadError::Describe(CallError::OutOfCpu(_))), "{error}");
    assert!(sandbox.load(component(HOSTILE), limits(), true).await.is_ok());
}
