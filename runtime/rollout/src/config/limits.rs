//! Limits of a provider as the operator writes them: `--limit memory-bytes=64MiB`, or `limits:` of `--providers`.

#[cfg(test)]
mod tests;

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bytesize::ByteSize;
use ccm_egress::config::{BudgetSettings, ClientSettings, HeaderLimits, NetworkLimits, NetworkSettings, RetrySettings};
use ccm_egress::{Cache, LogLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::CompareLimits;
use crate::config::duration;
use crate::config::limit_preset::LimitPreset;

/// Limits of one provider. A limit that is not given has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LimitSettings {
    /// Largest component in its source, compressed or not. A larger one is refused. Default 4MiB.
    #[schemars(with = "Option<String>")]
    pub source_bytes: Option<ByteSize>,
    /// Largest component after decompression, counted while it is decompressed. A larger one is refused. Default 16MiB.
    #[schemars(with = "Option<String>")]
    pub component_bytes: Option<ByteSize>,
    /// Functions in a component. One with more is refused before it is compiled. Default 50000.
    pub functions: Option<usize>,
    /// Types in a component. One with more is refused before it is compiled. Default 20000.
    pub types: Option<usize>,
    /// Imports, exports, globals, tags and segments of the modules in a component. One with more is refused before it is compiled.
    /// Default 50000.
    pub module_items: Option<usize>,
    /// Endpoints that a component declares. One with more is refused. Default 64.
    pub endpoints: Option<usize>,
    /// Credentials that a component declares. One with more is refused. Default 64.
    pub credentials: Option<usize>,
    /// Entries of all lists in the description of a component, and of the lists in those. One with more is refused. Default 4000.
    pub declarations: Option<usize>,
    /// Largest function body in a component. One with a larger body is refused before it is compiled. Default 256KiB.
    #[schemars(with = "Option<String>")]
    pub function_bytes: Option<ByteSize>,
    /// Linear memory of a call, all memories together. The provider does not get more, which usually ends the call.
    /// Default 64MiB.
    #[schemars(with = "Option<String>")]
    pub memory_bytes: Option<ByteSize>,
    /// Linear memories of a call. More end the call. Default 4.
    pub memories: Option<usize>,
    /// Tables of a call. More end the call. Default 16.
    pub tables: Option<usize>,
    /// Elements of a table. More end the call. Default 20000.
    pub table_elements: Option<usize>,
    /// Core instances of a call. More end the call. Default 16.
    pub instances: Option<usize>,
    /// Handles of resources of a call. More end the call. Default 1000.
    pub handles: Option<usize>,
    /// Data that the provider passes to the host in one step. More ends the call. Default 8MiB.
    #[schemars(with = "Option<String>")]
    pub host_call_bytes: Option<ByteSize>,
    /// Time of a call, including the time that it waits for the cloud. A longer call ends. Default 60s.
    pub call_time: Option<String>,
    /// Computing time of a call, with what the host computes for its answers: unpacking, and the search for credentials. A call that
    /// computes for longer ends. Default 2s.
    pub call_cpu: Option<String>,
    /// Calls that compute for longer than 10ms at the same time. One more computes for as long as that; further ones wait. Default 1.
    pub busy_calls: Option<usize>,
    /// Events of a call. Further ones are dropped and counted. Default 20.
    pub events: Option<usize>,
    /// Annotations that a call writes on a Service, names and values. A call that writes more has no answer. Default 16KiB.
    #[schemars(with = "Option<String>")]
    pub annotation_bytes: Option<ByteSize>,
    /// Routes that a provider finds. A call that finds more has no answer. Default 50000.
    pub routes: Option<usize>,
    /// Bytes of each text of a route that a provider finds. A call that finds a longer one has no answer. Default 1KiB.
    #[schemars(with = "Option<String>")]
    pub route_text_bytes: Option<ByteSize>,
    /// Attributes that a provider adds to a route. A call that adds more has no answer. Default 32.
    pub route_attributes: Option<usize>,
    /// Log lines of a call. Further ones are dropped and counted. Default 50.
    pub log_lines: Option<usize>,
    /// Bytes of a log line. A longer line is cut. Default 4KiB.
    #[schemars(with = "Option<String>")]
    pub log_line_bytes: Option<ByteSize>,
    /// Bytes that the provider keeps between calls. What is used least goes first. Default 4MiB.
    #[schemars(with = "Option<String>")]
    pub cache_bytes: Option<ByteSize>,

    /// Body of a request. A larger request is not sent. Default 1MiB.
    #[schemars(with = "Option<String>")]
    pub request_bytes: Option<ByteSize>,
    /// Body of an answer after decompression. A larger answer counts as no answer. Default 8MiB.
    #[schemars(with = "Option<String>")]
    pub response_bytes: Option<ByteSize>,
    /// Bodies of all answers of a call. What comes after that counts as no answer. The host reads four times as much for a call at most,
    /// with answers that broke off or were refused. Default 32MiB.
    #[schemars(with = "Option<String>")]
    pub call_response_bytes: Option<ByteSize>,
    /// Requests of a call. Further ones are not sent. Default 2000.
    pub call_requests: Option<usize>,
    /// Headers of a request, and of an answer. A request with more is not sent; an answer with more counts as no answer.
    /// Default 64.
    pub headers: Option<usize>,
    /// Bytes of all headers of a request, and of an answer. The same as for `headers`. Default 16KiB.
    #[schemars(with = "Option<String>")]
    pub header_bytes: Option<ByteSize>,
    /// Query values of a request. A request with more is not sent. Default 1000.
    pub query_values: Option<usize>,
    /// Bytes of path and query of a request. A longer request is not sent. Default 16KiB.
    #[schemars(with = "Option<String>")]
    pub url_bytes: Option<ByteSize>,
    /// Requests that a provider sends at once. Further ones wait. Default 32.
    pub parallel_requests: Option<usize>,
    /// Different operations that metrics tell apart. Further ones are counted as `other`. Default 256.
    pub operations: Option<usize>,
    /// Time of one request and its answer. A later answer counts as no answer. Default 30s.
    pub request_time: Option<String>,
    /// Time to resolve the name, connect and finish the TLS handshake. After that there is no answer. Default 5s.
    pub connect_time: Option<String>,
    /// Open connections to a host that wait for the next request. Further ones are closed. Default 100.
    pub idle_connections: Option<usize>,
    /// Time for which such a connection stays open. Default 60s.
    pub idle_time: Option<String>,
    /// Attempts at a request that may be repeated. The last one counts. Default 3.
    pub attempts: Option<usize>,
    /// Time before the second attempt, with jitter. It doubles with each further attempt. Default 200ms.
    pub retry_delay: Option<String>,
    /// Longest time between two attempts. Default 5s.
    pub max_retry_delay: Option<String>,
    /// Bytes of answers that are kept for other requests. What is used least goes first. Default 32MiB.
    #[schemars(with = "Option<String>")]
    pub share_bytes: Option<ByteSize>,
    /// Bytes of answers of logins that are kept for other requests. Of a larger one nothing is kept: who needs it logs in for itself.
    /// Default 1MiB.
    #[schemars(with = "Option<String>")]
    pub login_bytes: Option<ByteSize>,
    /// Shortest credential. A shorter one is refused. Default 8B.
    #[schemars(with = "Option<String>")]
    pub min_credential_bytes: Option<ByteSize>,
    /// Requests per second to an endpoint, on average. Further ones wait.
    /// Default 50, or what the provider says of its cloud if that is less.
    pub requests_per_second: Option<u32>,
    /// Requests to an endpoint at once after a quiet time. Further ones wait.
    /// Default 250, or what the provider says of its cloud if that is less.
    pub request_burst: Option<u32>,
    /// Requests to an endpoint in any minute (DigitalOcean: 250). Further ones are not sent: `throttled`.
    /// Default what the provider says of its cloud.
    pub requests_per_minute: Option<u32>,
    /// Requests to an endpoint in any hour (DigitalOcean: 5,000). Further ones are not sent: `throttled`.
    /// Default what the provider says of its cloud.
    pub requests_per_hour: Option<u32>,
    /// Requests to an endpoint at the same time. Further ones wait. Default 100.
    pub concurrent_requests: Option<usize>,
    /// Time that a request waits for its turn. After that it is not sent: `throttled`. Default 10s.
    pub request_wait: Option<String>,
    /// Percentage of the cloud's limit that refreshes of addresses leave to more urgent requests. Refreshes wait. Default 10.
    pub reserve_percent: Option<u8>,
    /// Longest pause that a cloud can ask for. After that the host sends a test request. Default 5m.
    pub max_pause: Option<String>,
    /// Failures in a row after which an endpoint is considered down. Default 5.
    pub breaker_failures: Option<u32>,
    /// Time until the first request to an endpoint that is considered down, with jitter. It doubles with each further failure.
    /// Default 1s.
    pub breaker_first_pause: Option<String>,
    /// Longest time between two requests to an endpoint that is considered down. Default 1m.
    pub breaker_pause: Option<String>,

    /// Nodes in the comparison of a new component with the old one. Of more, the host takes a sample with every kind. Default 500.
    pub compare_nodes: Option<usize>,
    /// Services in this comparison. Of more, the host takes a sample with every kind. Default 500.
    pub compare_services: Option<usize>,
    /// Services that the host compares one by one. It compares others by survey and name only. Default 20.
    pub compare_single_services: Option<usize>,
    /// Time of the whole comparison. After that the host refuses the component and retries. At least three calls (`call-time`): an old component
    /// that hangs would otherwise keep each new one out. If they take longer than the default, their time is the default. Default 3m.
    pub compare_time: Option<String>,
    /// Time before the second look at what differs. A shorter time than a provider shares listings sees the same twice. Default 5s.
    pub compare_pause: Option<String>,
}

