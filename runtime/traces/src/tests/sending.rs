//! The way to the collector: how often a batch is sent, and where it does not go.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::time::{Instant, timeout};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::*;

/// For a clock that is paused: it must not move on while bytes are on their way.
const PATIENT: (&str, &str) = ("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000");

/// Sends what waits, once.
async fn ended(sender: Sender) {
    let stop = CancellationToken::new();
    stop.cancel();
    sender.run(stop).await;
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_overloaded_gets_the_same_batch_again_after_longer_and_longer_pauses() {
    let mut collector = Collector::start().await;
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str());
    let (_guard, sender, lines) = traced(&[endpoint, PATIENT, ("OTEL_BSP_SCHEDULE_DELAY", "0")]);
    let (metrics, stop) = (sender.metrics(), CancellationToken::new());
    let mut tasks = JoinSet::new();
    tasks.spawn(sender.run(stop.clone()));
    collector.answers(503);
    span("x");
    let begun = Instant::now();
    let mut times = vec![];
    for attempt in 1..=5 {
        let names = timeout(Duration::from_secs(60), collector.names()).await;
        assert_eq!(names.unwrap_or_else(|_| panic!("no attempt {attempt}: {times:?}")), ["x"]);
        times.push(begun.elapsed().as_secs());
        if attempt == 4 {
            collector.answers(200);
        }
    }
    assert_eq!(times, [0, 1, 3, 7, 15]);
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!((metrics.counted(Outcome::Sent), metrics.counted(Outcome::NotTaken)), (1, 0));
    assert_eq!((lines.with("WARN"), lines.with("the collector takes traces again")), (1, 1));
    // As many as were just counted. It once said that spans are lost only when the queue is full.
    let lost = "a batch is lost after 5 tries, and so are spans that find 2048 others waiting";
    assert_eq!(lines.with(lost), 1);
}

/// The headers are a secret, which is for the collector that the operator named.
#[tokio::test]
async fn what_a_collector_says_of_another_place_is_not_followed() {
    let (mut collector, mut other) = (Collector::start().await, Collector::start().await);
    collector.answers(307);
    *collector.elsewhere.lock() = Some(other.url.clone());
    let (_guard, sender, lines) = traced(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)]);
    let metrics = sender.metrics();
    span("x");
    ended(sender).await;
    assert_eq!(collector.names().await, ["x"]);
    assert!(other.bodies.try_recv().is_err(), "it was followed");
    assert_eq!((metrics.counted(Outcome::Sent), metrics.counted(Outcome::NotTaken)), (0, 1));
    assert_eq!(lines.with("it answers 307 Temporary Redirect; the host goes on: what it refuses is lost at once"), 1);
}

/// An authority of its own, whose certificate is kept in this file, and a server that it vouches for.
fn authority(file: &Path) -> TlsAcceptor {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(file, ca.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &ca).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap()))
}

#[tokio::test]
async fn a_collector_is_trusted_by_the_authorities_of_the_operator_and_by_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own.pem", "other.pem"].map(|name| folder.path().join(name));
    let mut collector = Collector::start_with(Some(authority(&own))).await;
    drop(authority(&other));
    for (file, is_trusted) in [(Some(&own), true), (Some(&other), false), (None, false)] {
        let file = file.map(|file| file.display().to_string());
        let file = file.as_deref().map(|file| ("OTEL_EXPORTER_OTLP_CERTIFICATE", file));
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str());
        let variables: Vec<_> = [endpoint].into_iter().chain(file).collect();
        let (_guard, sender, lines) = traced(&variables);
        let metrics = sender.metrics();
        span("x");
        ended(sender).await;
        let taken = (metrics.counted(Outcome::Sent), metrics.counted(Outcome::NotTaken));
        assert_eq!(taken, if is_trusted { (1, 0) } else { (0, 1) }, "{file:?}");
        assert_eq!(collector.bodies.try_recv().is_ok(), is_trusted, "{file:?}");
        assert_eq!(lines.with("certificate") > 0, !is_trusted, "{file:?}");
    }
}

#[tokio::test]
async fn the_end_of_a_process_sends_what_waits_and_a_silent_collector_holds_it_up_for_two_seconds() {
    let mut collector = Collector::start().await;
    // Connections wait here for somebody to take them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", silent.local_addr().unwrap());
    let started = |url: &str| {
        let long = ("OTEL_BSP_SCHEDULE_DELAY", "3600000");
        let (guard, sender, _) = traced(&[("OTEL_EXPORTER_OTLP_ENDPOINT", url), PATIENT, long]);
        let sending = Sending::start(sender);
        span("x");
        (guard, sending)
    };
    let (guard, sending) = started(&collector.url);
    sending.end().await;
    assert!(collector.bodies.try_recv().is_ok());
    drop(guard);
    tokio::time::pause();
    let ((_guard, sending), begun) = (started(&nobody), Instant::now());
    sending.end().await;
    assert_eq!(begun.elapsed().as_secs(), 2);
}
