use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ccm_fake_api::Log;
use hyper::body::{Body as HttpBody, Bytes, Frame};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;

const LATER: &str = "/api/v1/services?&limit=20&continue=abc";

/// What the API server answers: a status, and the seconds after which it wants to be asked again; an error; and a body that breaks off.
#[derive(Debug, Clone, Copy)]
enum Says {
    Status(u16, Option<u64>),
    Error,
    BreaksOff,
}

/// A body of one piece.
struct Piece(Option<io::Result<Bytes>>);

impl HttpBody for Piece {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.0.take().map(|piece| piece.map(Frame::data)))
    }
}

/// Says this, and then that all is well. The requests that it gets are noted.
fn client(says: impl IntoIterator<Item = Says>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let says = Mutex::new(says.into_iter().collect::<VecDeque<_>>());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        noted.lock().push(request.uri().to_string());
        let says = says.lock().pop_front().unwrap_or(Says::Status(200, None));
        async move {
            let (status, wait, piece) = match says {
                Says::Status(status, wait) => (status, wait, Ok(Bytes::from_static(b"all of it"))),
                Says::Error => return Err(io::Error::other("no route to host")),
                Says::BreaksOff => (200, None, Err(io::Error::other("it broke off"))),
            };
            let mut answer = Response::new(Piece(Some(piece)));
            *answer.status_mut() = StatusCode::from_u16(status).unwrap();
            if let Some(wait) = wait {
                answer.headers_mut().insert(RETRY_AFTER, wait.into());
            }
            Ok(answer)
        }
    });
    (patient(Client::new(service, "default")), asked)
}

/// The status of the answer and its text; none where there is none.
async fn answer(client: &Client, method: Method, uri: &str) -> Option<(u16, String)> {
    let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
    let answer = client.send(request).await.ok()?;
    let status = answer.status().as_u16();
    let text = answer.into_body().collect_bytes().await.ok()?;
    Some((status, String::from_utf8(text.to_vec()).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_later_page_that_cannot_be_had_for_the_moment_is_asked_for_again_as_it_was() {
    let status = |status: u16| Says::Status(status, None);
    for says in [status(429), status(500), status(503), status(504), Says::Error, Says::BreaksOff] {
        let (client, asked) = client([says; 3]);
        let begun = Instant::now();
        assert_eq!(answer(&client, Method::GET, LATER).await, Some((200, "all of it".to_owned())), "{says:?}");
        assert_eq!(*asked.lock(), [LATER; 4], "{says:?}");
        let took = begun.elapsed();
        assert!((Duration::from_millis(3_500)..Duration::from_secs(8)).contains(&took), "{says:?}: {took:?}");
    }
}

/// A list of which one page could not be had for a minute was as silent as one that went well.
#[tokio::test(start_paused = true)]
async fn a_page_that_fails_again_and_again_is_told_once_and_one_that_fails_twice_is_not() {
    for (failures, told) in [(2, 0), (3, 1), (6, 1)] {
        let log = Log::start();
        let (client, _) = client([Says::Status(503, None)].repeat(failures));
        assert!(answer(&client, Method::GET, LATER).await.is_some());
        let lines = log.lines("a page of a list cannot be had, and is asked for again");
        let is_told =
            |line: &String| line.contains("WARN") && line.contains("/api/v1/services") && line.contains("503");
        assert!(lines.len() == told && lines.iter().all(is_told), "{failures}: {lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_api_server_says_when_it_wants_to_be_asked_again_within_bounds() {
    for (wish, seconds) in [(7, 7), (100_000, 30)] {
        let (client, asked) = client([Says::Status(429, Some(wish))]);
        let begun = Instant::now();
        assert!(answer(&client, Method::GET, LATER).await.is_some());
        assert_eq!((begun.elapsed().as_secs(), asked.lock().len()), (seconds, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_cannot_be_had_at_all_is_given_up_with_the_last_answer() {
    let (client, asked) = client([Says::Status(503, None); 100]);
    let begun = Instant::now();
    assert_eq!(answer(&client, Method::GET, LATER).await.map(|(status, _)| status), Some(503));
    assert_eq!(asked.lock().len(), MAX_TIMES + 1);
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
}

/// Of the first page nothing is lost, a write may have had its effect, and what is refused is refused again.
#[tokio::test(start_paused = true)]
async fn nothing_else_is_asked_for_again() {
    let rows = [
        (Method::GET, "/api/v1/services?&limit=20", 503),
        (Method::GET, "/api/v1/nodes/continue=abc", 503),
        (Method::GET, "/api/v1/services?&watch=true&resourceVersion=7", 503),
        (Method::PATCH, LATER, 503),
        (Method::DELETE, LATER, 429),
        (Method::GET, LATER, 403),
        (Method::GET, LATER, 410),
    ];
    for (method, uri, status) in rows {
        let (client, asked) = client([Says::Status(status, None)]);
        let told = answer(&client, method.clone(), uri).await;
        assert_eq!((told.map(|(status, _)| status), asked.lock().len()), (Some(status), 1), "{method} {uri} {status}");
    }
}
