//! No value of a credential is seen by a guest, nor in what a guest or the host says: a scenario with all kinds of
//! credentials against a cloud that sends back whatever it gets.

mod echo;
mod forms;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ccm_cloud::{
    Alone, ConfigFormat, Descriptor, EventSink, FindError, Finding, Instances as _, Need, Node, Severity, Subject,
};
use ccm_egress::config::{ConfigFile, CredentialSource, Object};
use ccm_egress::observe::{BudgetLeft, Exchange, ExchangeObserver};
use ccm_egress::{Carryover, Egress, EgressConfig, LogLimits};
use ccm_sandbox::{CallEnd, CallObserver, Limits, Pool, Provider, Sandbox};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as Values};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use self::echo::{MODES, SILENT_MODES};
use self::forms::Scan;
use crate::capture;
use crate::rig::{map, node};
use crate::server::Server;
use crate::setup::{SCRIPTED, Setup, given, secret};

const TOKEN: &str = "T0ken~Kanarienvogel/zwitschert+im=Kaefig&<7fQ9>";
const SESSION: &str = "gAAAAABSess10n-Kanarie_singt/laut+und%klar==Qx";
const PASSWORD: &str = "P\u{e4}ss\"w\u{f6}rt\\des/<Kanarien>&vogels+im%K\u{e4}fig?'42#";
const API_KEY: &str = "ApiKanarie/8+sitzt=auf der Stange&ruft:Zx~3";
const SECRET_KEY: &str = "SignierKanarie*7-mit(langem)Schnabel!und_Federn";
const UNDECLARED: &str = "Unb3kannter/Kanarienvogel+ohne=Namen&Nest";
const IN_YAML: &str = "YamlKanarie#4/fliegt+davon=und&kommt<wieder";
const OTHERS: &str = "FremderKanarienvogel-sitzt+nebenan/Kq8";
const IN_URL: &str = "UrlKanarie-5.badet_gern~im.Wasser-des-Brunnens";

/// All that was said and seen, by place.
#[derive(Default)]
struct Record(Mutex<Vec<(String, Vec<u8>)>>);

impl Record {
    fn keep(&self, place: &str, what: impl Into<Vec<u8>>) {
        self.0.lock().push((place.to_owned(), what.into()));
    }

    /// Number of entries of this place.
    fn count(&self, place: &str) -> usize {
        self.0.lock().iter().filter(|(other, _)| other.starts_with(place)).count()
    }

    fn says(&self, place: &str, words: &str) -> bool {
        self.0.lock().iter().any(|(other, what)| other == place && String::from_utf8_lossy(what).contains(words))
    }
}

impl CallObserver for Record {
    fn call_ended(&self, provider: &str, end: CallEnd) {
        self.keep("metric", format!("{provider} {end:?}"));
    }
}

impl ExchangeObserver for Record {
    fn exchange_ended(&self, exchange: Exchange<'_>) {
        self.keep("metric", format!("{exchange:?} {}", exchange.outcome.as_str()));
        self.keep("metric", exchange.operation);
    }

    fn budget(&self, left: BudgetLeft<'_>) {
        self.keep("metric", format!("{left:?}"));
    }
}

impl EventSink for Record {
    fn emit(&self, about: Subject, _: Severity, reason: String, message: String) {
        self.keep("event", format!("{about:?} {reason}"));
        self.keep("event", message);
    }
}

/// Every line and every span of every target.
struct Lines(Arc<Record>);

impl<S: tracing::Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let place = match event.metadata().target() {
            "http" => "trace",
            _ => "log",
        };
        event.record(&mut Fields(&self.0, place));
    }

    /// What a collector of traces gets.
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        span.record(&mut Fields(&self.0, "span"));
    }

    fn on_record(&self, _: &Id, values: &Values<'_>, _: Context<'_, S>) {
        values.record(&mut Fields(&self.0, "span"));
    }
}

struct Fields<'a>(&'a Record, &'static str);

impl Visit for Fields<'_> {
    fn record_str(&mut self, _: &Field, value: &str) {
        self.0.keep(self.1, value);
    }

    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        self.0.keep(self.1, format!("{value:?}"));
    }
}

