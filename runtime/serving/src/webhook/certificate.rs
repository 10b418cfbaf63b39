//! Certificate reload: reads the webhook's certificate again when its files change, and keeps the old one if the new one is unusable.

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::client_ca::ClientCa;
use super::metrics::WebhookMetrics;
use crate::https::{MinTls, Pair, read_pair, unfit};

/// Where the pair is, each file with the flag that said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate, with those that vouch for it.
    pub certificate: (&'static str, PathBuf),
    /// Its private key.
    pub key: (&'static str, PathBuf),
}

impl Files {
    fn read(&self) -> Result<Pair> {
        let ((cert_flag, cert), (key_flag, key)) = (&self.certificate, &self.key);
        read_pair((cert_flag, cert), (key_flag, key))
    }

    fn parse(&self, (chain, key): Pair) -> Result<CertifiedKey> {
        let ((cert_flag, cert), (key_flag, of_key)) = (&self.certificate, &self.key);
        ensure!(!chain.is_empty(), "{} has no certificate", self.certificate.1.display());
        CertifiedKey::from_der(chain, key, &default_provider())
            .map_err(|error| unfit(error, (cert_flag, cert), (key_flag, of_key)))
    }
}

/// The pair that is served, and what the files were found to be last.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: Files,
    served: Mutex<Option<Arc<CertifiedKey>>>,
    metrics: WebhookMetrics,
}

/// What the last look at the files found.
#[derive(Debug, PartialEq)]
enum Found {
    Nothing,
    Pair(Pair),
    Trouble(String),
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.served.lock().clone()
    }
}

impl Certificate {
    pub(crate) fn new(files: Files, metrics: WebhookMetrics) -> Arc<Self> {
        Arc::new(Self { files, served: Mutex::default(), metrics })
    }

    /// Uses the current pair for each handshake. Without a pair, handshakes fail as if the port were closed.
    /// Where there are `clients`, nobody else gets through his handshake.
    pub(crate) fn acceptor(self: &Arc<Self>, least: MinTls, clients: Option<Arc<ClientCa>>) -> TlsAcceptor {
        let config = match clients {
            Some(clients) => least.server().with_client_cert_verifier(clients),
            None => least.server().with_no_client_auth(),
        };
        let mut config = config.with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A client that resumes a session shows no certificate: it would get in after its CA was taken away. API servers resume none.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        TlsAcceptor::from(Arc::new(config))
    }

    /// Looks at the files now and after each `period`, until it is stopped.
    ///
    /// Compares their content, not their times: the kubelet switches a link far above them, and others write in place.
    pub(crate) async fn reload(self: Arc<Self>, period: Duration, stop: CancellationToken) {
        let mut found = Found::Nothing;
        loop {
            let this = Arc::clone(&self);
            let looking = tokio::task::spawn_blocking(move || this.look(found));
            // A panic in there would be one of the parser: nothing is known then.
            found = looking.await.unwrap_or(Found::Nothing);
            if stop.run_until_cancelled(tokio::time::sleep(period)).await.is_none() {
                return;
            }
        }
    }

    fn look(&self, last: Found) -> Found {
        let trouble = |error: anyhow::Error| Found::Trouble(format!("{error:#}"));
        let pair = match self.files.read() {
            Ok(pair) if last == Found::Pair((pair.0.clone(), pair.1.clone_key())) => return last,
            Ok(pair) => Ok(pair),
            Err(error) => Err(trouble(error)),
        };
        let used = pair.and_then(|pair| {
            let read = (pair.0.clone(), pair.1.clone_key());
            self.files.parse(pair).map(|key| (read, key)).map_err(trouble)
        });
        match used {
            Ok((read, key)) => {
                *self.served.lock() = Some(Arc::new(key));
                self.metrics.certificate_loaded(true);
                tracing::info!(file = %self.files.certificate.1.display(), "the webhook's certificate is read");
                Found::Pair(read)
            }
            Err(found) if found == last => last,
            Err(found) => {
                self.metrics.certificate_loaded(false);
                let kept = match self.served.lock().is_some() {
                    true => "the one before is kept",
                    false => "no review can be answered before there is one",
                };
                if let Found::Trouble(error) = &found {
                    tracing::warn!(error, "the webhook's certificate cannot be used: {kept}");
                }
                found
            }
        }
    }
}
