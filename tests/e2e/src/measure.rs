//! Times and memory, for the benchmarks that look at themselves.

use anyhow::{Context as _, Result, bail};
use tokio::time::Instant;

/// Times in order.
#[derive(Debug, Clone)]
pub struct Distribution(Vec<f64>);

impl Distribution {
    /// Puts them in order.
    #[must_use]
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    /// The time that `percent` of a hundred did not exceed.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or(f64::NAN)
    }

    /// Their sum by their number.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / count(self.0.len())
    }
}

/// Microseconds since `start`.
#[must_use]
pub fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

/// A number of things as a figure.
#[must_use]
pub const fn count(number: usize) -> f64 {
    // Exact: far below 2^53.
    number as f64
}

/// Times that the work is done until memory has settled, at most.
const ROUNDS: usize = 20;
/// What memory may differ by from one round to the next when it has settled.
const SETTLED: f64 = 65_536.0;

/// Resident memory of this process in bytes, once `work` makes it grow no more: what is allocated for the first calls is no leak.
///
/// # Errors
///
/// Those of `work`, and when memory has not settled after many rounds.
pub async fn settled_rss(mut work: impl AsyncFnMut() -> Result<()>) -> Result<f64> {
    let mut last = rss()?;
    for _ in 0..ROUNDS {
        work().await?;
        let now = rss()?;
        if (now - last).abs() <= SETTLED {
            return Ok(now);
        }
        last = now;
    }
    bail!("memory has not settled after {ROUNDS} rounds: {last} bytes")
}

/// Resident memory of this process in bytes.
///
/// # Errors
///
/// Linux does not tell.
pub fn rss() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    let kilobytes: f64 = kilobytes.context("/proc/self/status has no VmRSS")?;
    Ok(kilobytes * 1024.0)
}
