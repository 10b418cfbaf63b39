//! What no guest gets sent: to other places, with credentials at other places, under other names. One row per attempt.

use ccm_cloud::{Instances as _, LoadBalancers as _, Need, Node, Service, ServicePort};
use serde_json::{Value, json};

use crate::cloud::{Cloud, Reply, ok, reply};
use crate::rig::{Grants, Scripted, backends, map, node, service};

const TOKEN: &str = "token-Vahgh5ee";
const PASSWORD: &str = "password-Oob3eiwu";
/// So long that nobody guesses it.
const LONG: &str = "token-Vahgh5eeweiF";

/// A guest whose endpoints `api` and `identity` are two clouds, with all credentials that can be given.
struct Rig {
    api: Cloud,
    identity: Cloud,
    guest: Scripted,
}

impl Rig {
    async fn new(change: impl FnOnce(&mut Grants)) -> Self {
        let (api, identity) = (Cloud::start(|_| ok("{}")), Cloud::start(|_| ok("{}")));
        let grants = Grants::of(&[("api", api.url()), ("identity", identity.url())]);
        let mut grants = grants
            .credential("token", TOKEN)
            .credential("password", PASSWORD)
            .credential("api-key", "api-key-ohT4aeth")
            .credential("secret-key", "secret-key-Ieb9Aiyo");
        change(&mut grants);
        Self { api, identity, guest: Scripted::new(grants).await }
    }

    /// Each of `steps` is refused for this reason, with this in the message, and certainly nothing was sent.
    async fn refused(&self, reason: &str, rows: Vec<(Value, &str)>) {
        let (steps, words): (Vec<Value>, Vec<&str>) = rows.into_iter().unzip();
        let answers = self.guest.run(Value::from(steps.clone())).await;
        for ((answer, step), words) in answers.iter().zip(&steps).zip(words) {
            assert_eq!((&answer["error"], &answer["maybe-sent"]), (&json!(reason), &json!(false)), "{step}: {answer}");
            let message = answer["message"].as_str().unwrap();
            assert!(message.contains(words), "{step}: {message:?} does not say {words:?}");
            assert!(!message.contains(TOKEN) && !message.contains(PASSWORD), "{step}: {message}");
        }
        assert_eq!(self.api.take(), []);
        assert_eq!(self.identity.take(), []);
    }

    /// The request is sent: what the rows have in common is not what is refused.
    async fn sent(&self, request: Value) {
        let answer = self.guest.send(request).await;
        assert_eq!(answer["status"], 200, "{answer}");
        assert_eq!(self.api.take().len() + self.identity.take().len(), 1);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "reads better in tables")]
fn send(request: Value) -> Value {
    json!({ "send": request })
}

#[tokio::test]
async fn a_base_url_that_a_guest_found_leads_only_where_the_operator_allows() {
    let hosts = ["*.allowed.example", "169.254.169.254", "fd00:ec2::254", "100.100.100.200", "127.0.0.2"];
    let rig = Rig::new(|grants| {
        grants.operator.hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
        grants.operator.allow_http = false;
        grants.operator.addresses.loopback = false;
        grants.operator.base_urls.clear();
    });
    let bind = |url: &str| json!({ "bind": ["found", url] });
    let rig = rig.await;
    let rows = [
        ("https://evil.example/", "the host evil.example is not allowed"),
        ("https://allowed.example/", "--allow-host allowed.example"),
        ("https://x.allowed.example.evil.example/", "is not allowed"),
        ("https://notallowed.example/", "is not allowed"),
        ("https://x.allowed.example@evil.example/", "user or password"),
        ("https://user:word@x.allowed.example/", "user or password"),
        ("https://evil.example\\@x.allowed.example/", "backslashes"),
        ("https://x.allowed.example\t.evil.example/", "control characters"),
        ("https:\\\\x.allowed.example/", "backslashes"),
        ("https://x.allowed.example/a/%2e%2e%2fb", "has a path that"),
        ("https://x.allowed.example/?x=", "query or fragment"),
        ("http://x.allowed.example/", "--allow-http"),
        ("file:///etc/passwd", "must begin with https://"),
        ("//x.allowed.example/", "must begin with https://"),
        ("", "must begin with https://"),
        ("https://169.254.169.254/latest/meta-data", "link-local"),
        ("https://0xa9.0xfe.43518/latest", "link-local"),
        ("https://[::ffff:a9fe:a9fe]/", "link-local"),
        ("https://[fd00:ec2::254]/", "metadata service"),
        ("https://100.100.100.200/", "metadata service"),
        ("https://127.0.0.2/", "loopback"),
    ];
    rig.refused("denied", rows.iter().map(|(url, words)| (bind(url), *words)).collect()).await;
    let rest = vec![
        (json!({ "bind": ["evil", "https://x.allowed.example/"] }), "declares no endpoint `evil`"),
        (send(json!({ "endpoint": "evil", "path": "/" })), "declares no endpoint `evil`"),
        (send(json!({ "endpoint": "", "path": "/" })), "declares no endpoint"),
        (send(json!({ "path": "/" })), "--allow-host api.scripted.example would allow it"),
    ];
    rig.refused("denied", rest).await;
    rig.refused("unbound", vec![(send(json!({ "endpoint": "found", "path": "/" })), "has no base URL")]).await;
    assert_eq!(rig.guest.run(json!([bind("https://x.allowed.example/v2")])).await, [json!({ "bound": true })]);
}

