//! What a trace shows of an attempt at a request: how it ended, and no secret.

use std::io::Write;
use std::sync::Once;

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::{fmt, registry};

use super::*;

/// Spans of this thread that have ended, a line for each, until it is dropped.
struct Spans {
    text: Text,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Spans {
    fn start() -> Self {
        // With nobody listening in another thread, a span met there first could be switched off for this one as well.
        static LISTEN: Once = Once::new();
        LISTEN.call_once(|| drop(tracing::subscriber::set_global_default(registry())));
        let text = Text::default();
        let kept = text.clone();
        let subscriber = fmt().with_ansi(false).with_span_events(FmtSpan::CLOSE);
        let subscriber = subscriber.with_writer(move || kept.clone()).finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// Those that have ended since the last time that somebody asked.
    fn take(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.text.0.lock())).unwrap();
        text.lines().filter(|line| line.contains("request{")).map(str::to_owned).collect()
    }
}

/// Value of an attribute, as it is written there.
fn attribute<'a>(span: &'a str, name: &str) -> Option<&'a str> {
    span.split_once(&format!(" {name}="))?.1.split([' ', '}']).next()
}

#[tokio::test]
async fn an_attempt_that_failed_is_a_span_with_an_error_and_says_which_attempt_it_was() {
    let spans = Spans::start();
    let rig = Rig::new(|_| status("503 Service Unavailable"));
    assert_eq!(rig.send(post(Effect::Read)).await.unwrap().status, 503);
    let told = spans.take();
    let failed = |span: &String| {
        let attribute = |name| attribute(span, name).map(str::to_owned);
        assert_eq!(attribute("otel.status_code").as_deref(), Some(r#""ERROR""#), "{span}");
        (
            attribute("error.type").unwrap(),
            attribute("http.response.status_code"),
            attribute("http.request.resend_count"),
        )
    };
    let refused = |again: Option<&str>| (r#""503""#.to_owned(), Some("503".to_owned()), again.map(str::to_owned));
    assert_eq!(told.iter().map(failed).collect::<Vec<_>>(), [None, Some("1"), Some("2")].map(refused));

    let rig = Rig::new(|_| Reply::Bytes(vec![]));
    rig.send(post(Effect::Once)).await.unwrap_err();
    assert_eq!(spans.take().iter().map(failed).collect::<Vec<_>>(), [(r#""other""#.to_owned(), None, None)]);

    let large = || Reply::Bytes(reply("200 OK", "", " ".repeat(2001)));
    let rig = Rig::with(Cloud::start(move |_| large()), Arc::default(), Arc::new(Alone), |settings| {
        settings.limits.response_bytes = 2000;
    });
    rig.send(post(Effect::Once)).await.unwrap_err();
    assert_eq!(spans.take().iter().map(failed).collect::<Vec<_>>(), [(r#""too-large""#.to_owned(), None, None)]);

    let rig = Rig::new(|_| ok("{}"));
    rig.send(post(Effect::Once)).await.unwrap();
    let [good] = <[String; 1]>::try_from(spans.take()).unwrap();
    assert_eq!(["otel.status_code", "error.type"].map(|name| attribute(&good, name)), [None; 2], "{good}");
    assert_eq!(attribute(&good, "http.response.status_code"), Some("200"), "{good}");
}

#[tokio::test]
async fn no_secret_of_any_provider_is_in_a_span() {
    const OWN: &str = "token-Vahgh5eeweiF";
    const NEIGHBOURS: &str = "neighbour-Vahgh5eeweiF";
    let spans = Spans::start();
    for secret in [OWN, NEIGHBOURS] {
        let named = move || Reply::Bytes(reply("400 Bad Request", &format!("x-request-id: {secret}\r\n"), secret));
        for (answer, operation) in [
            // The cloud says it, the component says it, and what is told of a failure says it.
            (Box::new(named) as Box<dyn Fn() -> Reply + Send + Sync>, "GET /things".to_owned()),
            (Box::new(|| ok("{}")), format!("GET /{secret}")),
            (Box::new(|| Reply::Bytes(vec![])), format!("GET /{secret}")),
        ] {
            let rig = Rig::new(move |_| answer());
            let cloud = Cloud::start(|_| ok("{}"));
            let neighbour = Rig::given(cloud, Arc::default(), Arc::new(Alone), |_| {}, fixed("neighbour"));
            drop(rig.egress.secrets.clone().with(&neighbour.egress.credentials));
            drop(rig.send(Request { operation, ..post(Effect::Once) }).await);
            let told = spans.take();
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(!told[0].contains(secret) && told[0].contains("(credential token)"), "{told:?}");
        }
    }
}

/// With `--trace-http`, a component could show another provider's secret in the name of its operation.
#[tokio::test]
async fn no_secret_of_any_provider_is_in_the_line_of_an_exchange() {
    const NEIGHBOURS: &str = "neighbour-Vahgh5eeweiF";
    let spans = Spans::start();
    let cloud = || Cloud::start(|_| ok("{}"));
    let rig = Rig::with(cloud(), Arc::default(), Arc::new(Alone), |settings| settings.trace = true);
    let neighbour = Rig::given(cloud(), Arc::default(), Arc::new(Alone), |_| {}, fixed("neighbour"));
    drop(rig.egress.secrets.clone().with(&neighbour.egress.credentials));
    rig.send(Request { operation: format!("GET /{NEIGHBOURS}"), ..post(Effect::Once) }).await.unwrap();
    let text = String::from_utf8(std::mem::take(&mut *spans.text.0.lock())).unwrap();
    let line = text.lines().find(|line| line.contains(" http: exchange ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("GET /(credential token)") && !line.contains(NEIGHBOURS), "{line}");
}
