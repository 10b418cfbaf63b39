//! Metrics of the calls to providers.

use std::time::Duration;

use ccm_sandbox::{CallEnd, CallObserver};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// All functions that are called for a provider that is loaded.
const FUNCTIONS: [&str; 16] = [
    "meta.offers",
    "meta.check",
    "instances.find",
    "load-balancers.name",
    "load-balancers.locks",
    "load-balancers.get",
    "load-balancers.get-mark",
    "load-balancers.ensure",
    "load-balancers.update-backends",
    "load-balancers.ensure-deleted",
    "load-balancers.validate",
    "load-balancer-survey.survey",
    "load-balancer-orphan.orphan",
    "routes.get-all",
    "routes.change",
    "cluster.reconcile",
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    provider: String,
    function: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FunctionLabels {
    provider: String,
    function: &'static str,
}

/// What calls into providers cost.
#[derive(Clone)]
pub struct CallMetrics {
    calls: Family<CallLabels, Counter>,
    seconds: Family<FunctionLabels, Histogram>,
    cpu_milliseconds: Family<FunctionLabels, Counter>,
    memory_peak_bytes: Family<FunctionLabels, Gauge>,
}

impl CallMetrics {
    /// The metrics, as parts of `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            calls: Family::default(),
            // 100 µs to 52 s: from a computed answer to a cloud that is nearly out of time.
            seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.0001, 4.0, 10))),
            cpu_milliseconds: Family::default(),
            memory_peak_bytes: Family::default(),
        };
        registry.register("ccm_provider_calls", "Calls of providers, by outcome: `ok`, `trap`, `out-of-time`, `out-of-cpu`, `out-of-memory`, `no-room` (in the memory of all calls), `table-too-large`, `bad-answer`", metrics.calls.clone());
        registry.register_with_unit(
            "ccm_provider_call_duration",
            "Time of calls of providers, including the time that they wait for the cloud",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register(
            "ccm_provider_cpu_milliseconds",
            "Computing time of providers, in steps of 10 ms",
            metrics.cpu_milliseconds.clone(),
        );
        registry.register_with_unit(
            "ccm_provider_memory_peak",
            "Most memory that a call took",
            Unit::Bytes,
            metrics.memory_peak_bytes.clone(),
        );
        metrics
    }
}

impl CallObserver for CallMetrics {
    /// Those that find no memory are there as 0, so that `increase()` sees the first one.
    fn begins(&self, provider: &str) {
        for function in FUNCTIONS {
            let provider = provider.to_owned();
            drop(self.calls.get_or_create(&CallLabels { provider, function, outcome: "no-room" }));
        }
    }

    fn call_ended(&self, provider: &str, end: CallEnd) {
        let provider = provider.to_owned();
        let function = FunctionLabels { provider: provider.clone(), function: end.function };
        self.calls.get_or_create(&CallLabels { provider, function: end.function, outcome: end.outcome }).inc();
        self.seconds.get_or_create(&function).observe(end.time.as_secs_f64());
        self.cpu_milliseconds.get_or_create(&function).inc_by(milliseconds(end.cpu));
        let memory = i64::try_from(end.memory).unwrap_or(i64::MAX);
        let peak = self.memory_peak_bytes.get_or_create(&function);
        if peak.get() < memory {
            peak.set(memory);
        }
        tracing::debug!(
            provider = function.provider,
            function = end.function,
            outcome = end.outcome,
            ms = milliseconds(end.time),
            "provider call ended"
        );
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn calls_without_room_count_from_zero_for_every_function_of_the_contract() {
        let mut registry = Registry::default();
        let metrics = CallMetrics::register(&mut registry);
        metrics.begins("cloud");
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for function in FUNCTIONS {
            let line = format!(
                "ccm_provider_calls_total{{provider=\"cloud\",function=\"{function}\",outcome=\"no-room\"}} 0\n"
            );
            assert!(text.contains(&line), "{function}: {text}");
        }
        // Those of the contract, by interface.
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/v0.2");
        let mut functions: Vec<String> = vec![];
        for file in ["meta", "instances", "load-balancers", "routes", "cluster"] {
            let mut interface = String::new();
            for line in std::fs::read_to_string(format!("{folder}/{file}.wit")).unwrap().lines() {
                if let Some(name) = line.strip_prefix("interface ") {
                    interface = name.trim_end_matches(" {").to_owned();
                } else if let Some((name, _)) = line.trim().split_once(": func(") {
                    functions.push(format!("{interface}.{name}"));
                }
            }
        }
        // Before there is a provider.
        functions.retain(|function| function != "meta.describe");
        let mut known = FUNCTIONS.map(str::to_owned);
        functions.sort();
        known.sort();
        assert_eq!(functions, known);
    }
}