#[tokio::test]
async fn what_the_operator_configured_is_not_bound_away() {
    let rig = Rig::new(|_| {}).await;
    let steps = json!([{ "bind": ["api", rig.identity.url()] }, { "send": { "path": "/x" } }]);
    assert_eq!(rig.guest.run(steps).await[0], json!({ "bound": true }), "and ignored");
    assert_eq!((rig.api.take().len(), rig.identity.take().len()), (1, 0));
}

#[tokio::test]
async fn nobody_follows_a_redirect() {
    let other = Cloud::start(|_| ok("{}"));
    let url = other.url();
    let cloud = Cloud::start(move |asked| {
        let status = asked.line.trim_start_matches("GET /");
        Reply::Bytes(reply(&format!("{status} Moved"), &format!("location: {url}/stolen\r\n"), ""))
    });
    let guest = Scripted::new(Grants::of(&[("api", cloud.url())]).credential("token", TOKEN)).await;
    for status in [301, 302, 303, 307, 308] {
        let token = json!([["authorization", ["Bearer ", { "secret": "token" }]]]);
        let answer = guest.send(json!({ "path": format!("/{status}"), "headers": token })).await;
        assert_eq!(answer["status"], status, "{answer}");
        assert_eq!(answer["headers"]["location"], format!("{}/stolen", other.url()), "for the provider to judge");
    }
    assert_eq!((cloud.take().len(), other.take().len()), (5, 0));
}

/// The names are allowed, and lead somewhere else: `ccm_egress::client` has the tests with names of its own.
#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_denied_when_it_is_resolved() {
    let cloud = Cloud::start(|_| ok("{}"));
    for granted in [false, true] {
        let mut grants = Grants::of(&[("api", cloud.url().replace("127.0.0.1", "localhost"))]);
        grants.operator.addresses.loopback = granted;
        let answer = Scripted::new(grants).await.send(json!({ "path": "/" })).await;
        if granted {
            assert_eq!((&answer["status"], cloud.take().len()), (&json!(200), 1));
        } else {
            assert_eq!((&answer["error"], &answer["maybe-sent"]), (&json!("denied"), &json!(false)), "{answer}");
            assert!(answer["message"].as_str().unwrap().contains("loopback"), "{answer}");
            assert_eq!(cloud.take(), []);
        }
    }
}

