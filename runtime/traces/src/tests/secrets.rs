//! Headers for the collector, user and password: they go to it alone, and not in clear.

use super::*;

const HEADERS: (&str, &str) = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20Geheimnis");

#[test]
fn a_secret_is_sent_in_clear_to_a_named_collector_on_the_same_node_at_most() {
    for place in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
        let with_headers = |url: &str| settings(&[HEADERS, (place, url)]);
        for url in ["https://c.example", "http://127.0.0.1:4318", "http://[::1]:4318", "http://localhost:4318"] {
            assert!(with_headers(url).is_ok(), "{url}");
        }
        for url in ["http://c.example", "http://10.0.0.1:4318", "http://localhost.example", "http://127.0.0.1.example"]
        {
            let told = format!("{:#}", with_headers(url).err().unwrap_or_else(|| panic!("{url} is taken")));
            for part in [place, HEADERS.0, "https://"] {
                assert!(told.contains(part) && !told.contains("Geheimnis"), "{url}: {told}");
            }
        }
        for user in ["u:Geheimnis", "Geheimnis", ":Geheimnis"] {
            let told = settings(&[(place, &format!("http://{user}@c.example"))]).err().unwrap();
            let told = format!("{told:#}");
            assert!(told.contains(place) && !told.contains("Geheimnis"), "{user}: {told}");
            assert!(settings(&[(place, &format!("https://{user}@c.example"))]).is_ok(), "{user}");
        }
        assert!(settings(&[(place, "http://c.example")]).is_ok(), "nothing is secret");
    }
    // Whoever is in the network of the node may listen there.
    let told = format!("{:#}", settings(&[HEADERS]).err().expect("a collector that nobody named"));
    assert!(told.contains("OTEL_EXPORTER_OTLP_ENDPOINT") && told.contains(HEADERS.0), "{told}");
}

/// The collector says "too many attributes".
#[tokio::test]
async fn what_a_collector_repeats_of_a_secret_is_not_in_the_log() {
    for (headers, user) in [
        ("authorization=Bearer%20attributes", ""),
        ("x-key=attributes,x-other=attribute", ""),
        ("", "u:attributes@"),
        ("", "u:%61ttributes@"),
    ] {
        let collector = Collector::start().await;
        collector.rejects.store(1, Ordering::Relaxed);
        let url = collector.url.replace("http://", &format!("http://{user}"));
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_EXPORTER_OTLP_HEADERS", headers)];
        let (_guard, sender, lines) = traced(&variables);
        let stop = CancellationToken::new();
        span("a");
        stop.cancel();
        sender.run(stop).await;
        let told = (lines.with("too many (a header)"), lines.with("attribute"));
        assert_eq!(told, (1, 0), "{headers} {user}: {}", String::from_utf8_lossy(&lines.0.lock()));
    }
}
