//! Makes the binary smaller. It packs the addresses that the loader has to put in (DT_RELR, 1.4 MB), which needs glibc 2.36 to run.
//! Where the toolchain brings `lld`, that keeps one copy of functions that are the same (0.6 MB): no code here compares functions
//! by their address.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    // All addresses are put in at the start and read-only from then on (full RELRO), as rustc asks for by itself without the settings
    // in .cargo/config.toml.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,relro,-z,now");
    // The target for which rustc links with its own lld; another linker may not know the argument.
    if is("TARGET", "x86_64-unknown-linux-gnu") && is("PROFILE", "release") && has_lld() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

fn has_lld() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Ok(asked) = Command::new(rustc).args(["--print", "target-libdir"]).output() else { return false };
    let libraries = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
    Path::new(&libraries).with_file_name("bin").join("gcc-ld").join("ld.lld").exists()
}
