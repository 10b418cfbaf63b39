//! What the tests of this crate stand on: an API server of a few dozen lines, and a cloud written in plain Rust.

mod api;
mod balancers;
mod cloud;
mod log;
mod objects;

/// The value of a metric, as a scrape shows it; `series` is its name with labels.
pub(crate) fn scraped(registry: &prometheus_client::registry::Registry, series: &str) -> f64 {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
}

pub(crate) use api::FakeApi;
pub(crate) use balancers::{FakeBalancers, NODES, Version};
pub(crate) use cloud::FakeCloud;
pub(crate) use log::Log;
pub(crate) use objects::{Draft, address, found, node, service};
