//! The cloud of these tests, which fails at random when it is asked to.
//!
//! `DIGITALOCEAN_FAULTS=SEED cargo test -p ccm-e2e --test system -- digitalocean::` has them all come out the same while requests
//! are lost, refused and answered with nonsense. A test that fails says the seed, and what struck its requests.

use std::io::Write as _;
use std::ops::Deref;
use std::thread;
use std::time::Duration;

use ccm_sim_digitalocean::{DigitalOcean, Endpoint, RandomFaults, Settings};

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

pub(crate) struct Cloud {
    cloud: DigitalOcean,
    seed: Option<u64>,
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
        Self { cloud: DigitalOcean::start(settings).await.unwrap(), seed }
    }

    /// How often something was done, whether anybody heard of it or not.
    pub(crate) fn done(&self, endpoint: Endpoint) -> usize {
        let done = self.exchanges().into_iter().filter(|exchange| exchange.had_effect);
        done.filter(|exchange| exchange.endpoint == Some(endpoint)).count()
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
        let Some(seed) = self.seed.filter(|_| thread::panicking()) else { return };
        let mut told = std::io::stderr().lock();
        writeln!(told, "again with {SEED}={seed} and the name {}; the cloud was asked:", test()).ok();
        for exchange in self.cloud.exchanges() {
            let fault = exchange.fault.map(|fault| format!(": {:?} {:?}", fault.when, fault.act)).unwrap_or_default();
            let (method, uri, status) = (exchange.method, exchange.uri, exchange.status);
            let effect = if exchange.had_effect { " (done)" } else { "" };
            writeln!(told, "{:>7} ms {method} {uri} {status:?}{effect}{fault}", exchange.at_ms).ok();
        }
    }
}
