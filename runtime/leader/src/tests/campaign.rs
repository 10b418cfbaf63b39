//! The thread of the election, against an API server of a few lines on loopback: time cannot be paused over two threads.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use ccm_apiserver::{ApiMetrics, EventMetrics};
use ccm_cloud::Leadership as _;
use kube::Config;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::campaign::{Campaign, Means};
use crate::election::Candidacy;
use crate::fence::Fence;
use crate::metrics::LeaderMetrics;
use crate::settings::Settings;
use crate::timing::Timing;

const MS: Duration = Duration::from_millis(1);
/// For what takes a moment; other builds and tests may share the machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What the API server has: the Lease, notes of Events, and how many renewals it saw.
#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    notes: Vec<String>,
    renewals: usize,
}

fn api_server() -> (Config, Arc<Mutex<Stored>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let stored: Arc<Mutex<Stored>> = Arc::default();
    let kept = Arc::clone(&stored);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || serve(&stream.unwrap(), &kept));
        }
    });
    (config, stored)
}

/// One connection, to its end.
fn serve(stream: &TcpStream, stored: &Mutex<Stored>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            (reader.read_until(b'\n', &mut head).ok()? > 0).then_some(())?;
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (status, answer) = stored.lock().answer(&head, body);
        let answer = answer.to_string();
        let length = answer.len();
        write!(
            &mut &*stream,
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{answer}"
        )
        .ok()?;
    }
}

impl Stored {
    fn answer(&mut self, head: &str, mut body: Value) -> (u16, Value) {
        let status = |code: u16, reason: &str| json!({ "kind": "Status", "status": "Failure", "message": "", "reason": reason, "code": code });
        let (verb, path) = head.split_once(' ').unwrap();
        if path.starts_with("/apis/events.k8s.io/v1/namespaces/kube-system/events") {
            assert_eq!((verb, body["regarding"]["kind"].as_str()), ("post", Some("Lease")));
            let [kind, reason, reporter, note] =
                ["type", "reason", "reportingController", "note"].map(|field| body[field].as_str().unwrap());
            self.notes.push(format!("{kind} {reason} of {reporter}: {note}"));
            return (201, body);
        }
        assert!(path.starts_with("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"), "{path}");
        match (verb, &self.lease) {
            ("get", None) => return (404, status(404, "NotFound")),
            ("get", Some(lease)) => return (200, lease.clone()),
            _ => {}
        }
        self.renewals += usize::from(verb == "put");
        body["metadata"]["namespace"] = json!("kube-system");
        body["metadata"]["uid"] = json!("uid-1");
        self.lease = Some(body.clone());
        (200, body)
    }
}

fn start(config: Config, timing: Timing) -> (Campaign, Arc<Fence>) {
    let settings = Settings {
        namespace: "kube-system".into(),
        name: "cloud-controller-manager".into(),
        identity: "one".into(),
        timing,
    };
    let mut registry = Registry::default();
    let fence = Arc::new(Fence::new(timing));
    let campaign = Campaign::start(Means {
        config,
        metrics: LeaderMetrics::register(&mut registry, &settings.name),
        settings,
        fence: Arc::clone(&fence),
        api_metrics: ApiMetrics::register(&mut registry),
        event_metrics: EventMetrics::default(),
        candidacy: watch::Sender::new(Candidacy::Standby { holder: String::new(), trouble: None }),
    });
    (campaign.unwrap(), fence)
}

/// The runtime of everything else hangs for three renewals.
#[tokio::test]
async fn whatever_hangs_elsewhere_the_lease_is_renewed_and_the_end_is_told_and_hands_it_on() {
    let (config, stored) = api_server();
    let timing = Timing::try_new(120_000 * MS, 60_000 * MS, 50 * MS).unwrap();
    let (mut campaign, fence) = start(config, timing);
    tokio::time::timeout(LIMIT, campaign.elected()).await.unwrap().unwrap();
    let (before, begun) = (stored.lock().renewals, Instant::now());
    while stored.lock().renewals < before + 3 {
        #[expect(clippy::disallowed_methods, reason = "hanging is what this is about")]
        std::thread::sleep(10 * MS);
        assert!(begun.elapsed() < LIMIT, "no renewal while everything else hangs");
    }
    assert!(fence.may_write());

    campaign.end().await;
    assert!(!fence.may_write() && fence.time_left().is_zero());
    let stored = stored.lock();
    assert_eq!(stored.lease.as_ref().unwrap()["spec"]["holderIdentity"], json!(""));
    let told = ["became leader", "stopped leading"];
    assert_eq!(stored.notes, told.map(|what| format!("Normal LeaderElection of cloud-controller-manager: one {what}")));
}

/// The Lease was released while a request to the cloud was under way: the next leader could have done the same once more.
#[tokio::test]
async fn a_leader_that_gave_work_up_leaves_its_lease_to_end_by_itself() {
    for (ended, holder) in [(Ok(()), ""), (Err(anyhow::anyhow!("stopped before all work had ended")), "one")] {
        let (config, stored) = api_server();
        let (mut campaign, _) = start(config, Timing::try_new(15_000 * MS, 10_000 * MS, 2_000 * MS).unwrap());
        tokio::time::timeout(LIMIT, campaign.elected()).await.unwrap().unwrap();
        let is_well = ended.is_ok();
        assert_eq!(campaign.retire(async { ended }).await.is_ok(), is_well);
        assert_eq!(stored.lock().lease.as_ref().unwrap()["spec"]["holderIdentity"], json!(holder));
    }
}

/// Nothing listens there: it stands by, and ends at once when it is told to.
#[tokio::test]
async fn without_an_api_server_a_candidate_waits_and_its_end_takes_no_longer_than_a_look() {
    // Bound, so that nobody else gets the port.
    let port = TcpSocket::new_v4().unwrap();
    port.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let config = Config::new(format!("http://{}", port.local_addr().unwrap()).parse().unwrap());
    // Its next try is far away.
    let timing = Timing::try_new(900_000 * MS, 800_000 * MS, 600_000 * MS).unwrap();
    let (mut campaign, _) = start(config, timing);
    assert!(tokio::time::timeout(100 * MS, campaign.elected()).await.is_err());
    tokio::time::timeout(LIMIT, campaign.end()).await.unwrap();
}
