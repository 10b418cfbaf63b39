//! Ports, with clients that do what they should, and clients that do not.

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::*;

const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const PATIENCE: Patience = Patience { head: HEAD_TIMEOUT, write: HEAD_TIMEOUT, age: Duration::from_secs(3_600) };
/// How long a test waits for what comes at once.
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_port_that_is_stopped_answers_what_it_was_asked_and_waits_for_nobody_else() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let chain = vec![made.cert.der().clone()];
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let client = TlsConnector::from(Arc::new(client));

    let listener = bind(([127, 0, 0, 1], 0).into(), "").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, tls) = (CancellationToken::new(), TlsAcceptor::from(Arc::new(config)));
    let (asked, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let answer = {
        let (asked, go) = (Arc::clone(&asked), Arc::clone(&go));
        move |_: Request<Incoming>| {
            let (asked, go) = (Arc::clone(&asked), Arc::clone(&go));
            async move {
                asked.notify_one();
                go.notified().await;
                page(StatusCode::OK, TEXT, "done")
            }
        }
    };
    // Cuts the one that does not end.
    let grace = 10 * LIMIT;
    let patience = Patience { head: 2 * grace, write: 2 * grace, age: 2 * grace };
    let port = Port { name: "test", listener, tls, connections: 4, patience, stop: stop.clone(), grace };
    let mut tasks = JoinSet::new();
    tasks.spawn(port.serve(answer));
    let connect = async || {
        let stream = TcpStream::connect(address).await.unwrap();
        client.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    };
    let (mut asks, mut idles, mut dawdles) = (connect().await, connect().await, connect().await);
    asks.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    dawdles.write_all(b"GET / HT").await.unwrap();
    asked.notified().await;
    stop.cancel();
    let mut said = vec![];
    drop(tokio::time::timeout(LIMIT, idles.read_to_end(&mut said)).await.unwrap());
    assert_eq!(said, b"");
    go.notify_one();
    drop(tokio::time::timeout(LIMIT, asks.read_to_end(&mut said)).await.unwrap());
    let said = String::from_utf8(said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("done"), "{said}");
    tokio::time::pause();
    tokio::time::advance(grace).await;
    tokio::time::resume();
    tokio::time::timeout(LIMIT / 2, tasks.join_next()).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

/// The port's side and a client that trusts it.
fn trusted() -> (TlsAcceptor, TlsConnector) {
    trusted_with(MinTls::default(), rustls::DEFAULT_VERSIONS)
}

fn trusted_with(least: MinTls, versions: &[&'static rustls::SupportedProtocolVersion]) -> (TlsAcceptor, TlsConnector) {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| folder.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_protocol_versions(versions);
    let client = client.with_root_certificates(roots).with_no_client_auth();
    (acceptor(Some((&certificate, &key)), least).unwrap(), TlsConnector::from(Arc::new(client)))
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

async fn answer(_: Request<Incoming>) -> Page {
    page(StatusCode::OK, TEXT, "ok")
}

#[tokio::test]
async fn an_older_tls_than_the_least_is_refused() {
    let old = [&rustls::version::TLS12];
    for (least, versions, is_taken) in
        [(MinTls::V12, &old[..], true), (MinTls::V13, &old, false), (MinTls::V13, rustls::DEFAULT_VERSIONS, true)]
    {
        let (acceptor, connector) = trusted_with(least, versions);
        let (near, far) = tokio::io::duplex(1 << 16);
        let (port, client) = tokio::join!(acceptor.accept(near), connector.connect(localhost(), far));
        assert_eq!((port.is_ok(), client.is_ok()), (is_taken, is_taken), "{least:?}");
    }
}

/// Of the only connection of a port.
fn activity() -> Activity {
    Connections::new(1).activity()
}

/// As a probe of the kubelet.
const PROBE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_finish_its_handshake_or_its_head_is_dropped() {
    for (name, is_greeted, says) in [
        ("nothing", false, &b""[..]),
        ("half a handshake", false, &[22, 3, 1, 0, 200, 1]),
        ("no request", true, b""),
        ("half a request", true, &PROBE[..PROBE.len() - 2]),
    ] {
        let (acceptor, connector) = trusted();
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let begun = Instant::now();
        let client = async {
            if is_greeted {
                let mut stream = connector.connect(localhost(), far).await.unwrap();
                stream.write_all(says).await.unwrap();
                // Longer than any patience: what ends first is the port's.
                drop(tokio::time::timeout(HEAD_TIMEOUT * 2, stream.read_to_end(&mut vec![])).await);
            } else {
                far.write_all(says).await.unwrap();
                drop(tokio::time::timeout(HEAD_TIMEOUT * 2, far.read_to_end(&mut vec![])).await);
            }
        };
        let port = converse(near, acceptor, answer, PATIENCE, activity(), CancellationToken::new());
        drop(tokio::join!(port, client));
        let took = begun.elapsed();
        assert!((HEAD_TIMEOUT..HEAD_TIMEOUT + Duration::from_millis(50)).contains(&took), "{name}: {took:?}");
    }
}

/// A port on which 4 connections are open at most, and its address.
async fn port_of_four<A, F>(acceptor: TlsAcceptor, answer: A) -> (JoinSet<()>, SocketAddr)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Page> + Send + 'static,
{
    let listener = bind(([127, 0, 0, 1], 0).into(), "").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, grace) = (CancellationToken::new(), Duration::ZERO);
    let mut port = JoinSet::new();
    port.spawn(
        Port { name: "test", listener, tls: acceptor, connections: 4, patience: PATIENCE, stop, grace }.serve(answer),
    );
    (port, address)
}

async fn probe(connector: &TlsConnector, address: SocketAddr) -> String {
    probe_by(TcpStream::connect(address).await.unwrap(), connector).await
}

async fn probe_by(stream: TcpStream, connector: &TlsConnector) -> String {
    let mut stream = connector.connect(localhost(), stream).await.unwrap();
    stream.write_all(PROBE).await.unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// Slow clients once took all places for 10 s each, again and again: probes found none, and the kubelet ended the pod.
#[tokio::test]
async fn probes_are_answered_while_more_clients_than_there_are_places_say_nothing() {
    let (acceptor, connector) = trusted();
    let (_port, address) = port_of_four(acceptor, answer).await;
    let mut idle = Vec::new();
    // 16 may make their handshake.
    for _ in 0..24 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    for _ in 0..3 {
        let answer = tokio::time::timeout(HEAD_TIMEOUT / 2, probe(&connector, address)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    // The first ones made room. An end is an end, however it is told.
    for mut gone in idle.into_iter().take(8) {
        let said = tokio::time::timeout(HEAD_TIMEOUT / 2, gone.read(&mut [0])).await.expect("it is closed");
        assert!(matches!(said, Ok(0) | Err(_)), "{said:?}");
    }
}

/// To a loopback address the kubelet and everybody else on its node come from the same one: so many connections without a word ended its probe.
#[tokio::test]
async fn a_probe_keeps_its_place_while_others_take_more_than_all_places_during_its_handshake() {
    let (acceptor, connector) = trusted();
    let (_port, address) = port_of_four(acceptor, answer).await;
    let slow = TcpStream::connect(address).await.unwrap();
    let mut others = Vec::new();
    for _ in 0..14 {
        others.push(TcpStream::connect(address).await.unwrap());
    }
    // Connections are accepted in their order: when the last one is answered, all others are there.
    for stream in [TcpStream::connect(address).await.unwrap(), slow] {
        let answer = tokio::time::timeout(HEAD_TIMEOUT / 2, probe_by(stream, &connector)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
}

/// Without it all clients are one, and nothing is kept for those that asked nothing for a while.
#[tokio::test]
async fn an_answer_knows_from_which_address_it_is_asked() {
    let (acceptor, connector) = trusted();
    let tell = |request: Request<Incoming>| {
        let peer = request.extensions().get::<Peer>().copied();
        std::future::ready(page(StatusCode::OK, TEXT, format!("{peer:?}")))
    };
    let (_port, address) = port_of_four(acceptor, tell).await;
    for from in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let answer = probe_by(socket.connect(address).await.unwrap(), &connector).await;
        assert!(answer.ends_with(&format!("\r\n{:?}", Some(Peer::new(from.into())))), "{answer}");
    }
}

/// It kept its answer, and with it its place, for as long as it liked.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_dropped() {
    let (acceptor, connector) = trusted();
    let (near, far) = tokio::io::duplex(1 << 12);
    let large = |_: Request<Incoming>| std::future::ready(page(StatusCode::OK, TEXT, vec![b'x'; 1 << 20]));
    let begun = Instant::now();
    let client = async {
        let mut stream = connector.connect(localhost(), far).await.unwrap();
        stream.write_all(PROBE).await.unwrap();
        stream
    };
    let port = converse(near, acceptor, large, PATIENCE, activity(), CancellationToken::new());
    let (ended, _stream) = tokio::join!(port, client);
    assert!(ended.is_err());
    assert!((HEAD_TIMEOUT..HEAD_TIMEOUT + Duration::from_millis(50)).contains(&begun.elapsed()));
}

/// Whoever reaches a port can send one on each of its connections: the largest token fits, and not much more.
#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_large_is_refused_and_nobody_is_asked() {
    for (bytes, expected) in [(20 << 10, "HTTP/1.1 200 OK\r\n"), (40 << 10, "HTTP/1.1 431 ")] {
        for is_finished in [true, false] {
            let (acceptor, connector) = trusted();
            let (near, far) = tokio::io::duplex(1 << 20);
            let client = async {
                let mut stream = connector.connect(localhost(), far).await.unwrap();
                let head = format!("GET /livez HTTP/1.1\r\nConnection: close\r\nX: {}", "x".repeat(bytes));
                stream.write_all(head.as_bytes()).await.unwrap();
                if is_finished {
                    stream.write_all(b"\r\n\r\n").await.unwrap();
                }
                let mut said = vec![];
                drop(tokio::time::timeout(HEAD_TIMEOUT / 2, stream.read_to_end(&mut said)).await);
                String::from_utf8(said).unwrap()
            };
            let port = converse(near, acceptor, answer, PATIENCE, activity(), CancellationToken::new());
            let (_, said) = tokio::join!(port, client);
            let is_answered = is_finished || expected.contains("431");
            assert!(if is_answered { said.starts_with(expected) } else { said.is_empty() }, "{bytes}: {said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_at_its_age_however_often_it_asks() {
    let (acceptor, connector) = trusted();
    let (near, far) = tokio::io::duplex(1 << 16);
    let begun = Instant::now();
    let client = async {
        let mut stream = connector.connect(localhost(), far).await.unwrap();
        let mut asked = 0;
        let mut said = [0; 4096];
        loop {
            let ask = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
            if ask.is_err() || !matches!(stream.read(&mut said).await, Ok(1..)) {
                return asked;
            }
            asked += 1;
            tokio::time::sleep(HEAD_TIMEOUT / 2).await;
        }
    };
    let patience = Patience { age: 10 * HEAD_TIMEOUT + Duration::from_secs(1), ..PATIENCE };
    let port = converse(near, acceptor, answer, patience, activity(), CancellationToken::new());
    let (ended, asked) = tokio::join!(port, client);
    ended.unwrap();
    assert_eq!(asked, 21);
    assert!(begun.elapsed() < 11 * HEAD_TIMEOUT, "{:?}", begun.elapsed());
}

/// The files of two pairs, mixed: the library's word for it is `KeyMismatch`.
#[test]
fn a_key_of_another_certificate_is_told_with_both_files_and_their_flags() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let [one, other] = ["one", "other"].map(|name| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap());
    let (certificate, key) = (file("tls.crt", one.cert.pem()), file("tls.key", other.signing_key.serialize_pem()));
    let told = format!(
        "--tls-private-key-file {} is not the private key of the certificate in --tls-cert-file {}; give the key that the certificate was \
         made for, and the server's own certificate first in its file",
        key.display(),
        certificate.display()
    );
    let error = acceptor(Some((&certificate, &key)), MinTls::default()).err().unwrap();
    assert_eq!(format!("{error:#}"), told);
    let key = file("own.key", one.signing_key.serialize_pem());
    assert!(acceptor(Some((&certificate, &key)), MinTls::default()).is_ok());
}

/// A key that lost its line breaks, as in a Secret made from an environment variable, was written to the log byte by byte.
#[test]
fn a_key_without_line_breaks_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (good, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    std::fs::write(&good, made.cert.pem()).unwrap();
    for breaks in ["", " ", "\\n"] {
        let line = made.signing_key.serialize_pem().replace('\n', breaks);
        std::fs::write(&key, &line).unwrap();
        // Also where the files are mixed up.
        for certificate in [&good, &key] {
            let error = read_pair(("--cert", certificate), ("--key", &key)).unwrap_err();
            let (told, flag) = (format!("{error:#}"), if certificate == &good { "--key" } else { "--cert" });
            assert!(told.starts_with(&format!("{flag} {}: it is not PEM: ", key.display())), "{told}");
            let bytes = format!("{:?}", line.as_bytes());
            let part = &bytes[60..90];
            assert!(!told.contains(&line[40..60]) && !told.contains(part), "{told}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_under_way_is_given_when_its_connection_is_too_old() {
    let (acceptor, connector) = trusted();
    let (near, far) = tokio::io::duplex(1 << 16);
    let slow = |_: Request<Incoming>| async {
        tokio::time::sleep(HEAD_TIMEOUT / 2).await;
        page(StatusCode::OK, TEXT, "ok")
    };
    let client = async {
        let mut stream = connector.connect(localhost(), far).await.unwrap();
        stream.write_all(PROBE).await.unwrap();
        let mut said = vec![];
        drop(stream.read_to_end(&mut said).await);
        String::from_utf8(said).unwrap()
    };
    let patience = Patience { age: Duration::from_secs(1), ..PATIENCE };
    let port = converse(near, acceptor, slow, patience, activity(), CancellationToken::new());
    let (_, said) = tokio::join!(port, client);
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
}

#[tokio::test]
async fn a_port_in_use_is_told_with_the_flags_that_choose_another() {
    let listener = bind(([127, 0, 0, 1], 0).into(), "").await.unwrap();
    let taken = listener.local_addr().unwrap();
    let error = bind(taken, "--bind-address and --secure-port").await.unwrap_err();
    let told = format!("cannot listen on {taken}; choose another with --bind-address and --secure-port");
    assert!(format!("{error:#}").starts_with(&told), "{error:#}");
}
