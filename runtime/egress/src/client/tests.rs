mod idle;
mod proxy;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::error::no_answer;

const GRANTED: AddressRules = AddressRules { loopback: true };

pub(crate) type Handler = Arc<dyn Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Send + Sync>;

/// A server on 127.0.0.1 that remembers who came. Ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<Mutex<usize>>,
    /// Those that have ended.
    ended: Arc<Mutex<usize>>,
    seen: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(tls: Option<TlsAcceptor>, handler: Handler) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, ended) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let (counted, gone, told) = (Arc::clone(&connections), Arc::clone(&ended), Arc::clone(&seen));
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *counted.lock() += 1;
                let (tls, handler, told) = (tls.clone(), Arc::clone(&handler), Arc::clone(&told));
                let gone = Arc::clone(&gone);
                open.spawn(async move {
                    match tls {
                        None => serve(stream, handler, told).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, handler, told).await;
                            }
                        }
                    }
                    *gone.lock() += 1;
                });
            }
        });
        Self { address, connections, ended, seen, _tasks: tasks }
    }

    async fn plain(handler: impl Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Send + Sync + 'static) -> Self {
        Self::start(None, Arc::new(handler)).await
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock()
    }

    /// Waits until so many connections have ended.
    async fn await_ended(&self, many: usize) {
        let waiting = async {
            while *self.ended.lock() < many {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
    }

    pub(crate) fn url(&self, scheme: &str, host: &str) -> String {
        format!("{scheme}://{host}:{}/v2/x?token=hush", self.address.port())
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    handler: Handler,
    told: Arc<Mutex<Vec<String>>>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        told.lock().push(format!("{:?}", request.headers()));
        let answer = handler(&request);
        async move { Ok::<_, hyper::Error>(answer) }
    });
    // A client that leaves is not the server's error.
    let _gone = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

pub(crate) fn hello(_: &Request<Incoming>) -> Response<Full<Bytes>> {
    Response::new(Full::from("hello"))
}

/// The last answer is repeated.
pub(crate) fn names(answers: &[&str]) -> Lookup {
    let mut left: Vec<SocketAddr> = answers.iter().rev().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
    assert!(!left.is_empty());
    let next = Mutex::new(move || if left.len() > 1 { left.pop().unwrap() } else { left[0] });
    Arc::new(move |_| {
        let answer = (*next.lock())();
        Box::pin(std::future::ready(Ok(vec![answer])))
    })
}

fn home() -> Lookup {
    names(&["127.0.0.1"])
}

fn never() -> Lookup {
    Arc::new(|name| panic!("{name} is resolved"))
}

fn client(tls: TlsOptions, addresses: AddressRules, lookup: Lookup) -> EndpointClient {
    EndpointClient::new("api", tls, None, true, addresses, ClientSettings::default(), lookup)
}

async fn get(client: &EndpointClient, url: &str) -> Result<u16, TransportError> {
    let sent = client.get()?.get(url).send().await;
    sent.map(|answer| answer.status().as_u16()).map_err(|error| no_answer(error, "GET /v2/x"))
}

/// An authority with certificates for a server and a client, in files.
pub(crate) struct Pki {
    folder: TempDir,
    pub(crate) ca: PathBuf,
    client: ClientCertificate,
    server: (CertificateDer<'static>, PrivateKeyDer<'static>),
    root: CertificateDer<'static>,
}

impl Pki {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// The same with another certificate of the server.
    pub(crate) fn with(change: impl Fn(&mut CertificateParams)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let sign = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            if name == "api.test" {
                change(&mut params);
            }
            (params.signed_by(&key, &ca).unwrap(), key)
        };
        let (server, server_key) = sign("api.test");
        let (client, client_key) = sign("ccm.test");
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        Self {
            ca: write("ca.pem", ca.pem()),
            client: ClientCertificate {
                certificate: write("client.pem", client.pem()).into(),
                key: write("client.key", client_key.serialize_pem()).into(),
            },
            server: (server.der().clone(), PrivateKeyDer::try_from(server_key.serialize_der()).unwrap()),
            root: ca.der().clone(),
            folder,
        }
    }

    pub(crate) fn acceptor(&self, wants_certificate: bool) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = if wants_certificate {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(self.root.clone()).unwrap();
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            config.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            config.with_no_client_auth()
        };
        let (certificate, key) = (self.server.0.clone(), self.server.1.clone_key());
        TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).unwrap()))
    }

    fn trusted_inline(&self) -> TlsOptions {
        let pem = std::fs::read_to_string(&self.ca).unwrap();
        let inline = InlinePem { pem, origin: "key ca of [tls]".to_owned() };
        TlsOptions { ca_certificates: Some(inline), ..TlsOptions::default() }
    }

    fn trusted(&self) -> TlsOptions {
        TlsOptions { ca_file: Some(self.ca.clone().into()), ..TlsOptions::default() }
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_nobody_goes_there() {
    let elsewhere = Server::plain(hello).await;
    for status in [301, 302, 303, 307, 308] {
        let target = elsewhere.url("http", "127.0.0.1");
        let answer = move |_: &Request<Incoming>| {
            Response::builder().status(status).header("location", &target).body(Full::default()).unwrap()
        };
        let server = Server::plain(answer).await;
        let client = client(TlsOptions::default(), GRANTED, home());
        assert_eq!(get(&client, &server.url("http", "api.test")).await, Ok(status));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_or_to_a_metadata_service_is_denied_and_nothing_is_sent() {
    let server = Server::plain(hello).await;
    let cases = [
        ("127.0.0.1", "api.test is a loopback address, which --allow-loopback would grant"),
        ("::1", "api.test is a loopback address, which --allow-loopback would grant"),
        ("::ffff:127.0.0.1", "api.test is a loopback address, which --allow-loopback would grant"),
        ("169.254.169.254", "api.test is a link-local address"),
        ("fd00:ec2::254", "api.test is the address of a metadata service"),
        ("0.0.0.0", "api.test is an unspecified address"),
    ];
    for (ip, problem) in cases {
        let client = client(TlsOptions::default(), AddressRules::default(), names(&[ip]));
        let error = get(&client, &server.url("http", "api.test")).await.unwrap_err();
        assert_eq!(error, TransportError::denied(format!("GET /v2/x: {problem}")), "{ip}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_checked_at_every_connection() {
    let close =
        |_: &Request<Incoming>| Response::builder().header("connection", "close").body(Full::from("hello")).unwrap();
    let server = Server::plain(close).await;
    let client = client(TlsOptions::default(), GRANTED, names(&["127.0.0.1", "169.254.169.254"]));
    assert_eq!(get(&client, &server.url("http", "api.test")).await, Ok(200));
    let error = get(&client, &server.url("http", "api.test")).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::Denied, false), "{error}");

    // 192.0.2.1 is nobody's (RFC 5737).
    let settings = ClientSettings { connect_timeout: Duration::from_millis(300), ..ClientSettings::default() };
    let answers = names(&["192.0.2.1", "127.0.0.1"]);
    let none = TlsOptions::default();
    let client = EndpointClient::new("api", none, None, true, AddressRules::default(), settings, answers);
    let reasons = [
        get(&client, &server.url("http", "api.test")).await.unwrap_err().reason,
        get(&client, &server.url("http", "api.test")).await.unwrap_err().reason,
    ];
    assert_eq!(reasons, [TransportReason::Connect, TransportReason::Denied]);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn trust_is_in_the_given_authorities_alone() {
    let (pki, other) = (Pki::new(), Pki::new());
    let server = Server::start(Some(pki.acceptor(false)), Arc::new(hello)).await;
    let skip = TlsOptions { skip_verification: true, ..TlsOptions::default() };
    let skip_despite_ca = TlsOptions { skip_verification: true, ..other.trusted() };
    let cases = [
        ("own authority", pki.trusted(), "api.test", Ok(200)),
        ("own authority, in the configuration", pki.trusted_inline(), "api.test", Ok(200)),
        ("both", TlsOptions { ca_file: other.trusted().ca_file, ..pki.trusted_inline() }, "api.test", Ok(200)),
        ("another one, in the configuration", other.trusted_inline(), "api.test", Err("unknown authority")),
        ("another authority", other.trusted(), "api.test", Err("unknown authority")),
        ("another name", pki.trusted(), "other.test", Err("for another name")),
        ("authorities of the system", TlsOptions::default(), "api.test", Err("")),
        ("anybody", skip, "other.test", Ok(200)),
        ("anybody, and a file", skip_despite_ca, "other.test", Ok(200)),
    ];
    for (case, tls, host, expected) in cases {
        let result = get(&client(tls, GRANTED, home()), &server.url("https", host)).await;
        match (result, expected) {
            (Ok(status), expected) => assert_eq!(Ok(status), expected, "{case}"),
            (Err(error), expected) => {
                let advice = expected.expect_err(case);
                assert!(error.message.contains(advice), "{case}: {error} does not say {advice:?}");
                assert_eq!((error.reason, error.maybe_sent), (TransportReason::Tls, false), "{case}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_tls_is_told_from_one_that_nobody_trusts() {
    let (pki, server) = (Pki::new(), Server::start(None, Arc::new(hello)).await);
    let error = get(&client(pki.trusted(), GRANTED, home()), &server.url("https", "api.test")).await.unwrap_err();
    assert!(error.message.contains("does not speak TLS"), "{error}");
}

/// The environment belongs to the process, so this test runs itself once more in another one.
#[test]
fn of_the_environment_only_the_system_authorities_count_and_these_only_without_a_file() {
    if let Some(system) = std::env::var_os("SSL_CERT_FILE").filter(|_| std::env::var_os("CCM_TEST_CHILD").is_some()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(authorities_of_the_system(Path::new(&system)));
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "client::tests::of_the_environment_only_the_system_authorities_count_and_these_only_without_a_file";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name]).env("CCM_TEST_CHILD", "1").env("SSL_CERT_FILE", folder.path().join("system.pem"));
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        child.env(proxy, "http://127.0.0.1:1");
    }
    let output = child.env_remove("NO_PROXY").env_remove("no_proxy").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

async fn authorities_of_the_system(file: &Path) {
    let (pki, other) = (Pki::new(), Pki::new());
    std::fs::copy(&pki.ca, file).unwrap();
    let server = Server::start(Some(pki.acceptor(false)), Arc::new(hello)).await;
    for (tls, expected) in [(TlsOptions::default(), Ok(200)), (other.trusted(), Err(TransportReason::Tls))] {
        let result = get(&client(tls, GRANTED, home()), &server.url("https", "api.test")).await;
        assert_eq!(result.map_err(|error| error.reason), expected);
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_one_is_wanted() {
    let (pki, other) = (Pki::new(), Pki::new());
    let server = Server::start(Some(pki.acceptor(true)), Arc::new(hello)).await;
    let with = |client: Option<&ClientCertificate>| TlsOptions { client: client.cloned(), ..pki.trusted() };
    let cases = [
        (Some(&pki.client), Ok(200)),
        (Some(&other.client), Err(TransportReason::Tls)),
        (None, Err(TransportReason::Tls)),
    ];
    for (certificate, expected) in cases {
        let result = get(&client(with(certificate), GRANTED, home()), &server.url("https", "api.test")).await;
        assert_eq!(result.map_err(|error| error.reason), expected, "{certificate:?}");
    }
    assert_eq!(server.seen.lock().len(), 1, "only one of them got through to ask");
}

#[tokio::test]
async fn changed_files_are_read_again_and_broken_ones_change_nothing() {
    let (pki, other) = (Pki::new(), Pki::new());
    let server = Server::start(Some(pki.acceptor(false)), Arc::new(hello)).await;
    let url = server.url("https", "api.test");
    // As kubelet does it: the file is a link, and the link is changed.
    let link = pki.folder.path().join("link.pem");
    let point = |target: &Path| {
        let new = pki.folder.path().join("new.pem");
        std::os::unix::fs::symlink(target, &new).unwrap();
        std::fs::rename(&new, &link).unwrap();
    };
    point(&other.ca);
    let tls = TlsOptions { ca_file: Some(link.clone().into()), ..TlsOptions::default() };
    let client = client(tls, GRANTED, home());
    assert_eq!(get(&client, &url).await.unwrap_err().reason, TransportReason::Tls);
    point(&pki.ca);
    assert_eq!(get(&client, &url).await, Ok(200));
    let broken = pki.folder.path().join("broken.pem");
    std::fs::write(&broken, "not a certificate").unwrap();
    point(&broken);
    assert_eq!(get(&client, &url).await, Ok(200));
    std::fs::remove_file(&link).unwrap();
    assert_eq!(get(&client, &url).await, Ok(200));
    point(&other.ca);
    assert_eq!(
        get(&client, &url).await.unwrap_err().reason,
        TransportReason::Tls,
        "connections of before are not used"
    );
}

#[tokio::test]
async fn files_that_do_not_work_are_named() {
    let pki = Pki::new();
    let broken = pki.folder.path().join("broken.pem");
    std::fs::write(&broken, "not a certificate").unwrap();
    let missing = pki.folder.path().join("missing.pem");
    let large = pki.folder.path().join("large.pem");
    std::fs::write(&large, vec![b'x'; usize::try_from(MAX_TLS_FILE).unwrap() + 1]).unwrap();
    let other_key = Pki::new();
    let ca = |path: &Path| TlsOptions { ca_file: Some(path.to_owned().into()), ..TlsOptions::default() };
    let mismatch = ClientCertificate { certificate: pki.client.certificate.clone(), key: other_key.client.key.clone() };
    let no_key = ClientCertificate { certificate: pki.client.certificate.clone(), key: broken.clone().into() };
    let cases = [
        (ca(&broken), "broken.pem: no certificate in it"),
        (ca(&missing), "missing.pem: No such file"),
        (ca(&large), "large.pem: larger than 1048576 bytes"),
        (TlsOptions { client: Some(no_key), ..TlsOptions::default() }, "private key or certificate not found"),
        (TlsOptions { client: Some(mismatch), ..pki.trusted() }, "client.key: builder error: keys may"),
    ];
    for (tls, part) in cases {
        let error = client(tls, GRANTED, never()).get().unwrap_err();
        assert!(error.message.contains(part), "{:?} does not say {part:?}", error.message);
        assert_eq!((error.reason, error.maybe_sent), (TransportReason::Tls, false));
    }
}

#[tokio::test]
async fn http_needs_a_grant_also_where_the_url_was_not_looked_at() {
    let server = Server::plain(hello).await;
    let (tls, settings) = (Pki::new(), ClientSettings::default());
    let client = EndpointClient::new("api", tls.trusted(), None, false, GRANTED, settings, home());
    let error = get(&client, &server.url("http", "api.test")).await.unwrap_err();
    assert!(!error.maybe_sent, "{error}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn an_error_says_what_is_certain_and_tells_neither_url_nor_query() {
    let many = |_: &Request<Incoming>| {
        let answer = (0..65).fold(Response::builder(), |answer, i| answer.header(format!("x-{i}"), "1"));
        answer.body(Full::default()).unwrap()
    };
    let many = Server::plain(many).await;
    let client = client(TlsOptions::default(), GRANTED, home());
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    // Bound, so that nobody else gets the port.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let cases = [
        (many.address, TransportReason::TooLarge, true),
        (silent.local_addr().unwrap(), TransportReason::Timeout, true),
        (closed.local_addr().unwrap(), TransportReason::Connect, false),
    ];
    for (address, reason, maybe_sent) in cases {
        let url = format!("http://api.test:{}/v2/x?token=hush", address.port());
        // Only who waits in vain is not to wait for long: a busy machine takes its time for the others.
        let limit = Duration::from_millis(if reason == TransportReason::Timeout { 500 } else { 60_000 });
        let request = client.get().unwrap().get(url).timeout(limit);
        let error = no_answer(request.send().await.unwrap_err(), "GET /v2/x");
        assert_eq!((error.reason, error.maybe_sent), (reason, maybe_sent), "{error}");
        assert!(error.message.starts_with("GET /v2/x: "), "{error}");
        assert!(!error.message.contains("hush") && !error.message.contains("http://"), "{error}");
    }
    let mut dropping = JoinSet::new();
    let address = silent.local_addr().unwrap();
    dropping.spawn(async move {
        loop {
            let (mut stream, _) = silent.accept().await.unwrap();
            let mut some = [0; 16];
            let _read = stream.read(&mut some).await;
        }
    });
    let error = get(&client, &format!("http://api.test:{}/", address.port())).await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::Other, true), "{error}");
}

#[tokio::test]
async fn a_request_carries_our_name_and_no_cookie() {
    let cookie = |_: &Request<Incoming>| {
        Response::builder().header("set-cookie", "session=1; Path=/").body(Full::default()).unwrap()
    };
    let server = Server::plain(cookie).await;
    let client = client(TlsOptions::default(), GRANTED, home());
    for _ in 0..2 {
        assert_eq!(get(&client, &server.url("http", "api.test")).await, Ok(200));
    }
    let seen = server.seen.lock().clone();
    assert_eq!(seen.len(), 2);
    for headers in seen {
        assert!(headers.contains(&format!("\"user-agent\": \"wasm-ccm/{}\"", env!("CARGO_PKG_VERSION"))), "{headers}");
        assert!(headers.contains("\"accept-encoding\": \"gzip\""), "{headers}");
        assert!(!headers.contains("cookie") && !headers.contains("referer"), "{headers}");
    }
    assert_eq!(server.connections(), 1, "connections are kept");
}