#[tokio::test]
async fn a_secret_stands_only_where_it_is_declared() {
    let rig = Rig::new(|_| {}).await;
    let secret = |name: &str| json!({ "secret": name });
    let header = |endpoint: &str, name: &str, credential: &str| {
        send(json!({ "endpoint": endpoint, "path": "/", "headers": [[name, [secret(credential)]]] }))
    };
    let query = |name: &str, credential: &str| send(json!({ "path": "/", "query": [[name, [secret(credential)]]] }));
    let body = |endpoint: &str, path: &str, credential: &str| {
        send(json!({ "endpoint": endpoint, "method": "post", "path": path, "body": ["x=", secret(credential)] }))
    };
    rig.sent(json!({ "path": "/", "headers": [["Authorization", ["Bearer ", secret("token")]]] })).await;
    rig.sent(json!({ "path": "/", "query": [["apiKey", [secret("api-key")]]] })).await;
    let login = json!({
        "endpoint": "identity", "method": "post", "path": "/v3/auth/tokens", "body": [secret("password")],
    });
    rig.sent(login).await;
    let rows = vec![
        (header("identity", "authorization", "token"), "is not declared for the header"),
        (header("api", "x-token", "token"), "\"token\" is not declared for the header \"x-token\""),
        (header("api", "authorization", "password"), "endpoint \"api\""),
        (header("identity", "x-auth-token", "password"), "is not declared for the header"),
        (header("api", "authorization ", "token"), "is not declared for the header"),
        (query("token", "token"), "is not declared for the query value \"token\""),
        (query("authorization", "token"), "is not declared for the query value"),
        (query("apikey", "api-key"), "is not declared for the query value \"apikey\""),
        (query("signature", "api-key"), "is not declared for the query value \"signature\""),
        (query("signature", "secret-key"), "never leaves itself"),
        (header("api", "apiKey", "api-key"), "is not declared for the header"),
        (body("api", "/client/api", "token"), "is not declared for the body"),
        (body("api", "/client/api", "secret-key"), "never leaves itself"),
        (body("api", "/client/apis", "api-key"), "path \"/client/apis\""),
        (body("api", "/", "api-key"), "is not declared for the body"),
        (body("api", "/v3/auth/tokens", "password"), "endpoint \"api\""),
        (body("identity", "/v3/users", "password"), "path \"/v3/users\""),
        (body("identity", "/v3/auth/tokens/", "password"), "is not declared for the body"),
        (body("identity", "/v3/auth/%74okens", "password"), "is not declared for the body"),
        (body("identity", "/v3/auth/tokens/../../users", "password"), "`.` or `..` segment"),
        (body("identity", "//v3/auth/tokens", "password"), "empty segment"),
    ];
    rig.refused("denied", rows).await;
    let rows = vec![
        (header("api", "authorization", "other"), "\"other\" is not declared by the provider"),
        (header("api", "x-auth-token", "session"), "\"session\" has no value"),
        (header("api", "authorization", ""), "\"\" is not declared by the provider"),
    ];
    rig.refused("unknown-credential", rows).await;
}

#[tokio::test]
async fn a_signature_stands_only_where_its_key_is_declared() {
    let rig = Rig::new(|_| {}).await;
    let by = |key: &str, data: Value| json!({ "sign": key, "algorithm": "hmac-sha256", "data": data });
    let sign = |key: &str| by(key, json!(["x"]));
    let query = |name: &str, part: Value| send(json!({ "path": "/", "query": [[name, [part]]] }));
    let header = |name: &str, part: Value| send(json!({ "path": "/", "headers": [[name, [part]]] }));
    let post = |path: &str, part: Value| send(json!({ "method": "post", "path": path, "body": [part] }));
    let target = json!([{ "target": true }]);
    let hex = json!({ "sign": "secret-key", "algorithm": "hmac-sha256", "data": ["x"], "encoding": "hex" });
    rig.sent(json!({ "path": "/", "query": [["signature", [hex]]] })).await;
    let rows = vec![
        (query("sig", sign("secret-key")), "is not declared for the query value \"sig\""),
        (query("Signature", sign("secret-key")), "is not declared for the query value \"Signature\""),
        (header("authorization", sign("secret-key")), "is not declared for the header \"authorization\""),
        (post("/client/other", sign("secret-key")), "path \"/client/other\""),
        (query("signature", sign("key")), "is not declared for the query value"),
        (header("authorization", sign("token")), "is not declared for signing"),
        (query("apiKey", sign("api-key")), "is not declared for signing"),
        (
            send(json!({ "endpoint": "identity", "path": "/", "headers": [["authorization", [sign("key")]]] })),
            "is not declared for signing requests to endpoint \"identity\"",
        ),
        // An oracle: who can sign guesses can find out the value.
        (
            query("signature", by("secret-key", json!([{ "secret": "password" }]))),
            "\"password\" is not declared for endpoint \"api\"",
        ),
        (query("signature", by("secret-key", target)), "cannot sign the query"),
    ];
    rig.refused("denied", rows).await;
    let rows = vec![
        (query("signature", sign("other")), "\"other\" is not declared by the provider"),
        (query("signature", by("secret-key", json!([{ "secret": "other" }]))), "\"other\" is not declared"),
        (header("authorization", sign("key")), "\"key\" has no value"),
        (
            query("signature", json!({ "sign": "secret-key", "algorithm": "rsa-sha256", "data": ["x"] })),
            "is no private key",
        ),
    ];
    rig.refused("unknown-credential", rows).await;
}