/// The provider, the cloud, and what is recorded of them.
struct Scenario {
    provider: Provider,
    record: Arc<Record>,
    scan: Scan,
    _cloud: Server,
    _beside: Egress,
    _files: tempfile::TempDir,
    _lines: tracing::subscriber::DefaultGuard,
}

impl Scenario {
    async fn start() -> Self {
        capture::everywhere();
        let record = Arc::new(Record::default());
        let subscriber = tracing_subscriber::registry().with(Lines(Arc::clone(&record)));
        let lines = tracing::subscriber::set_default(subscriber);
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap().serialize_pem();

        let files = tempfile::tempdir().unwrap();
        let config = format!(
            "[Global]\nauth-url = https://reader:{IN_URL}@cloud.example/\npassword = \"{}\"\nregion = here\n\
             [Other]\nprivate-token = \"{UNDECLARED}\"\n",
            PASSWORD.replace('\\', "\\\\").replace('"', "\\\"")
        );
        let more = format!("clouds:\n  here:\n    auth:\n      password: '{IN_YAML}'\n");
        let at = |name: &str, text: &str| {
            let path = files.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let parsed = [("cloud-config", &config, ConfigFormat::Ini), ("more", &more, ConfigFormat::Yaml)]
            .map(|(name, text, format)| (name, ConfigFile::read(text.as_bytes(), format).unwrap().unwrap()));
        let declared = map(&[("Global.password", "password")]);

        let cloud = echo::start([UNDECLARED, IN_YAML, IN_URL].map(str::to_owned).to_vec(), SESSION.to_owned()).await;
        let held = Arc::new([("c".to_owned(), secret(SECRET_KEY))].into());
        let (_newest, object) = watch::channel(Object::Is(held));
        let watched = CredentialSource::Watched {
            name: "secret:a/b/c".to_owned(),
            key: "c".to_owned(),
            object,
            keeper: Arc::new(()),
        };
        let config_path = at("cloud.conf", &config);
        let password = CredentialSource::config_key(config_path, ConfigFormat::Ini, "Global.password");
        let mut setup = Setup {
            exchanges: Some(Arc::clone(&record) as _),
            calls: Some(Arc::clone(&record) as _),
            events: Some(Arc::clone(&record) as _),
            hidden: parsed.iter().flat_map(|(_, file)| file.hidden(&declared)).collect(),
            ..Setup::default()
        };
        setup.settings.files =
            parsed.iter().map(|(name, file)| ((*name).to_owned(), file.for_guest(&declared))).collect();
        setup.settings.values = map(&[("mood", "grim")]);
        setup.network.trace = true;
        setup.network.limits.request_time = Duration::from_millis(500);
        setup.network.limits.headers = ccm_egress::config::HeaderLimits { count: 400, bytes: 1 << 20 };
        setup.network.client.headers = setup.network.limits.headers;
        setup.network.retry.attempts = 1;
        // Nothing is cut that could be found, and a cloud that is silent is asked again.
        setup.log = LogLimits { lines: 10_000, line_bytes: 1 << 20 };
        setup.network.budget.breaker_failures = std::num::NonZeroU32::MAX;
        setup.limits = Limits { call_cpu: Duration::from_secs(60), events: 10_000, ..Limits::default() };
        // A provider beside it, which says nothing.
        let beside = EgressConfig {
            hidden: vec![("of-another".to_owned(), secret(OTHERS))],
            secrets: setup.secrets.clone(),
            ..EgressConfig::new(Arc::new(Alone))
        };
        let beside = Egress::open(beside, &Descriptor::default(), &Carryover::default(), None).unwrap();
        let setup = setup
            .endpoint("api", cloud.url(""))
            .endpoint("identity", cloud.url(""))
            .credential("token", given(TOKEN))
            .credential("password", password)
            .credential("api-key", CredentialSource::file(at("api-key", &format!("{API_KEY}\n"))))
            .credential("secret-key", watched)
            .credential("key", CredentialSource::file(at("key.pem", &key)));

        let seen = Arc::clone(&record);
        let probe = move |function: &'static str, memory: &[u8]| seen.keep(&format!("memory {function}"), memory);
        let sandbox = Sandbox::with_memory_probe(Pool::default(), Arc::new(probe)).unwrap();
        let provider = setup.start_in(&sandbox, SCRIPTED).await;
        let mut canaries = vec![
            ("token", TOKEN),
            ("session", SESSION),
            ("password", PASSWORD),
            ("api-key", API_KEY),
            ("secret-key", SECRET_KEY),
            ("an undeclared secret", UNDECLARED),
            ("a secret in YAML", IN_YAML),
            ("a password in a URL", IN_URL),
            ("another provider's", OTHERS),
        ];
        canaries
            .extend(key.lines().filter(|line| !line.starts_with('-') && line.len() >= 40).map(|line| ("key", line)));
        let scan = Scan::new(canaries);
        Self { provider, record, scan, _cloud: cloud, _beside: beside, _files: files, _lines: lines }
    }

    /// Runs a script. What comes of it is recorded, and given back by step.
    async fn run(&self, steps: &[Value]) -> Result<BTreeMap<usize, String>, FindError> {
        // Shifted, or the host would see the secrets in it, and they would not reach the guest.
        let next = |c| char::from_u32(u32::from(c) + 1).unwrap();
        let script: String = Value::from(steps).to_string().chars().map(next).collect();
        let script = format!("shifted {script}");
        let node = Node { annotations: map(&[("scripted.example/script", &script)]), ..node("n") };
        let answer = self.provider.find(vec![node], Need::Metadata).await;
        let answer = answer.and_then(|mut findings| match findings.pop() {
            Some(Finding::Unknown(failure)) => Err(FindError::Failed(failure)),
            found => Ok(found),
        });
        match answer {
            Ok(found) => {
                let Some(Finding::Found(instance)) = &found else { panic!("{found:?}") };
                let labels = instance.labels.iter();
                labels.clone().for_each(|(_, text)| self.record.keep("finding", text.as_str()));
                Ok(labels.map(|(step, text)| (step.parse().unwrap(), text.clone())).collect())
            }
            Err(error) => {
                self.record.keep("failure", error.to_string());
                self.record.keep("failure", format!("{error:?}"));
                let (FindError::Failed(failure) | FindError::Crashed(failure)) = &error;
                self.record.keep("failure", failure.message.as_str());
                Err(error)
            }
        }
    }

    fn found(&self) -> Vec<String> {
        let record = self.record.0.lock();
        record.iter().filter_map(|(place, what)| self.scan.find(place, what)).collect()
    }

    fn assert_clean(&self) {
        let found = self.found();
        assert!(found.is_empty(), "{} places, the first: {:#?}", found.len(), &found[..found.len().min(8)]);
        // Pages are kept for every call.
        self.record.0.lock().retain(|(place, _)| !place.starts_with("memory"));
    }
}

const ENCODINGS: [&str; 7] =
    ["plain", "json-string", "url", "url-lower-case", "hex", "base64", "base64-percent-encoded"];

/// Every credential in every place and encoding.
fn requests(mode: &str, status: u16) -> Vec<Value> {
    let secret = |name: &str, encoding: &str| json!({ "secret": name, "encoding": encoding });
    let mut requests = vec![];
    for encoding in ENCODINGS {
        requests.push(json!({ "path": "/a", "headers": [["authorization", ["Bearer ", secret("token", encoding)]]] }));
        // A query is encoded by the runtime. What was encoded before, and is once more in the answer, is not looked for.
        if ["plain", "hex", "base64"].contains(&encoding) {
            requests.push(json!({ "path": "/b", "query": [["apiKey", [secret("api-key", encoding)]], ["q", ["1"]]] }));
        }
        requests.push(json!({
            "path": "/client/api", "method": "post",
            "body": ["{\"key\": \"", secret("api-key", encoding), "\"}"],
        }));
        requests.push(json!({
            "endpoint": "identity", "path": "/v3/auth/tokens", "method": "post",
            "body": ["\"", secret("password", encoding), "\""],
        }));
    }
    let data = json!(["GET", { "secret": "api-key", "encoding": "url" }, "x"]);
    let sign =
        |key: &str, algorithm: &str| json!({ "sign": key, "algorithm": algorithm, "data": data, "encoding": "base64" });
    requests.push(json!({ "path": "/d", "query": [["signature", [sign("secret-key", "hmac-sha256")]]] }));
    requests.push(json!({ "path": "/e", "headers": [["authorization", ["Signature ", sign("key", "rsa-sha256")]]] }));
    requests.push(json!({ "path": "/f", "headers": [["x-auth-token", [secret("session", "plain")]]] }));
    for request in &mut requests {
        let mut headers = request["headers"].as_array().cloned().unwrap_or_default();
        headers.push(json!(["x-mode", [mode]]));
        headers.push(json!(["x-status", [status.to_string()]]));
        headers.push(json!(["accept", ["application/json"]]));
        request["headers"] = Value::Array(headers);
    }
    requests
}

fn login(mode: &str, status: u16) -> Value {
    json!({
        "endpoint": "identity", "path": "/v3/auth/tokens", "method": "post",
        "headers": [["x-mode", [mode]], ["x-status", [status.to_string()]], ["x-login", ["1"]]],
        "body": ["\"", { "secret": "password", "encoding": "json-string" }, "\""],
        "capture": { "credential": "session", "header": "X-Subject-Token", "ttl-ms": 3_600_000 },
    })
}

/// A request, and everything that a guest can do with what came of it.
fn passed_on(request: &Value) -> [Value; 5] {
    [
        json!({ "send": request }),
        json!({ "log": "it said" }),
        json!({ "emit": "Said" }),
        json!({ "keep": "answer" }),
        json!({ "kept": "answer" }),
    ]
}

async fn run_all(scenario: &Scenario, modes: &[(&str, u16)]) {
    for &(mode, status) in modes {
        // A login in the same way first: its token is new, and nothing was learned of it before.
        let mut steps = vec![json!({ "forget": "session" })];
        steps.extend(passed_on(&login(mode, status)));
        scenario.run(&steps).await.unwrap();
        scenario.run(&[json!({ "send": login("json", 200) })]).await.unwrap();
        let requests = requests(mode, status);
        let answers = scenario.run(&[json!({ "send-all": requests }), json!({ "log": "all" })]).await.unwrap();
        let sent = serde_json::from_str::<Vec<Value>>(&answers[&0]).unwrap();
        let denied: Vec<&Value> = sent.iter().filter(|answer| answer["error"] == "denied").collect();
        assert!(denied.is_empty(), "{mode}: {denied:?}");
        let steps: Vec<Value> = requests.iter().flat_map(passed_on).collect();
        scenario.run(&steps).await.unwrap();
        scenario.run(&[json!({ "send": requests[0] }), json!({ "fail": "it said" })]).await.unwrap_err();
        scenario.assert_clean();
    }
}

#[tokio::test]
async fn answers_that_repeat_the_request_show_no_credential() {
    let scenario = Scenario::start().await;
    let modes: Vec<(&str, u16)> = MODES.iter().flat_map(|mode| [200, 404, 500].map(|status| (*mode, status))).collect();
    run_all(&scenario, &modes).await;
    for place in ["log", "trace", "span", "event", "metric", "finding", "failure"] {
        assert!(scenario.record.count(place) > 100 || place == "failure", "{place} was recorded");
    }
    for name in ["token", "session", "password", "api-key", "cloud-config"] {
        let shown = format!("(credential {name})");
        assert!(name == "cloud-config" || scenario.record.says("finding", &shown), "the cloud got {name}");
    }
}

#[tokio::test]
async fn answers_that_do_not_come_show_no_credential() {
    let scenario = Scenario::start().await;
    let modes = SILENT_MODES.map(|mode| (mode, 200));
    run_all(&scenario, &modes).await;
    assert!(scenario.record.says("finding", "\"error\":\"timeout\""));
    assert!(scenario.record.says("finding", "\"error\":\"other\""));
}

#[tokio::test]
async fn files_settings_and_questions_about_keys_show_no_credential() {
    let scenario = Scenario::start().await;
    let steps = [
        json!({ "file": "cloud-config" }),
        json!({ "log": "the file" }),
        json!({ "emit": "File" }),
        json!({ "file": "more" }),
        json!({ "log": "more" }),
        json!({ "setting": "mood" }),
        json!({ "fingerprint": ["key", "md5"] }),
        json!({ "key-algorithm": "key" }),
        json!({ "fingerprint": ["secret-key", "sha256"] }),
        json!({ "fingerprint": ["token", "sha256"] }),
        json!({ "available": "token" }),
        json!({ "fail": "after all" }),
    ];
    scenario.run(&steps[..11]).await.unwrap();
    scenario.run(&steps).await.unwrap_err();
    scenario.assert_clean();
    assert!(scenario.record.says("finding", "(credential password)") && scenario.record.says("finding", "here"));
}

#[tokio::test]
async fn a_secret_at_the_wrong_place_is_refused_without_being_shown() {
    let scenario = Scenario::start().await;
    let places = [
        json!({ "path": "/a", "headers": [["x-other", [{ "secret": "token" }]]] }),
        json!({ "path": "/a", "query": [["q", [{ "secret": "token" }]]] }),
        json!({ "path": "/a", "headers": [["authorization", [{ "secret": "key" }]]] }),
        json!({ "path": "/a", "query": [["signature", [{ "secret": "secret-key" }]]] }),
        // A header cannot hold it.
        json!({ "path": "/a", "headers": [["x-auth-token", [{ "secret": "session", "encoding": "plain" }, "\n"]]] }),
    ];
    for place in places {
        let mut steps = vec![json!({ "send": login("json", 200) })];
        steps.extend(passed_on(&place));
        let answers = scenario.run(&steps).await.unwrap();
        assert!(answers[&1].contains("\"error\":"), "{}", answers[&1]);
    }
    scenario.assert_clean();
}

/// The search itself: each value in each form, where it would be found if something let it through.
#[tokio::test]
async fn what_is_planted_is_found() {
    let scenario = Scenario::start().await;
    let canaries = [TOKEN, SESSION, PASSWORD, API_KEY, SECRET_KEY, UNDECLARED, IN_YAML, IN_URL];
    for canary in canaries {
        for (form, text) in forms::forms(canary) {
            let around = format!("{{\"x\": \"{text}\"}}");
            assert!(scenario.scan.find("", around.as_bytes()).is_some(), "{form} of {canary}");
            let cut = &text.as_bytes()[..text.len() / 2];
            assert!(cut.len() < 16 || scenario.scan.find("", cut).is_some(), "half of {form} of {canary}");
        }
    }
    // Through the guest: into its memory, its answer, the log, Events and the cache.
    let planted = json!([{ "setting": TOKEN }]).to_string();
    scenario.run(&[json!({ "matching": planted }), json!({ "fail": TOKEN })]).await.unwrap_err();
    scenario.run(&[json!({ "log": TOKEN })]).await.unwrap();
    let found = scenario.found().join("\n");
    assert!(found.contains("memory instances.find holds token (plain)"), "{found}");
    // What leaves the guest is cleaned, however it came to know a secret.
    for place in ["failure", "log"] {
        assert!(!found.contains(&format!("{place} holds token")), "{place}: {found}");
        assert!(scenario.record.says(place, "(credential token)"), "{place}");
    }
}

/// A guest that came to know secrets, its own or another provider's, says them in whatever it can say.
#[tokio::test]
async fn what_leaves_a_guest_shows_no_secret_of_any_provider() {
    let scenario = Scenario::start().await;
    for said in [TOKEN, API_KEY, OTHERS] {
        let written = json!({ "path": "/x", "headers": [["x-tag", [said]]] });
        scenario.run(&[json!({ "log": said }), json!({ "emit": said }), json!({ "send": written })]).await.unwrap();
        scenario.run(&[json!({ "log": said }), json!({ "fail": said })]).await.unwrap_err();
    }
    let found = scenario.found();
    let outside: Vec<&String> = found.iter().filter(|found| !found.starts_with("memory")).collect();
    assert!(outside.is_empty(), "{outside:#?}");
    for place in ["log", "failure"] {
        assert!(scenario.record.says(place, "(credential of-another)"), "{place}");
    }
}