/// So many calls of a component that hangs must end before the comparison does: then what the other one says counts.
const COMPARED_CALLS: u32 = 3;

/// Limits of one provider, complete.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderLimits {
    /// Largest component as it lies in its source, in bytes.
    pub source_bytes: usize,
    /// What holds for loading and calls.
    pub sandbox: ccm_sandbox::Limits,
    /// What a call may log.
    pub log: LogLimits,
    /// Bytes of its cache.
    pub cache_bytes: u64,
    /// How it uses the network.
    pub network: NetworkSettings,
    /// How much is compared before it takes the place of another component.
    pub compare: CompareLimits,
}

impl LimitSettings {
    /// Reads `NAME=VALUE` pairs, as `--limit` takes them.
    ///
    /// # Errors
    ///
    /// Names the pair and the names that there are.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self> {
        let mut object = serde_json::Map::new();
        let known = names();
        for (name, value) in pairs {
            if !known.contains(name) {
                let meant = ccm_cloud::nearest(name, known.iter().map(String::as_str));
                let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
                bail!("--limit {name}=...: there is no such limit{meant}; there are {}", known.join(", "));
            }
            // A limit takes the text, or the number that it is.
            let text = serde_json::Value::from(value.as_str());
            let number = value.parse::<u64>().map(serde_json::Value::from);
            let fits = |value: &serde_json::Value| {
                serde_json::from_value::<Self>(serde_json::json!({ name.clone(): value })).map(drop)
            };
            let value = match (fits(&text), number) {
                (Ok(()), _) => text,
                (Err(_), Ok(number)) if fits(&number).is_ok() => number,
                _ if fits(&"1KiB".into()).is_ok() => bail!("--limit {name}={value}: give a size, such as 64MiB"),
                _ if fits(&1.into()).is_ok() => {
                    bail!("--limit {name}={value}: give a whole number that is not too large")
                }
                (Err(error), _) => {
                    return Err(error).with_context(|| {
                        format!("--limit {name}={value}, such as memory-bytes=64MiB or call-time=60s")
                    });
                }
            };
            if object.insert(name.clone(), value).is_some() {
                bail!("--limit {name}=... is given twice; leave one out");
            }
        }
        serde_json::from_value(object.into()).context("--limit")
    }

    /// The limits with the defaults of `preset` where nothing is given.
    ///
    /// # Errors
    ///
    /// Names the limit whose value cannot be.
    pub fn resolve(&self, preset: LimitPreset) -> Result<ProviderLimits> {
        let base = preset.sandbox();
        let call_time = time("call-time", self.call_time.as_deref(), base.call_time)?;
        let log = LogLimits::default();
        Ok(ProviderLimits {
            source_bytes: bytes("source-bytes", self.source_bytes, preset.source_bytes())?,
            sandbox: ccm_sandbox::Limits {
                component_bytes: bytes("component-bytes", self.component_bytes, base.component_bytes)?,
                functions: count("functions", self.functions, base.functions)?,
                types: count("types", self.types, base.types)?,
                module_items: count("module-items", self.module_items, base.module_items)?,
                endpoints: count("endpoints", self.endpoints, base.endpoints)?,
                credentials: count("credentials", self.credentials, base.credentials)?,
                declarations: count("declarations", self.declarations, base.declarations)?,
                function_bytes: bytes("function-bytes", self.function_bytes, base.function_bytes)?,
                memory_bytes: bytes("memory-bytes", self.memory_bytes, base.memory_bytes)?,
                memories: count("memories", self.memories, base.memories)?,
                tables: count("tables", self.tables, base.tables)?,
                table_elements: count("table-elements", self.table_elements, base.table_elements)?,
                instances: count("instances", self.instances, base.instances)?,
                handles: count("handles", self.handles, base.handles)?,
                host_call_bytes: bytes("host-call-bytes", self.host_call_bytes, base.host_call_bytes)?,
                call_time,
                call_cpu: time("call-cpu", self.call_cpu.as_deref(), base.call_cpu)?,
                busy_calls: count("busy-calls", self.busy_calls, base.busy_calls)?,
                events: self.events.unwrap_or(base.events),
                annotation_bytes: bytes("annotation-bytes", self.annotation_bytes, base.annotation_bytes)?,
                routes: count("routes", self.routes, base.routes)?,
                route_text_bytes: bytes("route-text-bytes", self.route_text_bytes, base.route_text_bytes)?,
                route_attributes: count("route-attributes", self.route_attributes, base.route_attributes)?,
            },
            log: LogLimits {
                lines: self.log_lines.unwrap_or(log.lines),
                line_bytes: bytes("log-line-bytes", self.log_line_bytes, log.line_bytes)?,
            },
            cache_bytes: self.cache_bytes.map_or(Cache::DEFAULT_BYTES, |size| size.as_u64()),
            network: self.network()?,
            compare: self.compare(call_time)?,
        })
    }

    fn compare(&self, call_time: Duration) -> Result<CompareLimits> {
        let base = CompareLimits::default();
        let single_services = self.compare_single_services;
        let least = call_time.saturating_mul(COMPARED_CALLS);
        let whole = time("compare-time", self.compare_time.as_deref(), base.time.max(least))?;
        ensure!(
            whole >= least,
            "limit compare-time: {whole:?} is less than {COMPARED_CALLS} calls, which may take {call_time:?} each (limit call-time): a component that hangs would keep out each one that could take its place; give at least {least:?}"
        );
        Ok(CompareLimits {
            nodes: count("compare-nodes", self.compare_nodes, base.nodes)?,
            services: count("compare-services", self.compare_services, base.services)?,
            single_services: count("compare-single-services", single_services, base.single_services)?,
            time: whole,
            pause: time("compare-pause", self.compare_pause.as_deref(), base.pause)?,
        })
    }

    fn network(&self) -> Result<NetworkSettings> {
        let base = NetworkSettings::default();
        let limits = base.limits;
        let budget = base.budget;
        let or_u32 = |name: &str, given: Option<u32>, default: NonZeroU32| match given {
            Some(given) => NonZeroU32::new(given).with_context(|| format!("limit {name} must be above zero")),
            None => Ok(default),
        };
        let some_u32 = |name: &str, given: Option<u32>| match given {
            Some(given) => NonZeroU32::new(given).with_context(|| format!("limit {name} must be above zero")).map(Some),
            None => Ok(None),
        };
        let concurrency = count("concurrent-requests", self.concurrent_requests, budget.concurrency.get())?;
        if let Some(percent) = self.reserve_percent.filter(|percent| *percent > 100) {
            bail!("limit reserve-percent: {percent} is more than 100");
        }
        Ok(NetworkSettings {
            limits: NetworkLimits {
                request_bytes: bytes("request-bytes", self.request_bytes, limits.request_bytes)?,
                response_bytes: bytes("response-bytes", self.response_bytes, limits.response_bytes)?,
                call_response_bytes: bytes(
                    "call-response-bytes",
                    self.call_response_bytes,
                    limits.call_response_bytes,
                )?,
                call_requests: count("call-requests", self.call_requests, limits.call_requests)?,
                headers: HeaderLimits {
                    count: count("headers", self.headers, limits.headers.count)?,
                    bytes: bytes("header-bytes", self.header_bytes, limits.headers.bytes)?,
                },
                query_values: count("query-values", self.query_values, limits.query_values)?,
                url_bytes: bytes("url-bytes", self.url_bytes, limits.url_bytes)?,
                parallel: count("parallel-requests", self.parallel_requests, limits.parallel)?,
                operations: count("operations", self.operations, limits.operations)?,
                request_time: time("request-time", self.request_time.as_deref(), limits.request_time)?,
                share_bytes: self.share_bytes.map_or(limits.share_bytes, |size| size.as_u64()),
                login_bytes: bytes("login-bytes", self.login_bytes, limits.login_bytes)?,
                min_credential_bytes: bytes(
                    "min-credential-bytes",
                    self.min_credential_bytes,
                    limits.min_credential_bytes,
                )?,
            },
            budget: BudgetSettings {
                per_second: some_u32("requests-per-second", self.requests_per_second)?.map(|most| most.get().into()),
                burst: some_u32("request-burst", self.request_burst)?,
                per_minute: some_u32("requests-per-minute", self.requests_per_minute)?,
                per_hour: some_u32("requests-per-hour", self.requests_per_hour)?,
                concurrency: NonZeroUsize::new(concurrency).unwrap_or(budget.concurrency),
                max_wait: time("request-wait", self.request_wait.as_deref(), budget.max_wait)?,
                reserve_percent: self.reserve_percent.unwrap_or(budget.reserve_percent),
                max_pause: time("max-pause", self.max_pause.as_deref(), budget.max_pause)?,
                breaker_failures: or_u32("breaker-failures", self.breaker_failures, budget.breaker_failures)?,
                breaker_pause_min: time(
                    "breaker-first-pause",
                    self.breaker_first_pause.as_deref(),
                    budget.breaker_pause_min,
                )?,
                breaker_pause_max: time("breaker-pause", self.breaker_pause.as_deref(), budget.breaker_pause_max)?,
            },
            retry: RetrySettings {
                attempts: count("attempts", self.attempts, base.retry.attempts)?,
                min_delay: time("retry-delay", self.retry_delay.as_deref(), base.retry.min_delay)?,
                max_delay: time("max-retry-delay", self.max_retry_delay.as_deref(), base.retry.max_delay)?,
            },
            client: ClientSettings {
                connect_timeout: time("connect-time", self.connect_time.as_deref(), base.client.connect_timeout)?,
                idle_timeout: time("idle-time", self.idle_time.as_deref(), base.client.idle_timeout)?,
                idle_connections: count("idle-connections", self.idle_connections, base.client.idle_connections)?,
                // Those of `limits` are taken.
                headers: base.client.headers,
            },
            trace: false,
            offline: false,
        })
    }
}

/// Names of all limits.
fn names() -> Vec<String> {
    let schema = schemars::schema_for!(LimitSettings);
    let properties = schema.get("properties").and_then(serde_json::Value::as_object);
    properties.into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

fn bytes(name: &str, given: Option<ByteSize>, default: usize) -> Result<usize> {
    let Some(given) = given else { return Ok(default) };
    let size = usize::try_from(given.as_u64())
        .with_context(|| format!("limit {name}: {given} is more than this machine can count"))?;
    count(name, Some(size), default)
}

fn count(name: &str, given: Option<usize>, default: usize) -> Result<usize> {
    match given {
        Some(0) => bail!("limit {name} must be above zero"),
        given => Ok(given.unwrap_or(default)),
    }
}

fn time(name: &str, given: Option<&str>, default: Duration) -> Result<Duration> {
    let Some(given) = given else { return Ok(default) };
    duration::parse_period(given).map_err(|message| anyhow::anyhow!("limit {name}: {message}"))
}
