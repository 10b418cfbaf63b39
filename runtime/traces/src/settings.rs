//! The variables of OpenTelemetry's specification, as far as they are about traces. An empty one counts as not set.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Where a collector in the same pod listens.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
/// What the path of OTEL_EXPORTER_OTLP_ENDPOINT goes on with.
const TRACES_PATH: &str = "/v1/traces";
/// Most spans that may be told to wait: room for each is made when the host starts to count.
const MOST_SPANS: usize = 1 << 20;

/// Where spans go, and how. No `Debug`: the headers are mostly a secret.
pub struct Settings {
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or `OTEL_EXPORTER_OTLP_ENDPOINT` with `/v1/traces`. Default:
    /// `http://localhost:4318/v1/traces`.
    pub(crate) endpoint: Url,
    /// `OTEL_EXPORTER_OTLP_TRACES_HEADERS` or `OTEL_EXPORTER_OTLP_HEADERS`.
    pub(crate) headers: HeaderMap,
    /// `OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE` or `OTEL_EXPORTER_OTLP_CERTIFICATE`, and its file: the only authorities, PEM. Default: those of the system.
    pub(crate) certificate: Option<(String, String)>,
    /// For one try: `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT` or `OTEL_EXPORTER_OTLP_TIMEOUT`, milliseconds. Default 10 s.
    pub(crate) timeout: Duration,
    /// How long a span waits for others: `OTEL_BSP_SCHEDULE_DELAY`, milliseconds. Default 5 s.
    pub(crate) delay: Duration,
    /// Most spans that wait: `OTEL_BSP_MAX_QUEUE_SIZE`. Default 2,048.
    pub(crate) queue: NonZeroUsize,
    /// Most spans in one batch: `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`. Default 512.
    pub(crate) batch: NonZeroUsize,
    /// `OTEL_RESOURCE_ATTRIBUTES`, and `OTEL_SERVICE_NAME` as `service.name`.
    pub(crate) resource: BTreeMap<String, String>,
    /// Of traces that are sent, from 0 to 1: `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`. Default: all.
    pub(crate) share: f64,
}

