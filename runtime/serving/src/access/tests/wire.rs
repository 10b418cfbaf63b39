//! Requests as bytes: which forms of them get through.

use std::convert::Infallible;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// As bytes on the wire.
#[tokio::test(start_paused = true)]
async fn no_form_of_a_request_gets_around_the_wall() {
    let (wall, _) =
        wall(AccessSettings { always_allow: vec!["/livez".to_owned(), "/open/*".to_owned()], ..settings() });
    let wall = Arc::new(wall);
    let ask = async |request: String| {
        let wall = Arc::clone(&wall);
        let answer = service_fn(move |request: Request<Incoming>| {
            let wall = Arc::clone(&wall);
            async move {
                let path = request.uri().path().to_owned();
                let page = wall.reader(&request.into_parts().0).await.err();
                Ok::<_, Infallible>(page.unwrap_or_else(|| crate::https::page(StatusCode::OK, TEXT, path)))
            }
        });
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let client = async {
            far.write_all(request.as_bytes()).await.unwrap();
            let mut said = vec![];
            far.read_to_end(&mut said).await.unwrap();
            String::from_utf8(said).unwrap()
        };
        let port = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(near), answer);
        let (_, said) = tokio::join!(port, client);
        let status: u16 = said.split(' ').nth(1).unwrap_or_else(|| panic!("no answer to {request}")).parse().unwrap();
        (status, said.split_once("\r\n\r\n").unwrap().1.to_owned())
    };
    for (line, expected) in [
        ("GET /livez HTTP/1.1", 200),
        ("GET /livez HTTP/1.0", 200),
        ("HEAD /livez HTTP/1.1", 200),
        ("GET http://x/livez HTTP/1.1", 200),
        ("GET /metrics HTTP/1.1", 401),
        ("GET /metrics HTTP/1.0", 401),
        ("HEAD /metrics HTTP/1.1", 401),
        ("GET //metrics HTTP/1.1", 401),
        ("GET //livez HTTP/1.1", 401),
        ("GET /livez/ HTTP/1.1", 401),
        ("GET /livez/../metrics HTTP/1.1", 401),
        ("GET /livez;/metrics HTTP/1.1", 401),
        ("GET /livez%2f..%2fmetrics HTTP/1.1", 401),
        ("GET /%6civez HTTP/1.1", 401),
        ("GET /LIVEZ HTTP/1.1", 401),
        ("GET /metrics?/livez HTTP/1.1", 401),
        ("GET http://x/metrics HTTP/1.1", 401),
        ("GET http://livez HTTP/1.1", 401),
        ("GET * HTTP/1.1", 401),
        ("OPTIONS * HTTP/1.1", 405),
        ("OPTIONS /livez HTTP/1.1", 405),
        ("POST /livez HTTP/1.1", 405),
        ("get /livez HTTP/1.1", 405),
        ("CONNECT livez:80 HTTP/1.1", 405),
        ("TRACE /livez HTTP/1.1", 405),
        ("GET livez HTTP/1.1", 401),
    ] {
        let (status, text) = ask(format!("{line}\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
        assert_eq!(status, expected, "{line}: {text}");
    }
    // What is let in is what is served: whoever routes by the path finds no page at this one.
    let (status, path) = ask("GET /open/../metrics HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned()).await;
    assert_eq!((status, path.as_str()), (200, "/open/../metrics"));
    let (first, second) = ("Authorization: Bearer prometheus\r\n", "Authorization: Bearer unknown\r\n");
    for (headers, expected) in [
        (format!("{first}{second}"), 200),
        (format!("{second}{first}"), 401),
        (format!("Authorization: Basic x\r\n{first}"), 401),
        ("authorization: bEARER prometheus\r\n".to_owned(), 200),
        ("Authorization: Bearer prometheus, Bearer unknown\r\n".to_owned(), 401),
        ("Authorization:\tBearer\tprometheus\r\n".to_owned(), 401),
        ("X-Authorization: Bearer prometheus\r\n".to_owned(), 401),
        ("Cookie: Authorization=Bearer prometheus\r\n".to_owned(), 401),
        ("X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n".to_owned(), 401),
    ] {
        let (status, text) = ask(format!("GET /metrics HTTP/1.1\r\n{headers}Connection: close\r\n\r\n")).await;
        assert_eq!(status, expected, "{headers}: {text}");
    }
    let (status, text) =
        ask("GET /metrics?access_token=prometheus HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned()).await;
    assert_eq!(status, 401, "{text}");
}