#[tokio::test]
async fn a_refusal_is_short_however_long_the_name_of_what_is_refused() {
    let rig = Rig::new(|_| {}).await;
    let long = "\u{1b}x".repeat(100_000);
    let token = json!([{ "secret": "token" }]);
    let steps = json!([
        { "send": { "path": format!("/{long}"), "query": [["x", token]] } },
        { "send": { "path": format!("/{}", "x".repeat(8_000)), "query": [["x", token]] } },
        { "send": { "path": "/", "query": [[long, token]] } },
        { "send": { "path": "/", "headers": [[long, token]] } },
        { "send": { "path": "/", "headers": [["authorization", [{ "secret": long }]]] } },
        { "send": { "path": "/", "capture": { "credential": long, "header": "x" } } },
        { "send": { "path": "/", "headers": [[long, ["x"]]] } },
        { "send": { "path": "/", "endpoint": long } },
        { "bind": [long, "https://api.example"] },
    ]);
    for (number, answer) in rig.guest.run(steps).await.iter().enumerate() {
        let message = answer["message"].as_str().unwrap();
        assert!(message.len() < 1500 && !message.contains('\u{1b}'), "step {number}: {} bytes", message.len());
        assert_eq!(answer["maybe-sent"], false);
    }
}

#[tokio::test]
async fn nothing_is_captured_as_what_the_operator_gives_nor_as_what_nobody_declared() {
    let rig = Rig::new(|_| {}).await;
    let capture = |credential: &str| {
        send(json!({ "path": "/", "capture": { "credential": credential, "header": "x-subject-token" } }))
    };
    rig.refused("denied", vec![(capture("token"), "is given by the operator")]).await;
    rig.refused("unknown-credential", vec![(capture("other"), "is not declared by the provider")]).await;
}

#[tokio::test]
async fn a_path_is_canonical_or_refused() {
    let rig = Rig::new(|_| {}).await;
    rig.sent(json!({ "path": "/v2/a%20b;c=%C3%A9/~x.y" })).await;
    let rows = [
        ("", "must start with `/`"),
        ("v2", "must start with `/`"),
        ("@evil.example/", "must start with `/`"),
        (":1/", "must start with `/`"),
        (".evil.example/", "must start with `/`"),
        ("http://evil.example/", "must start with `/`"),
        ("//evil.example/", "empty segment"),
        ("/a//b", "empty segment"),
        ("/\\evil.example/", "backslash"),
        ("/a%5Cb", "encoded slash or backslash"),
        ("/a%2fb", "encoded slash or backslash"),
        ("/a/../b", "`.` or `..` segment"),
        ("/a/..", "`.` or `..` segment"),
        ("/./a", "`.` or `..` segment"),
        ("/%2e%2e/b", "`.` or `..` segment"),
        ("/.%2E/b", "`.` or `..` segment"),
        ("/%252e%252e/b", "`.` or `..` segment"),
        ("/a\tb", "control characters"),
        ("/\t/evil.example", "control characters"),
        ("/a\r\nx-evil: 1", "control characters"),
        ("/a b", "has spaces"),
        ("/a%0d%0ab", "encoded control character"),
        ("/a%00", "encoded control character"),
        ("/ä", "not ASCII"),
        ("/a?b=c", "the query is given apart"),
        ("/a#b", "the query is given apart"),
        ("/a%", "two hex digits"),
        ("/a%zz", "two hex digits"),
    ];
    let rows = rows.into_iter().map(|(path, words)| (send(json!({ "path": path })), words)).collect();
    rig.refused("denied", rows).await;
}

