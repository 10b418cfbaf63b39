//! Connections that are kept for the next request: how many, and for how long.

use std::time::Duration;

use super::*;

const AT_ONCE: usize = 3;

fn keeping(settings: ClientSettings) -> EndpointClient {
    EndpointClient::new("api", TlsOptions::default(), None, true, GRANTED, settings, never())
}

/// More than the buffers on the way hold: its connection is taken until somebody reads it.
const LARGE: usize = 16 << 20;

fn large(_: &Request<Incoming>) -> Response<Full<Bytes>> {
    Response::new(Full::from(vec![b'x'; LARGE]))
}

/// So many requests at the same time: the connection of each is taken until its answer is read.
async fn ask(client: &EndpointClient, url: &str) {
    let mut answers = vec![];
    for _ in 0..AT_ONCE {
        answers.push(client.get().unwrap().get(url).send().await.unwrap());
    }
    for answer in answers {
        assert_eq!(answer.bytes().await.unwrap().len(), LARGE);
    }
    // The connections are given back by tasks of their own.
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// `idle-connections`
#[tokio::test]
async fn as_many_connections_are_kept_as_the_limit_says() {
    for (idle_connections, made) in [(0, 6), (1, 5), (3, 3), (100, 3)] {
        let server = Server::plain(large).await;
        let client = keeping(ClientSettings { idle_connections, ..ClientSettings::default() });
        let url = server.url("http", "127.0.0.1");
        ask(&client, &url).await;
        assert_eq!(server.connections(), AT_ONCE);
        ask(&client, &url).await;
        assert_eq!(server.connections(), made, "{idle_connections} are kept");
    }
}

/// `idle-time`
#[tokio::test]
async fn a_connection_is_kept_as_long_as_the_limit_says() {
    for (idle_timeout, ended) in [(Duration::from_millis(100), AT_ONCE), (Duration::from_secs(600), 0)] {
        let server = Server::plain(large).await;
        let client = keeping(ClientSettings { idle_timeout, ..ClientSettings::default() });
        let url = server.url("http", "127.0.0.1");
        ask(&client, &url).await;
        server.await_ended(ended).await;
        ask(&client, &url).await;
        assert_eq!(server.connections(), AT_ONCE + ended, "{idle_timeout:?}");
    }
}
