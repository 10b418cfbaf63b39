//! Flags of the admission webhook: upstream's where a thing is upstream's.

use std::net::{AddrParseError, IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use bytesize::ByteSize;
use ccm_rollout::config::duration::parse_period;
use ccm_serving::https::MinTls;
use ccm_serving::webhook::{Files, NAME, Settings};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Whether and how the API server can ask about Services before it takes them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Webhook")]
pub struct WebhookArgs {
    /// Webhooks to serve: `*`, NAME or -NAME; the first entry that matches counts. The only one is lb-service. Without this flag
    /// there is none.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true)]
    pub(super) webhooks: Vec<String>,
    /// Address of the port for webhooks; an empty one serves none.
    #[arg(long, default_value = "0.0.0.0")]
    webhook_bind_address: BindAddress,
    /// Port for webhooks (HTTPS); 0 serves none.
    #[arg(long, default_value_t = 10260)]
    webhook_secure_port: u16,
    /// Folder with the certificate and key of that port, tls.crt and tls.key, such as a mounted Secret. The next two flags take
    /// precedence.
    #[arg(long, value_name = "FOLDER")]
    webhook_cert_dir: Option<PathBuf>,
    /// Certificate of that port.
    #[arg(long, value_name = "FILE", requires = "webhook_tls_private_key_file")]
    webhook_tls_cert_file: Option<PathBuf>,
    /// Private key of that certificate.
    #[arg(long, value_name = "FILE", requires = "webhook_tls_cert_file")]
    webhook_tls_private_key_file: Option<PathBuf>,
    /// CA certificate (PEM). Only clients with a certificate of this CA may use the webhook, so give your API servers such a certificate
    /// first. Without this flag, everyone who reaches the port may use it.
    #[arg(long, value_name = "FILE")]
    webhook_client_ca_file: Option<PathBuf>,
    /// Oldest version of TLS that this port accepts.
    #[arg(long, value_name = "VERSION", value_parser = min_tls(), default_value = "VersionTLS12")]
    webhook_tls_min_version: MinTls,
    /// Interval between checks of certificate, key and client CA for changes.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_period)]
    webhook_cert_reload_period: Duration,
    /// Longest time of a review, and at most nine tenths of the API server's own limit. After that the host allows the Service,
    /// with a warning.
    #[arg(long, value_name = "DURATION", default_value = "8s", value_parser = parse_period)]
    webhook_timeout: Duration,
    /// Largest review that the webhook reads. A review contains the Service before and after the change. A larger review gets status 413.
    /// So does a review with more JSON values than this size divided by 128: 16,384 by default.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize::mib(2))]
    webhook_request_bytes: ByteSize,
    /// Reviews at the same time, at most. Further ones wait.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(31))]
    webhook_concurrent_reviews: NonZeroUsize,
    /// Let providers ask their clouds to judge a Service.
    #[arg(long)]
    webhook_online: bool,
}

/// None when it is empty: the manifests give the pod's address, and a pod on its node's network has none before the node has one.
/// Those are the nodes that wait for this process, so it must not end.
#[derive(Debug, Clone, Copy)]
struct BindAddress(Option<IpAddr>);

impl FromStr for BindAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() { Ok(Self(None)) } else { text.parse().map(|address| Self(Some(address))) }
    }
}

impl WebhookArgs {
    /// The settings; none when no webhook is to be served. `health_port` is taken.
    ///
    /// # Errors
    ///
    /// Names the flag.
    pub fn settings(&self, health_port: u16) -> Result<Option<Settings>> {
        let is_on = self.is_on()?;
        let port = self.webhook_secure_port;
        // As upstream, also when nothing would be served: a flag that cannot be is a mistake.
        ensure!(
            port == 0 || port != health_port,
            "--webhook-secure-port and --secure-port are both {port}; choose another for one"
        );
        if !is_on || port == 0 {
            return Ok(None);
        }
        let files = match (&self.webhook_tls_cert_file, &self.webhook_tls_private_key_file, &self.webhook_cert_dir) {
            (Some(certificate), Some(key), _) => Files {
                certificate: ("--webhook-tls-cert-file", certificate.clone()),
                key: ("--webhook-tls-private-key-file", key.clone()),
            },
            (_, _, Some(folder)) => Files {
                certificate: ("--webhook-cert-dir", folder.join("tls.crt")),
                key: ("--webhook-cert-dir", folder.join("tls.key")),
            },
            _ => bail!(
                "--webhooks needs a certificate that API servers trust; name it with --webhook-cert-dir, or with \
                 --webhook-tls-cert-file and --webhook-tls-private-key-file"
            ),
        };
        let Some(address) = self.webhook_bind_address.0 else {
            tracing::warn!(
                "--webhook-bind-address is empty, and no webhook is served: where it is the pod's address, end this pod when \
                 its Node has one"
            );
            return Ok(None);
        };
        Ok(Some(Settings {
            address: SocketAddr::new(address, port),
            files,
            client_ca: self.webhook_client_ca_file.clone().map(|file| ("--webhook-client-ca-file", file)),
            min_tls: self.webhook_tls_min_version,
            reload_period: self.webhook_cert_reload_period,
            timeout: self.webhook_timeout,
            request_bytes: usize::try_from(self.webhook_request_bytes.as_u64())?,
            reviews: self.webhook_concurrent_reviews,
            online: self.webhook_online,
        }))
    }

