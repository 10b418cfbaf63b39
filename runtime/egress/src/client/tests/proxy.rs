//! Through a proxy.

use super::*;

/// A proxy that answers every `CONNECT` by a connection to `target`. The second: heads of requests.
async fn proxy(target: SocketAddr, answer: &'static str) -> (SocketAddr, Arc<Mutex<Vec<String>>>, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heads);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            told.lock().push(String::from_utf8(head).unwrap());
            stream.write_all(answer.as_bytes()).await.unwrap();
            if answer.contains(" 200 ") {
                let mut target = TcpStream::connect(target).await.unwrap();
                let _gone = tokio::io::copy_bidirectional(&mut stream, &mut target).await;
            }
        }
    });
    (address, heads, tasks)
}

fn through(proxy: Proxy, tls: TlsOptions, lookup: Lookup) -> EndpointClient {
    let settings = ClientSettings::default();
    EndpointClient::new("api", tls, Some(proxy), false, AddressRules::default(), settings, lookup)
}

#[tokio::test]
async fn a_proxy_gets_the_name_and_its_login_and_nothing_of_the_request() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.acceptor(false)), Arc::new(hello)).await;
    let (address, heads, _tasks) = proxy(server.address, "HTTP/1.1 200 OK\r\n\r\n").await;
    let given: Proxy = format!("http://me:p%40ss@{address}").parse().unwrap();
    assert_eq!(given.password().map(Secret::expose), Some(b"p@ss".as_slice()));
    assert!(!format!("{given:?}").contains("ss"), "{given:?}");
    let client = through(given, pki.trusted(), never());
    assert_eq!(get(&client, "https://api.test:8443/v2/x?token=hush").await, Ok(200));
    let heads = heads.lock().clone();
    assert_eq!(heads.len(), 1);
    assert!(heads[0].starts_with("CONNECT api.test:8443 HTTP/1.1\r\n"), "{}", heads[0]);
    let lower = heads[0].to_ascii_lowercase();
    assert!(lower.contains("\r\nproxy-authorization: basic bwu6cebzcw==\r\n"), "{lower}");
    assert!(!heads[0].contains("hush"), "{}", heads[0]);
    assert!(!server.seen.lock()[0].contains("proxy-authorization"), "{:?}", server.seen.lock());
}

#[tokio::test]
async fn a_proxy_that_refuses_is_no_connection_and_certainly_nothing_was_sent() {
    let (address, _, _tasks) =
        proxy(([127, 0, 0, 1], 1).into(), "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
    // Not the authorities of the system: it may have none.
    let pki = Pki::new();
    let client = through(address.to_string().parse().unwrap(), pki.trusted(), never());
    let error = get(&client, "https://api.test/v2/x?token=hush").await.unwrap_err();
    assert_eq!((error.reason, error.maybe_sent), (TransportReason::Connect, false), "{error}");
}

#[tokio::test]
async fn a_proxy_beside_us_needs_no_grant_and_gives_none() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.acceptor(false)), Arc::new(hello)).await;
    let (address, heads, _tasks) = proxy(server.address, "HTTP/1.1 200 OK\r\n\r\n").await;
    let given = Proxy::from_environment(&format!("proxy.test:{}", address.port()), Some("10.0.0.0/8,direct.test"));
    let client = through(given.unwrap(), pki.trusted(), home());
    assert_eq!(get(&client, "https://api.test/").await, Ok(200));
    let error = get(&client, &server.url("https", "direct.test")).await.unwrap_err();
    assert_eq!(error.reason, TransportReason::Denied, "NO_PROXY does not lead around the address rules: {error}");
    assert_eq!(heads.lock().len(), 1);
}

#[test]
fn what_is_no_proxy_is_refused_without_repeating_the_password() {
    let cases = [
        ("socks5://me:hush@proxy.test:1080", ProxyError::Scheme),
        ("http://me:hush@proxy.test/path", ProxyError::More),
        ("http://me:hush@proxy.test?x", ProxyError::More),
        ("http://me:hush@", ProxyError::NotAUrl),
        ("http://me:hush@proxy.test:99999", ProxyError::NotAUrl),
        ("http://me:%ffhush@proxy.test", ProxyError::Login),
        ("", ProxyError::NotAUrl),
    ];
    for (text, expected) in cases {
        let error = text.parse::<Proxy>().unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(!error.to_string().contains("hush"), "{error}");
    }
}

/// What is told of a proxy is what the HTTP client does with it.
#[tokio::test]
async fn the_proxy_that_is_told_is_the_one_that_requests_go_through() {
    let pki = Pki::new();
    for (proxy_of, url, is_through) in [
        ("flag", "https://api.test/", true),
        ("flag", "https://direct.test/", true),
        ("environment", "https://api.test/", true),
        ("environment", "https://direct.test/", false),
        ("environment", "https://a.direct.test/", false),
        ("environment", "https://10.1.2.3/", false),
        ("environment", "http://api.test/", false),
    ] {
        let (address, heads, _tasks) = proxy(([127, 0, 0, 1], 1).into(), "HTTP/1.1 403 Forbidden\r\n\r\n").await;
        let text = format!("http://me:hush@{address}");
        let given = match proxy_of {
            "flag" => text.parse().unwrap(),
            _ => Proxy::from_environment(&text, Some("10.0.0.0/8,direct.test")).unwrap(),
        };
        let told = given.before(&url.parse().unwrap());
        assert_eq!(told, is_through.then(|| format!("http://{address}")), "{proxy_of} {url}");
        // An address that nobody may connect to: whoever does not go to the proxy goes nowhere.
        let settings = ClientSettings { connect_timeout: Duration::from_millis(200), ..ClientSettings::default() };
        let client =
            EndpointClient::new("api", pki.trusted(), Some(given), true, AddressRules::default(), settings, home());
        assert!(get(&client, url).await.is_err());
        assert_eq!(heads.lock().len(), usize::from(is_through), "{proxy_of} {url}");
    }
}
