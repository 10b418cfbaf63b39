//! A cloud that sends back all that it gets, in every way that a program may.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, Engine};
use futures::FutureExt as _;
use hyper::Response;
use hyper::http::response::Builder;

use super::forms::{ascii, ascii_of, hex, json, percent};
use crate::server::{Answered, Asked, HangUp, Server, broken_off, full};

/// How it answers; asked for with the header `x-mode`.
pub(crate) const MODES: [&str; 12] =
    ["text", "json", "percent", "hex", "base64", "base64-whole", "headers", "names", "page", "title", "broken", "ids"];
/// How it does not answer.
pub(crate) const SILENT_MODES: [&str; 4] = ["slow", "slow-body", "hang-up", "half"];

/// Starts it. It also knows `others`, and gives a token for a login: another one, with the same beginning, to whoever asks
/// for it with the header `x-login`.
pub(crate) async fn start(others: Vec<String>, token: String) -> Server {
    let logins = AtomicUsize::new(0);
    Server::start(move |request| {
        let good = request.headers().get("x-status").is_some_and(|status| status == "200");
        let new = usize::from(good && request.headers().contains_key("x-login"));
        let number = logins.fetch_add(new, Ordering::SeqCst) + new;
        answer(request, others.clone(), format!("{token}{number:04}")).boxed()
    })
    .await
}

async fn answer(request: Asked, others: Vec<String>, token: String) -> Answered {
    let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let mode = header("x-mode").unwrap_or_default();
    let status: u16 = header("x-status").map_or(200, |status| status.parse().unwrap());
    let mut values = values(&request);
    values.extend(others);
    let mut answer = Response::builder().status(status);
    if request.uri().path() == "/v3/auth/tokens" {
        values.push(token.clone());
        if status < 300 {
            answer = answer.header("x-subject-token", &token);
        }
    }
    // Each alone, between others, and all together.
    let whole = whole(&request, &values);
    values.push(whole.clone());
    let listed =
        |write: &dyn Fn(&str) -> String| values.iter().map(|value| write(value)).collect::<Vec<_>>().join("\n");
    let json_list = |write: &dyn Fn(&str) -> String| {
        let items: Vec<String> = values.iter().map(|value| format!("\"{}\"", write(&json(value)))).collect();
        format!("[{}]", items.join(","))
    };
    let body = match mode.as_str() {
        "text" => listed(&str::to_owned),
        "json" => {
            let ways: [&dyn Fn(&str) -> String; 4] =
                [&str::to_owned, &ascii, &|json| ascii_of(json, "<>&"), &|json| json.replace('/', "\\/")];
            format!("[{}]", ways.map(json_list).join(","))
        }
        "percent" => {
            let upper = listed(&|value| percent(value, "-._~"));
            let form = listed(&|value| percent(value, "-._*").replace("%20", "+"));
            let script = listed(&|value| percent(value, "-_.!~*'()"));
            let path = listed(&|value| percent(value, "-._~!$&'()*+,;=:@/"));
            [upper, form, script, path].join("\n")
        }
        "hex" => {
            let lower = listed(&|value| hex(value.as_bytes()));
            format!("{lower}\n{}", lower.to_uppercase())
        }
        "base64" => {
            let plain = listed(&|value| BASE64_STANDARD.encode(value));
            let bare = listed(&|value| BASE64_STANDARD_NO_PAD.encode(value));
            let url = listed(&|value| BASE64_URL_SAFE.encode(value));
            [plain, bare, url].join("\n")
        }
        "base64-whole" => {
            // At every alignment.
            let shifted = (0..3).map(|before| format!("{}{whole}", "x".repeat(before)));
            shifted.map(|whole| BASE64_STANDARD.encode(whole)).collect::<Vec<_>>().join("\n")
        }
        "headers" => {
            for (number, value) in values.iter().filter(|value| !value.contains('\n')).enumerate() {
                answer = echoed(answer, &format!("x-echo-{number}"), value);
                answer = echoed(answer, &format!("x-base64-{number}"), &BASE64_STANDARD.encode(value));
            }
            String::new()
        }
        "names" => {
            // Names of headers are in lower case, and so is what can be found in them.
            for value in values.iter().map(|value| hex(value.as_bytes())).filter(|value| value.len() < 500) {
                answer = answer.header(format!("x-{value}"), "1");
            }
            String::new()
        }
        "page" => {
            answer = answer.header("content-type", "text/html");
            format!("<html><title>Refused {}</title></html>", values.first().unwrap())
        }
        "title" => {
            // Cut where the runtime cuts it.
            answer = answer.header("content-type", "text/html");
            let value = values.iter().min_by_key(|value| value.len().abs_diff(48)).unwrap();
            format!("<html><title>{} {value}</title></html>", "x".repeat(127 - value.len() / 2))
        }
        "broken" => format!("{{\"message\": \"{}\", ", json(&whole)),
        "ids" => {
            let value = values.iter().rev().find(|value| !value.contains('\n')).unwrap();
            answer = echoed(answer, "x-openstack-request-id", &format!("{}{value}", "r".repeat(128 - value.len() / 2)));
            String::new()
        }
        "slow" => {
            tokio::time::sleep(Duration::from_secs(30)).await;
            whole
        }
        "hang-up" => return Err(HangUp),
        "half" | "slow-body" => return Ok(answer.header("x-echo", "1").body(broken_off(whole)).unwrap()),
        other => panic!("no mode {other:?}"),
    };
    Ok(answer.body(full(body)).unwrap())
}

/// A header, where the value can stand in one.
fn echoed(answer: Builder, name: &str, value: &str) -> Builder {
    match hyper::header::HeaderValue::from_bytes(value.as_bytes()) {
        Ok(value) => answer.header(name, value),
        Err(_) => answer,
    }
}

/// Every value of the request as it came, and decoded.
fn values(request: &Asked) -> Vec<String> {
    let mut values = vec![String::from_utf8_lossy(request.body()).into_owned()];
    for (name, value) in request.headers() {
        if !["x-mode", "x-status", "x-login", "host", "accept", "content-length", "accept-encoding"]
            .contains(&name.as_str())
        {
            values.push(String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
    }
    for pair in request.uri().query().unwrap_or_default().split('&') {
        let value = pair.split_once('=').map_or("", |(_, value)| value);
        values.push(value.to_owned());
        values.push(percent_decoded(value));
    }
    if let Ok(serde_json::Value::String(text)) = serde_json::from_slice(request.body()) {
        values.push(text);
    }
    values.retain(|value| !value.is_empty());
    values
}

fn percent_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        bytes.extend(piece[2..].bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn whole(request: &Asked, values: &[String]) -> String {
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
    }
    format!("{text}\r\n{}\r\n{}", String::from_utf8_lossy(request.body()), values.join(" "))
}