#[tokio::test]
async fn a_path_stays_below_the_base_url() {
    let cloud = Cloud::start(|_| ok("{}"));
    let guest = Scripted::new(Grants::of(&[("api", format!("{}/base/v2/", cloud.url()))])).await;
    for (path, wanted) in [("/x", "GET /base/v2/x"), ("/", "GET /base/v2/"), ("/x/", "GET /base/v2/x/")] {
        assert_eq!(guest.send(json!({ "path": path })).await["status"], 200);
        assert_eq!(cloud.take()[0].line, wanted);
    }
}

#[tokio::test]
async fn a_query_value_ends_nothing_but_itself() {
    let rig = Rig::new(|_| {}).await;
    let query = json!([["a&b=c", ["1&d=2#e ?/\r\n\u{e9}+%41"]], ["", []]]);
    assert_eq!(rig.guest.send(json!({ "path": "/x", "query": query })).await["status"], 200);
    let line = "GET /x?a%26b%3Dc=1%26d%3D2%23e%20%3F%2F%0D%0A%C3%A9%2B%2541&=";
    assert_eq!(rig.api.take()[0].line, line);
}

#[tokio::test]
async fn headers_cannot_be_forged_nor_injected() {
    let rig = Rig::new(|grants| {
        grants.credentials.retain(|(name, _)| *name != "token");
        grants.credentials.push(("token", "first-line\r\nx-evil: 1".to_owned()));
    });
    let rig = rig.await;
    rig.sent(json!({ "path": "/", "headers": [["x-mine", ["a b"]], ["accept", ["application/json"]]] })).await;
    let header = |name: &str, value: Value| send(json!({ "path": "/", "headers": [[name, [value]]] }));
    let mut rows = vec![
        (header("x-a", json!("1\r\nx-evil: 1")), "has control characters"),
        (header("x-a", json!("1\nx-evil: 1")), "has control characters"),
        (header("x-a", json!("1\u{0}")), "has control characters"),
        (header("x-a\r\nx-evil", json!("1")), "is not a header name"),
        (header("x-a: 1\r\nx-evil", json!("1")), "is not a header name"),
        (header("x a", json!("1")), "is not a header name"),
        (header("", json!("1")), "is not a header name"),
        (header("authorization", json!({ "secret": "token" })), "has control characters"),
        (
            send(json!({ "endpoint": "identity", "path": "/", "headers": [["authorization", ["mine"]]] })),
            "needs a credential whose declared uses name it",
        ),
    ];
    let refused = [
        "Host",
        "content-length",
        "Content_Length",
        "transfer-encoding",
        "connection",
        "te",
        "upgrade",
        "expect",
        "proxy-authorization",
        "x-forwarded-for",
        "x-forwarded-host",
        "forwarded",
        "cookie",
        "x-http-method-override",
        "x-original-url",
        "accept-encoding",
        "user-agent",
    ];
    rows.extend(refused.map(|name| (header(name, json!("1")), "is written by the runtime")));
    rig.refused("denied", rows).await;
}

#[tokio::test]
async fn what_changes_things_by_its_method_is_no_read_and_what_has_no_body_gets_none() {
    let rig = Rig::new(|_| {}).await;
    rig.sent(json!({ "method": "post", "path": "/", "body": ["{}"] })).await;
    rig.sent(json!({ "method": "head", "path": "/" })).await;
    let read = |method: &str| send(json!({ "method": method, "effect": "read", "path": "/" }));
    let full = |method: &str| send(json!({ "method": method, "path": "/", "body": ["x"] }));
    let rows = vec![
        (read("put"), "a PUT is no request that changes nothing"),
        (read("patch"), "a PATCH is no request that changes nothing"),
        (read("delete"), "a DELETE is no request that changes nothing"),
        (full("get"), "a GET has no body"),
        (full("head"), "a HEAD has no body"),
    ];
    rig.refused("denied", rows).await;
}

