//! What a host lets a component see that was built with WASI. In a build without it there is nothing to ask.

use ccm_sdk::types::{Attributes, Failure};

/// What WASI answers.
///
/// # Errors
///
/// `unsupported` in a build without WASI.
#[cfg(not(target_os = "wasi"))]
pub(crate) fn ask(behaviour: &str) -> Result<Attributes, Failure> {
    Err(Failure::unsupported(format!("{behaviour} needs a build for wasm32-wasip2")))
}

/// What WASI answers.
///
/// # Errors
///
/// `unsupported` when there is no such question.
#[cfg(target_os = "wasi")]
pub(crate) fn ask(behaviour: &str) -> Result<Attributes, Failure> {
    let (name, value) = match behaviour {
        "wasi-env" => ("environment", std::env::vars().count().to_string()),
        "wasi-fs" => {
            let root = std::fs::read_dir("/").map(|entries| format!("{} entries", entries.count()));
            ("root", root.unwrap_or_else(|error| error.to_string()))
        }
        "wasi-net" => {
            let stream = std::net::TcpStream::connect("127.0.0.1:80").map(|_stream| "connected".to_owned());
            ("network", stream.unwrap_or_else(|error| error.to_string()))
        }
        "wasi-stdout" => {
            use std::io::Write;
            let line = writeln!(std::io::stdout(), "hostile on standard output");
            ("stdout", line.map_or_else(|error| error.to_string(), |()| "written".to_owned()))
        }
        "wasi-sleep" => ("slept", sleep().to_string()),
        _ => return Err(Failure::unsupported(format!("{behaviour} is no question to WASI"))),
    };
    Ok(vec![crate::label(name, value)])
}

/// Computes longer than a tick of the host, so that it has a turn, says that it goes to sleep, and sleeps for six seconds: on a
/// busy machine others need some of them. Whether it did.
#[cfg(target_os = "wasi")]
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a guest has no tokio, and blocks nobody else")]
fn sleep() -> bool {
    use ccm_sdk::events::{self, Severity};
    use ccm_sdk::types::Subject;
    use std::time::{Duration, Instant};
    const NAP: Duration = Duration::from_secs(6);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(100) {
        std::hint::black_box(());
    }
    events::emit(&Subject::Call, Severity::Normal, "Asleep", "for six seconds");
    std::thread::sleep(NAP);
    begun.elapsed() >= NAP
}
