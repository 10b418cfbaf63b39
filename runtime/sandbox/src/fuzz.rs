//! Promises about bytes that somebody uploads, tried with any bytes. `cargo test` tries random ones for a second; `just fuzz`
//! lets libFuzzer look for what breaks them.

use bolero::check;

use crate::{ComponentSummary, Limits, LoadError};

fn read(bytes: &[u8], limits: &Limits) -> Result<ComponentSummary, LoadError> {
    let read = ComponentSummary::read(bytes, limits, false);
    match &read {
        Ok(summary) => {
            assert_eq!(summary.size, bytes.len());
            assert!(!summary.needs_wasi());
            assert!(summary.functions <= limits.functions && summary.types <= limits.types);
        }
        // It stands in Events and on one line of the log.
        Err(error) => {
            let told = error.to_string();
            assert!(!told.contains(char::is_control), "{told:?}");
            assert!(told.len() < 1024, "{told}");
        }
    }
    read
}

/// Whatever begins like a component is refused on one line, or has what it is said to have.
#[test]
fn component_bytes() {
    let limits = Limits::default();
    check!().with_type::<Vec<u8>>().for_each(|bytes| {
        drop(read(bytes, &limits));
        drop(read(&[b"\0asm\x0d\0\x01\0".as_slice(), bytes].concat(), &limits));
    });
}

/// A component of which some bytes are others, or missing.
#[test]
fn damaged_components() {
    let component = wat::parse_str(
        r#"(component
            (import "ccm:cloud/types@0.2.0" (instance $types (type $name string) (export "name" (type (eq $name)))))
            (component $inner
                (core module $code
                    (memory (export "memory") 1)
                    (func (export "twice") (param i32) (result i32) (i32.add (local.get 0) (local.get 0))))
                (core instance $ran (instantiate $code))
                (func $twice (param "number" u32) (result u32) (canon lift (core func $ran "twice")))
                (export "twice" (func $twice)))
            (instance $made (instantiate $inner))
            (instance $meta (export "describe" (func $made "twice")))
            (export "ccm:cloud/meta@0.2.0" (instance $meta)))"#,
    )
    .unwrap();
    let limits = Limits { functions: 4, types: 16, ..Limits::default() };
    check!().with_type::<(Vec<(u16, u8)>, Option<u16>)>().for_each(|(changes, end)| {
        let mut bytes = component.clone();
        for (place, byte) in changes {
            let place = usize::from(*place) % bytes.len();
            bytes.splice(place..=place, [*byte]);
        }
        bytes.truncate(end.map_or(bytes.len(), usize::from));
        drop(read(&bytes, &limits));
    });
}