impl Settings {
    /// Reads the variables. None: they say that nothing is sent (`OTEL_SDK_DISABLED=true`, `OTEL_TRACES_EXPORTER=none`).
    ///
    /// # Errors
    ///
    /// A variable has a value that this host has no use for. Names the variable, and the value where it is no secret.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let variable =
            |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let either = |end: &str| {
            let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{end}"), format!("OTEL_EXPORTER_OTLP_{end}")];
            names.into_iter().find_map(|name| variable(&name).map(|value| (name, value)))
        };
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        match variable("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => bail!("OTEL_TRACES_EXPORTER: {other:?} is none of otlp, none"),
        }
        if let Some((name, value)) = either("PROTOCOL") {
            ensure!(value == "http/protobuf", "{name}: {value:?} is not http/protobuf, which is what the host sends");
        }
        let milliseconds = |name: &str, value: &str| {
            let parsed = value.parse().with_context(|| format!("{name}: {value:?} is no number of milliseconds"));
            parsed.map(Duration::from_millis)
        };
        let timeout = either("TIMEOUT").map(|(name, value)| milliseconds(&name, &value)).transpose()?;
        let delay = "OTEL_BSP_SCHEDULE_DELAY";
        let delay = variable(delay).map(|value| milliseconds(delay, &value)).transpose()?;
        let spans = |name: &str, default: usize| -> Result<NonZeroUsize> {
            let Some(value) = variable(name) else { return Ok(NonZeroUsize::MIN.saturating_add(default - 1)) };
            value.parse().with_context(|| format!("{name}: {value:?} is no number of spans"))
        };
        let queue = spans("OTEL_BSP_MAX_QUEUE_SIZE", 2048)?;
        ensure!(queue.get() <= MOST_SPANS, "OTEL_BSP_MAX_QUEUE_SIZE: {queue} is more than {MOST_SPANS} spans");
        let attributes = "OTEL_RESOURCE_ATTRIBUTES";
        let attributes = variable(attributes).map(|value| resource(&value).context(attributes)).transpose()?;
        let mut resource = attributes.unwrap_or_default();
        resource.extend(variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
        let (of_traces, of_all) =
            (variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let is_given = of_traces.is_some() || of_all.is_some();
        let (place, endpoint) = endpoint(of_traces, of_all)?;
        let given = either("HEADERS");
        if given.is_some() || !endpoint.username().is_empty() || endpoint.password().is_some() {
            let secret = given.as_ref().map_or("user and password", |(name, _)| name.as_str());
            let is_safe = endpoint.scheme() == "https" || (is_given && is_loopback(&endpoint));
            ensure!(
                is_safe,
                "{place}: {secret} would be sent in clear, or to whoever listens on the default port; name a collector with https://, or one on a loopback address"
            );
        }
        Ok(Some(Self {
            endpoint,
            headers: given.map(|(name, value)| headers(&value).context(name)).transpose()?.unwrap_or_default(),
            certificate: either("CERTIFICATE"),
            timeout: timeout.unwrap_or(Duration::from_secs(10)),
            delay: delay.unwrap_or(Duration::from_secs(5)),
            queue,
            batch: spans("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?,
            resource,
            share: share(variable("OTEL_TRACES_SAMPLER"), variable("OTEL_TRACES_SAMPLER_ARG"))?,
        }))
    }

    /// Where spans go, as it may be shown: without user, password and query.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}{}", self.endpoint.origin().ascii_serialization(), self.endpoint.path())
    }
}

/// The specification names two variables; the one of traces is taken as it is. Returns which one it is as well.
fn endpoint(of_traces: Option<String>, of_all: Option<String>) -> Result<(&'static str, Url)> {
    let (name, text) = match (of_traces, of_all) {
        (Some(url), _) => ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url),
        (None, Some(base)) => ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{}{TRACES_PATH}", base.trim_end_matches('/'))),
        (None, None) => ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("{DEFAULT_ENDPOINT}{TRACES_PATH}")),
    };
    // Both name a collector without a scheme: `collector:4318` is a URL of the scheme `collector`, and `10.0.0.1:4318` is none.
    let is_one = ["http://", "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    ensure!(is_one, "{name} is no URL with http:// or https://, such as {DEFAULT_ENDPOINT}");
    Ok((name, text.parse().context(name)?))
}

/// Whether what is sent there stays on the node.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

/// `name=value,name=value`, values percent-encoded. No error repeats a value.
fn headers(text: &str) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (place, pair) in (1_usize..).zip(text.split(',').filter(|pair| !pair.trim().is_empty())) {
        let what = || format!("header {place} is not NAME=VALUE");
        let (name, value) = pair.split_once('=').with_context(what)?;
        let value: Vec<u8> = percent_decode_str(value.trim()).collect();
        let mut value = HeaderValue::from_bytes(&value).with_context(what)?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.trim().as_bytes()).with_context(what)?, value);
    }
    Ok(headers)
}

/// `name=value,name=value`, percent-encoded.
fn resource(text: &str) -> Result<BTreeMap<String, String>> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').with_context(|| format!("{pair:?} is not NAME=VALUE"))?;
        let decoded = |text: &str| percent_decode_str(text.trim()).decode_utf8().map(Into::into);
        Ok((decoded(name)?, decoded(value)?))
    };
    text.split(',').filter(|one| !one.trim().is_empty()).map(pair).collect()
}

/// No span has a parent in another process: to go by the parent is to decide for each trace.
fn share(sampler: Option<String>, argument: Option<String>) -> Result<f64> {
    let Some(sampler) = sampler else { return Ok(1.0) };
    match sampler.trim_start_matches("parentbased_") {
        "always_on" => Ok(1.0),
        "always_off" => Ok(0.0),
        "traceidratio" => {
            let Some(argument) = argument else { return Ok(1.0) };
            let share = argument.parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share));
            share.with_context(|| format!("OTEL_TRACES_SAMPLER_ARG: {argument:?} is no number from 0 to 1"))
        }
        _ => bail!(
            "OTEL_TRACES_SAMPLER: {sampler:?} is none of always_on, always_off, traceidratio, and these with parentbased_ before them"
        ),
    }
}
