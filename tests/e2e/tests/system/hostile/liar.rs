//! A component that keeps to the types of the contract, and whose code lies about its memory.

use ccm_e2e::host::component;

/// Section of a component that holds a core module.
const CORE_MODULE: u8 = 1;

/// The hostile guest, with the code of `liar.wat` in the place of its own.
pub(super) fn liar() -> Vec<u8> {
    let bytes = std::fs::read(component("guests/hostile.wasm").unwrap()).unwrap();
    let code = wat::parse_str(include_str!("liar.wat")).unwrap();
    let (start, end) = first_module(&bytes);
    [&bytes[..start], &[CORE_MODULE], &leb(code.len()), &code, &bytes[end..]].concat()
}

/// Where the section with the component's own code begins and ends: the first one. What follows joins it to the host.
fn first_module(bytes: &[u8]) -> (usize, usize) {
    // After the magic number and the version.
    let mut start = 8;
    loop {
        let (size, content) = number(bytes, start + 1);
        let end = content + size;
        if bytes[start] == CORE_MODULE {
            return (start, end);
        }
        start = end;
    }
}

/// A number in the encoding of WebAssembly, and where it ends.
fn number(bytes: &[u8], mut at: usize) -> (usize, usize) {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[at];
        value |= usize::from(byte & 0x7f) << shift;
        (at, shift) = (at + 1, shift + 7);
        if byte < 0x80 {
            return (value, at);
        }
    }
}

fn leb(mut rest: usize) -> Vec<u8> {
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