    /// Whether the only webhook was asked for, by the rules of `--controllers`.
    fn is_on(&self) -> Result<bool> {
        let mut named = None;
        for entry in self.webhooks.iter().filter(|entry| *entry != "*") {
            let (name, on) = entry.strip_prefix('-').map_or((entry.as_str(), true), |name| (name, false));
            ensure!(name == NAME, "--webhooks: {name:?} is not in the list of known webhooks; there is {NAME}");
            named.get_or_insert(on);
        }
        Ok(named.unwrap_or_else(|| self.webhooks.iter().any(|entry| entry == "*")))
    }
}

/// The oldest version of TLS that a port takes, by upstream's names.
pub(super) fn min_tls() -> impl TypedValueParser<Value = MinTls> {
    let oldest = PossibleValue::new("VersionTLS12").help("1.2").aliases(["VersionTLS10", "VersionTLS11"]);
    let versions = PossibleValuesParser::new([oldest, PossibleValue::new("VersionTLS13").help("1.3")]);
    versions.map(|version| if version == "VersionTLS13" { MinTls::V13 } else { MinTls::V12 })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: WebhookArgs,
    }

    fn settings(flags: &[&str]) -> Result<Option<Settings>> {
        Cli::try_parse_from(["x"].iter().chain(flags))?.args.settings(10258)
    }

    const ON: [&str; 2] = ["--webhooks=lb-service", "--webhook-cert-dir=/tls"];

    #[test]
    fn case_250_254_a_webhook_is_served_when_it_is_asked_for_and_else_no_port_is_opened() {
        let cases: [(&[&str], bool); 10] = [
            (&[], false),
            (&["--webhook-secure-port=10260"], false),
            (&["--webhooks=lb-service"], true),
            (&["--webhooks=*"], true),
            (&["--webhooks=lb-service,-lb-service"], true),
            (&["--webhooks=-lb-service,lb-service"], false),
            (&["--webhooks=*,-lb-service"], false),
            (&["--webhooks=-lb-service"], false),
            (&["--webhooks=*", "--webhook-secure-port=0"], false),
            // $(POD_IP) of a pod whose node has no address yet.
            (&["--webhooks=*", "--webhook-bind-address="], false),
        ];
        for (flags, on) in cases {
            let set = settings(&[&["--webhook-cert-dir=/tls"], flags].concat()).unwrap();
            assert_eq!(set.is_some(), on, "{flags:?}");
        }
    }

    #[test]
    fn case_247_248_without_more_flags_everything_has_its_default_and_each_flag_sets_its_own_value() {
        let set = settings(&ON).unwrap().unwrap();
        assert_eq!((set.address.to_string().as_str(), set.online), ("0.0.0.0:10260", false));
        assert_eq!((set.timeout, set.reload_period), (Duration::from_secs(8), Duration::from_secs(10)));
        assert_eq!((set.request_bytes, set.reviews.get()), (2 << 20, 32));
        assert_eq!((set.min_tls, set.client_ca), (MinTls::V12, None));
        let newest = settings(&[&ON[..], &["--webhook-tls-min-version=VersionTLS13"]].concat()).unwrap().unwrap();
        assert_eq!(newest.min_tls, MinTls::V13);
        assert_eq!(set.files.certificate, ("--webhook-cert-dir", "/tls/tls.crt".into()));
        assert_eq!(set.files.key, ("--webhook-cert-dir", "/tls/tls.key".into()));
        let more = [
            "--webhook-bind-address=127.0.0.1",
            "--webhook-secure-port=1",
            "--webhook-tls-cert-file=/c",
            "--webhook-tls-private-key-file=/k",
            "--webhook-client-ca-file=/a",
            "--webhook-cert-reload-period=1s",
            "--webhook-timeout=2s",
            "--webhook-request-bytes=3KiB",
            "--webhook-concurrent-reviews=4",
            "--webhook-online",
        ];
        let set = settings(&[ON.as_slice(), &more].concat()).unwrap().unwrap();
        let files = Files {
            certificate: ("--webhook-tls-cert-file", "/c".into()),
            key: ("--webhook-tls-private-key-file", "/k".into()),
        };
        let expected = Settings {
            address: ([127, 0, 0, 1], 1).into(),
            files,
            client_ca: Some(("--webhook-client-ca-file", "/a".into())),
            min_tls: MinTls::V12,
            reload_period: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
            request_bytes: 3 << 10,
            reviews: NonZeroUsize::new(4).unwrap(),
            online: true,
        };
        assert_eq!(set, expected);
    }

    #[test]
    fn case_257_what_cannot_be_is_refused_and_says_the_flag() {
        let cases: [(&[&str], &str); 9] = [
            (&["--webhooks=lb-service"], "--webhook-cert-dir"),
            (&["--webhooks=lb-service", "--webhook-bind-address="], "--webhook-cert-dir"),
            (&["--webhook-bind-address=localhost"], "--webhook-bind-address"),
            (
                &["--webhooks=*,services", "--webhook-cert-dir=/tls"],
                "\"services\" is not in the list of known webhooks",
            ),
            (&["--webhook-secure-port=10258"], "--webhook-secure-port and --secure-port are both 10258"),
            (&["--webhook-tls-cert-file=/c"], "--webhook-tls-private-key-file"),
            (&["--webhook-concurrent-reviews=0"], "--webhook-concurrent-reviews"),
            (&["--webhook-timeout=0s"], "--webhook-timeout"),
            (&["--webhook-request-bytes=much"], "--webhook-request-bytes"),
        ];
        for (flags, part) in cases {
            let error = settings(flags).unwrap_err().to_string();
            assert!(error.contains(part), "{flags:?}: {error}");
        }
    }
}
