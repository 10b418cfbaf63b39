//! The cloud of these tests, which fails at random when it is asked to.
//!
//! `DIGITALOCEAN_FAULTS=SEED cargo test --workspace --test system -- digitalocean::` has them all come out the same while requests
//! are lost, refused and answered with nonsense. A test that fails says the seed and how to repeat it, and what struck its requests.

use std::io::Write as _;
use std::ops::Deref;
use std::thread;
use std::time::Duration;

use ccm_sim_digitalocean::{DigitalOcean, Endpoint, RandomFaults, Settings};
use serde_json::json;

use super::settled::Ending;
use super::{await_balanced, members, start};
use crate::service_look::serve;
use crate::stage::Stage;

/// Seed of faults at random; without it nothing fails that a test has not planned.
const SEED: &str = "DIGITALOCEAN_FAULTS";

/// So that a test with faults takes seconds: what the host waits for, and how long it spares a cloud in trouble.
const IMPATIENT: [&str; 6] = [
    "--limit=request-time=1s",
    "--limit=retry-delay=20ms",
    "--limit=max-retry-delay=100ms",
    "--limit=max-pause=100ms",
    "--limit=breaker-first-pause=50ms",
    "--limit=breaker-pause=200ms",
];

/// Of so many requests at least one is struck, whatever the seed: that none is has a probability of 1 in 10^7.
const STRUCK_OF: usize = 100;

pub(crate) struct Cloud {
    cloud: DigitalOcean,
    seed: Option<u64>,
    ending: Ending,
}

impl Cloud {
    /// One in which a load balancer is active at once, so that nobody waits for what no test is about.
    pub(crate) async fn start() -> Self {
        Self::start_with(Settings::default()).await
    }

    /// The same that never fails at random: where requests are counted, or the first thing that is told is the only one. What a
    /// cluster and its cloud end up with does not hang on faults.
    pub(crate) async fn calm() -> Self {
        Self::launch(Settings::default(), None).await
    }

    pub(crate) async fn start_with(settings: Settings) -> Self {
        let seed = std::env::var(SEED).ok().map(|seed| seed.parse().unwrap_or_else(|_| panic!("{SEED}={seed}")));
        Self::launch(settings, seed).await
    }

    async fn launch(settings: Settings, seed: Option<u64>) -> Self {
        // Each test has others.
        let faults = seed.map(|seed| {
            RandomFaults::new(test().bytes().fold(seed, |mixed, byte| mixed.rotate_left(7) ^ u64::from(byte)))
        });
        let settings = Settings { provisioning: Duration::ZERO, faults, ..settings };
        Self { cloud: DigitalOcean::start(settings).await.unwrap(), seed, ending: Ending::default() }
    }

    /// How often something was done, whether anybody heard of it or not.
    pub(crate) fn done(&self, endpoint: Endpoint) -> usize {
        let done = self.exchanges().into_iter().filter(|exchange| exchange.had_effect);
        done.filter(|exchange| exchange.endpoint == Some(endpoint)).count()
    }

    /// What the test has said of its end.
    pub(super) const fn ending(&self) -> &Ending {
        &self.ending
    }

    /// How many requests something struck, planned or not.
    fn struck(&self) -> usize {
        self.exchanges().iter().filter(|exchange| exchange.fault.is_some()).count()
    }

    /// What the host needs besides.
    pub(crate) fn flags(&self) -> impl Iterator<Item = String> + use<> {
        let flags: &[&str] = if self.seed.is_none() { &[] } else { &IMPATIENT };
        flags.iter().map(|flag| (*flag).to_owned())
    }
}

/// The name of the test.
fn test() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

impl Deref for Cloud {
    type Target = DigitalOcean;

    fn deref(&self) -> &DigitalOcean {
        &self.cloud
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.check_ending();
        let Some(seed) = self.seed else { return };
        if !thread::panicking() {
            let asked = self.asked();
            assert!(asked < STRUCK_OF || self.struck() > 0, "{SEED}={seed}: nothing struck any of {asked} requests");
            return;
        }
        let mut told = std::io::stderr().lock();
        let again = format!("{SEED}={seed} cargo test --workspace --test system -- --exact {}", test());
        writeln!(told, "again with: {again}\nthe cloud was asked:").ok();
        for exchange in self.cloud.exchanges() {
            let fault = exchange.fault.map(|fault| format!(": {:?} {:?}", fault.when, fault.act)).unwrap_or_default();
            let (method, uri, status) = (exchange.method, exchange.uri, exchange.status);
            let effect = if exchange.had_effect { " (done)" } else { "" };
            writeln!(told, "{:>7} ms {method} {uri} {status:?}{effect}{fault}", exchange.at_ms).ok();
        }
    }
}

/// Without it nobody would notice that the pass with faults is one without.
#[tokio::test]
async fn faults_at_random_strike_where_they_are_asked_for_and_nowhere_else() {
    let stage = Stage::new().await;
    let client = stage.client();
    let cloud = Cloud::start().await;
    members(client, &cloud, &[101]).await;
    let host = start(&stage, &cloud, &[], &[]);
    for number in 0..50 {
        let name = format!("web-{number}");
        serve(client, &name, json!({})).await;
        await_balanced(client, &cloud, &name).await;
        if number >= 2 && (cloud.seed.is_none() || cloud.struck() > 0) {
            break;
        }
    }
    let (asked, struck) = (cloud.exchanges().len(), cloud.struck());
    assert_eq!(struck == 0, cloud.seed.is_none(), "{struck} of {asked} requests are struck");
    cloud.settled(&stage).await;
    host.end().await;
    cloud.check().unwrap();
}
