//! Errors of requests to the API server in words, for the log, pages and Events.

/// An error and its causes in one line. Many an error repeats its cause: each is told once.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        cause = error.source();
    }
    told
}

/// What an error of the API server says: its own words and the status, else every cause once.
#[must_use]
pub fn api_error_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({} {})", status.message, status.code, status.reason),
        other => causes(other),
    }
}
