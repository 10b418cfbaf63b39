//! The simulator as a program of its own, until Ctrl-C.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use ccm_sim_digitalocean::{Command, DigitalOcean, Droplet, Fault, Quota, RandomFaults, Settings, TOKEN};
use clap::Parser;

/// The API of DigitalOcean on loopback, with state, faults and a quota.
#[derive(Parser)]
#[command(name = "ccm-sim-digitalocean")]
struct Flags {
    /// Port of the API; 0: a free one
    #[arg(long, default_value_t = 4011)]
    port: u16,
    /// Port of the control endpoint; 0: a free one
    #[arg(long, default_value_t = 4012)]
    control_port: u16,
    /// How long every answer takes, in milliseconds
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// From the creation of a load balancer until it is active, in milliseconds
    #[arg(long, default_value_t = 10_000)]
    provisioning_ms: u64,
    /// How long a load balancer is locked after a change, in milliseconds
    #[arg(long, default_value_t = 0)]
    busy_ms: u64,
    /// A locked load balancer cannot be deleted either
    #[arg(long)]
    lock_deletes: bool,
    /// By how much listings are late, in milliseconds
    #[arg(long, default_value_t = 0)]
    listing_lag_ms: u64,
    /// Requests that a token may make in any hour
    #[arg(long, default_value_t = 5_000)]
    quota_per_hour: usize,
    /// Requests that a token may make in any minute
    #[arg(long, default_value_t = 250)]
    quota_per_minute: usize,
    /// Path in front of all endpoints, such as /proxy
    #[arg(long, default_value = "")]
    prefix: String,
    /// How many times as fast as ours the clock of the cloud runs
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// A token that is let in besides the one that is printed; may be repeated
    #[arg(long)]
    token: Vec<String>,
    /// A fault as JSON, such as {"of":"writes","nth":3,"when":"after","act":{"status":503}}; may be repeated
    #[arg(long)]
    fault: Vec<String>,
    /// Faults of all kinds at random; the same seed has the same ones again
    #[arg(long)]
    faults_seed: Option<u64>,
    /// How often one of these begins, in percent of the requests that none has struck
    #[arg(long, requires = "faults_seed", default_value_t = RandomFaults::new(0).percent)]
    faults_percent: u8,
    /// So many machines, node-1 and on, are there from the start
    #[arg(long, default_value_t = 0)]
    droplets: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let settings = Settings {
        latency: Duration::from_millis(flags.latency_ms),
        provisioning: Duration::from_millis(flags.provisioning_ms),
        busy: Duration::from_millis(flags.busy_ms),
        lock_deletes: flags.lock_deletes,
        listing_lag: Duration::from_millis(flags.listing_lag_ms),
        quota: Quota { per_hour: flags.quota_per_hour, per_minute: flags.quota_per_minute },
        faults: flags.faults_seed.map(|seed| RandomFaults { seed, percent: flags.faults_percent }),
        prefix: flags.prefix,
        ..Settings::default()
    };
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let cloud = DigitalOcean::start_at(settings, at(flags.port), at(flags.control_port)).await?;
    cloud.command(Command::Speed { speed: flags.speed })?;
    for token in &flags.token {
        cloud.allow(token);
    }
    for fault in &flags.fault {
        let fault: Fault = serde_json::from_str(fault).with_context(|| format!("--fault {fault}"))?;
        cloud.command(Command::Fault { fault })?;
    }
    for number in 1..=flags.droplets {
        cloud.put_droplet(Droplet::new(number, &format!("node-{number}")));
    }
    let mut out = std::io::stdout();
    writeln!(out, "api      {}", cloud.url())?;
    writeln!(out, "control  {}", cloud.control_url())?;
    writeln!(out, "token    {TOKEN}")?;
    out.flush()?;
    tokio::signal::ctrl_c().await?;
    Ok(())
}