#[tokio::test]
async fn a_call_that_looks_changes_nothing() {
    let rig = Rig::new(|_| {}).await;
    let mut rows = Vec::new();
    for effect in ["repeatable", "once"] {
        for method in ["get", "head", "post", "put", "patch", "delete"] {
            rows.push((send(json!({ "method": method, "effect": effect, "path": "/" })), "may not change the cloud"));
        }
    }
    rig.refused("read-only", rows).await;
}

/// A tenant wrote a token into an annotation, and the provider passed it on: three times, and it sent nothing any more.
#[tokio::test]
async fn a_secret_in_an_object_of_the_cluster_does_not_reach_a_guest() {
    let cloud = Cloud::start(|_| ok("{}"));
    let guest = Scripted::new(Grants::of(&[("api", cloud.url())]).credential("token", LONG)).await;
    let carries = json!([["authorization", ["Bearer ", { "secret": "token" }]]]);
    assert_eq!(guest.send(json!({ "path": "/", "headers": carries })).await["status"], 200);
    cloud.take();
    let passes_on = json!([{ "send": { "path": "/", "query": [["tag", [LONG]]] } }]).to_string();
    let annotations = map(&[("scripted.example/script", passes_on.as_str())]);
    for _ in 0..4 {
        let asked = vec![Node { annotations: annotations.clone(), ..node("script") }];
        let said = format!("{:?}", guest.0.find(asked, Need::Metadata).await);
        assert!(said.contains("the script cannot be read") && !said.contains(LONG), "{said}");
    }
    assert_eq!(cloud.take(), []);
    assert_eq!(guest.send(json!({ "path": "/" })).await["status"], 200, "the provider goes on");
}

/// The API server takes any text for some of them, and for others what a token may look like.
#[tokio::test]
async fn a_secret_in_a_field_of_a_service_does_not_reach_a_guest() {
    const SCRIPT: &str = r#"{ "ensure": { "shifted": true } }"#;
    let guest = Scripted::new(Grants::default().credential("token", LONG)).await;
    let port =
        ServicePort { name: "http".into(), app_protocol: Some("x/y".into()), port: 80, ..ServicePort::default() };
    let plain = Service {
        annotations: map(&[("scripted.example/script", SCRIPT)]),
        ports: vec![port],
        requested_ip: Some("203.0.113.9".into()),
        source_ranges: vec!["10.0.0.0/8".into()],
        load_balancer_class: Some("x/z".into()),
        ..service("web")
    };
    // What the guest has, told in a way in which the host takes no secret out of it.
    let seen = async |service: Service| {
        let outcome = guest.0.ensure(service, backends(&[])).await;
        let [shifted] = outcome.changes.as_slice() else { panic!("{outcome:?}") };
        shifted.chars().map(|c| char::from_u32(u32::from(c) - 1).unwrap()).collect::<String>()
    };
    type Write = fn(&mut Service, String);
    let rows: [(&str, Write, &str); 5] = [
        ("spec.ports[].name", |service, text| service.ports[0].name = text, r#"[ServicePort { name: "http""#),
        (
            "spec.ports[].appProtocol",
            |service, text| service.ports[0].app_protocol = Some(text),
            r#"app-protocol: Some("x/y")"#,
        ),
        (
            "spec.loadBalancerIP",
            |service, text| service.requested_ip = Some(text),
            r#"requested-ip: Some("203.0.113.9")"#,
        ),
        ("spec.loadBalancerSourceRanges", |service, text| service.source_ranges[0] = text, r#"ranges: ["10.0.0.0/8"]"#),
        ("spec.loadBalancerClass", |service, text| service.load_balancer_class = Some(text), r#"class: Some("x/z")"#),
    ];
    let whole = seen(plain.clone()).await;
    for (field, write, shown) in rows {
        assert!(whole.contains(shown), "{field}: {whole}");
        let mut service = plain.clone();
        write(&mut service, format!("x{LONG}x"));
        let told = seen(service).await;
        assert!(!told.contains(LONG) && !told.contains(shown), "{field}: {told}");
        assert_eq!(told.matches("(credential token)").count(), 1, "{field}: {told}");
    }
}
