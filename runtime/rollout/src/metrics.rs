//! Metrics of providers being loaded, exchanged and refused, of their calls, and of their requests to clouds.

mod calls;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use ccm_egress::SourceState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

pub use calls::CallMetrics;
pub use requests::ExchangeMetrics;

use crate::gate::Step;
use crate::release::Version;
use crate::slot::SlotStanding;

/// Where a component can be refused.
const STEPS: [Step; 14] = [
    Step::Source,
    Step::Size,
    Step::Container,
    Step::Trust,
    Step::Parse,
    Step::Imports,
    Step::Compile,
    Step::Exports,
    Step::Describe,
    Step::Identity,
    Step::Grants,
    Step::Check,
    Step::Compare,
    Step::Probation,
];

/// Where a configuration can be refused while its component serves.
const OF_CONFIGURATIONS: [Step; 4] = [Step::Identity, Step::Grants, Step::Check, Step::Compare];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LoadLabels {
    source: String,
    result: &'static str,
    step: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    source: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InfoLabels {
    source: String,
    name: String,
    version: String,
    digest: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabels {
    source: String,
    what: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CredentialLabels {
    provider: String,
    credential: String,
}

/// What became of components.
#[derive(Clone)]
pub struct ProviderMetrics {
    loads: Family<LoadLabels, Counter>,
    configurations: Family<LoadLabels, Counter>,
    info: Family<InfoLabels, Gauge>,
    generation: Family<SourceLabels, Gauge>,
    on_probation: Family<SourceLabels, Gauge>,
    refused: Family<RefusedLabels, Gauge>,
    unreadable: Family<CredentialLabels, Gauge>,
    load_duration: Family<ResultLabels, Histogram>,
    exchange_duration: Family<SourceLabels, Histogram>,
}

impl ProviderMetrics {
    /// The metrics, as parts of `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            loads: Family::default(),
            configurations: Family::default(),
            info: Family::default(),
            generation: Family::default(),
            on_probation: Family::default(),
            refused: Family::default(),
            unreadable: Family::default(),
            // 10 ms to 41 s.
            load_duration: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.01, 4.0, 7))),
            // 1 us to 1 s.
            exchange_duration: Family::new_with_constructor(|| Histogram::new(exponential_buckets(1e-6, 10.0, 7))),
        };
        registry.register(
            "ccm_provider_loads",
            "Components that were `taken`, `rejected` (at which step of the gate) or `rolled-back`; the last two exist from the start, as 0",
            metrics.loads.clone(),
        );
        registry.register(
            "ccm_provider_configurations",
            "Changes of the configuration that were `taken` or `rejected` (at which step of the gate) while a component served; the last exists from the start, as 0",
            metrics.configurations.clone(),
        );
        registry.register("ccm_provider_info", "1 for the component that serves", metrics.info.clone());
        registry.register(
            "ccm_provider_generation",
            "Number that grows with every exchange of the component or of its configuration, rollbacks included",
            metrics.generation.clone(),
        );
        registry.register(
            "ccm_provider_on_probation",
            "1 while the component that serves is on probation",
            metrics.on_probation.clone(),
        );
        registry.register(
            "ccm_provider_refused",
            "1 while the host refuses what is there: a `component` in the source, or a `configuration` in the files; 0 otherwise",
            metrics.refused.clone(),
        );
        registry.register(
            "ccm_credential_unreadable",
            "1 while the source of a credential in use gives no value that can be used, so that the one that was read last stays in use until the process ends; 0 otherwise",
            metrics.unreadable.clone(),
        );
        registry.register_with_unit(
            "ccm_provider_load_duration",
            "Time of the gate, including the compiler, by result: `taken` or `rejected`",
            Unit::Seconds,
            metrics.load_duration.clone(),
        );
        registry.register_with_unit(
            "ccm_provider_exchange_duration",
            "Time in which one component replaces another",
            Unit::Seconds,
            metrics.exchange_duration.clone(),
        );
        metrics
    }

    /// This source is watched from now on. What may go wrong with it is there as 0, so that `increase()` sees the first time.
    pub fn begin(&self, source: &str) {
        let begin =
            |result, step| drop(self.loads.get_or_create(&LoadLabels { source: source.to_owned(), result, step }));
        for step in STEPS {
            begin("rejected", step.as_str());
        }
        begin("rolled-back", "probation");
        for step in OF_CONFIGURATIONS {
            let (source, result, step) = (source.to_owned(), "rejected", step.as_str());
            drop(self.configurations.get_or_create(&LoadLabels { source, result, step }));
        }
        self.refuses(source, [false; 2]);
    }

    /// Whether what the source holds now is refused: its component, and its configuration.
    pub(crate) fn refuses(&self, source: &str, [component, configuration]: [bool; 2]) {
        for (what, is_refused) in [("component", component), ("configuration", configuration)] {
            let of = RefusedLabels { source: source.to_owned(), what };
            self.refused.get_or_create(&of).set(is_refused.into());
        }
    }

    /// The sources of the credentials in use stand so `now`, each with the name of its provider; what was there `before`, and is not now, is
    /// not told any more.
    pub(crate) fn sources(&self, before: (&str, &[SourceState]), now: (&str, &[SourceState])) {
        let labels = |provider: &str, state: &SourceState| CredentialLabels {
            provider: provider.to_owned(),
            credential: state.credential.clone(),
        };
        for state in now.1 {
            self.unreadable.get_or_create(&labels(now.0, state)).set(state.unreadable.is_some().into());
        }
        let kept: Vec<_> = now.1.iter().map(|state| labels(now.0, state)).collect();
        for gone in before.1.iter().map(|state| labels(before.0, state)).filter(|of| !kept.contains(of)) {
            self.unreadable.remove(&gone);
        }
    }

    /// A changed configuration was `taken` or `rejected`.
    pub fn configuration(&self, source: &str, result: &'static str, step: &'static str) {
        self.configurations.get_or_create(&LoadLabels { source: source.to_owned(), result, step }).inc();
    }

    /// A component was `taken`, `rejected` or `rolled-back`.
    pub fn load(&self, source: &str, result: &'static str, step: &'static str) {
        self.loads.get_or_create(&LoadLabels { source: source.to_owned(), result, step }).inc();
    }

    /// The components stand so; `gone` serves no longer.
    pub(crate) fn stands(&self, source: &str, standing: &SlotStanding<Arc<Version>>, gone: Option<&Version>) {
        let labels = |Version { name, version, digest, .. }: &Version| InfoLabels {
            source: source.to_owned(),
            name: name.clone(),
            version: version.clone(),
            digest: digest.clone(),
        };
        if let Some(gone) = gone {
            self.info.remove(&labels(gone));
        }
        self.info.get_or_create(&labels(standing.serving())).set(1);
        let of = SourceLabels { source: source.to_owned() };
        self.generation.get_or_create(&of).set(i64::try_from(standing.generation).unwrap_or(i64::MAX));
        self.on_probation.get_or_create(&of).set(standing.is_on_probation().into());
    }

    /// How long the gate took; the component was `taken` or `rejected`.
    pub fn took(&self, source: &str, result: &'static str, gate: Duration) {
        let of = ResultLabels { source: source.to_owned(), result };
        self.load_duration.get_or_create(&of).observe(gate.as_secs_f64());
    }

    /// How long the exchange itself took.
    pub fn exchanged(&self, source: &str, took: Duration) {
        let of = SourceLabels { source: source.to_owned() };
        self.exchange_duration.get_or_create(&of).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
impl ProviderMetrics {
    /// Whether a component and a configuration of a source are refused.
    pub(crate) fn refused_of(&self, source: &str) -> [bool; 2] {
        ["component", "configuration"].map(|what| {
            let of = RefusedLabels { source: source.to_owned(), what };
            self.refused.get_or_create(&of).get() == 1
        })
    }

    /// Whether a credential of a provider cannot be read; none where nobody tells it.
    pub(crate) fn is_unreadable(&self, provider: &str, credential: &str) -> Option<bool> {
        let of = CredentialLabels { provider: provider.to_owned(), credential: credential.to_owned() };
        self.unreadable.get(&of).map(|gauge| gauge.get() == 1)
    }

    /// How many exchanges of a source were counted, and how long they took together in seconds.
    pub(crate) fn exchanges_of(&self, source: &str) -> (f64, f64) {
        let mut registry = Registry::default();
        Registry::register(&mut registry, "exchanges", "", self.exchange_duration.clone());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = |name: &str| {
            let series = format!("exchanges_{name}{{source=\"{source}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(&series)).map_or(0.0, |value| value.parse().unwrap())
        };
        (value("count"), value("sum"))
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn exchanges_are_timed_in_seconds_with_room_for_a_microsecond_and_a_second() {
        let mut registry = Registry::default();
        let metrics = ProviderMetrics::register(&mut registry);
        for took in [Duration::from_nanos(700), Duration::from_micros(250), Duration::from_secs(2)] {
            metrics.exchanged("a.wasm", took);
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let value = |series: &str| -> f64 {
            let series = format!("ccm_provider_exchange_duration_seconds_{series} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&series));
            line.unwrap_or_else(|| panic!("no {series}in {text}")).parse().unwrap()
        };
        assert_eq!(value("count{source=\"a.wasm\"}"), 3.0);
        assert!((value("sum{source=\"a.wasm\"}") - 2.000_250_7).abs() < 1e-9, "{text}");
        let buckets = [("0.000001", 1.0), ("0.001", 2.0), ("1.0", 2.0), ("+Inf", 3.0)];
        for (most, count) in buckets {
            assert_eq!(value(&format!("bucket{{le=\"{most}\",source=\"a.wasm\"}}")), count, "{most}: {text}");
        }
    }

    #[test]
    fn a_credential_is_told_as_long_as_it_is_in_use_and_under_the_name_of_whoever_uses_it() {
        let metrics = ProviderMetrics::register(&mut Registry::default());
        let state = |credential: &str, why: Option<&str>| SourceState {
            credential: credential.to_owned(),
            unreadable: why.map(str::to_owned),
        };
        let told = |provider| ["id", "token"].map(|credential| metrics.is_unreadable(provider, credential));
        let both = [state("id", None), state("token", Some("there is no such Secret"))];
        metrics.sources(("", &[]), ("cloud", &both));
        assert_eq!(told("cloud"), [Some(false), Some(true)]);
        let one = [state("token", None)];
        metrics.sources(("cloud", &both), ("cloud", &one));
        assert_eq!(told("cloud"), [None, Some(false)], "the next component does not use the other one");
        metrics.sources(("cloud", &one), ("other", &one));
        assert_eq!((told("cloud"), told("other")), ([None, None], [None, Some(false)]));
    }

    #[test]
    fn all_that_may_go_wrong_is_there_before_the_first_time_and_counts_from_zero() {
        let mut registry = Registry::default();
        let metrics = ProviderMetrics::register(&mut registry);
        metrics.load("a.wasm", "rejected", "trust");
        metrics.begin("a.wasm");
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let line = |result: &str, step: &str, count: u64| {
            format!("ccm_provider_loads_total{{source=\"a.wasm\",result=\"{result}\",step=\"{step}\"}} {count}\n")
        };
        for step in STEPS {
            let count = u64::from(step == Step::Trust);
            assert!(text.contains(&line("rejected", step.as_str(), count)), "{step}: {text}");
        }
        assert!(text.contains(&line("rolled-back", "probation", 0)), "{text}");
        for what in ["component", "configuration"] {
            let line = format!("ccm_provider_refused{{source=\"a.wasm\",what=\"{what}\"}} 0\n");
            assert!(text.contains(&line), "{text}");
        }
        assert_eq!(STEPS.len(), Step::Probation as usize + 1, "a step is missing");
    }
}
