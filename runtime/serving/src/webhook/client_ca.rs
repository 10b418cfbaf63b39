//! Who may ask: clients that show a certificate of this CA. The file is read again when it changes.
//!
//! Until the file can be read once, nobody may ask. If a later one cannot be used, the one before counts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use tokio_util::sync::CancellationToken;

use crate::https::without_lines;

type Verifier = Arc<dyn ClientCertVerifier>;

/// The CA of the moment.
#[derive(Debug)]
pub(super) struct ClientCa {
    flag: &'static str,
    path: PathBuf,
    verifier: Mutex<Option<Verifier>>,
}

impl ClientCa {
    /// Nobody may ask yet.
    pub(super) fn new((flag, path): (&'static str, PathBuf)) -> Arc<Self> {
        Arc::new(Self { flag, path, verifier: Mutex::default() })
    }

    /// Looks at the file now and after each `period`, until it is stopped.
    pub(super) async fn follow(clients: Option<Arc<Self>>, period: Duration, stop: CancellationToken) {
        let Some(this) = clients else { return };
        let mut read = Err(String::new());
        loop {
            let file = this.path.clone();
            // A panic in there says nothing about the file.
            let reading = tokio::task::spawn_blocking(move || std::fs::read(file).map_err(|error| error.to_string()));
            if let Ok(found) = reading.await
                && found != read
            {
                this.take(&found);
                read = found;
            }
            if stop.run_until_cancelled(tokio::time::sleep(period)).await.is_none() {
                return;
            }
        }
    }

    fn take(&self, found: &Result<Vec<u8>, String>) {
        let verifier = found.as_ref().map_err(|error| anyhow::anyhow!("{error}")).and_then(|pem| verifier(pem));
        match verifier.with_context(|| format!("{} {}", self.flag, self.path.display())) {
            Ok(verifier) => {
                *self.verifier.lock() = Some(verifier);
                tracing::info!(file = %self.path.display(), "the CA of those who may ask the webhook is read");
            }
            Err(error) => {
                let kept = match self.verifier.lock().is_some() {
                    true => "the one before is kept",
                    false => "nobody may ask before there is one",
                };
                let error = format!("{error:#}");
                tracing::warn!(error, "the CA of those who may ask the webhook cannot be used: {kept}");
            }
        }
    }

    fn verifier(&self) -> Result<Verifier, Error> {
        self.verifier.lock().clone().ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }
}

fn verifier(pem: &[u8]) -> Result<Verifier> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(without_lines)?)?;
    }
    // Without any certificate it says so.
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider())).build()?;
    Ok(verifier)
}

impl ClientCertVerifier for ClientCa {
    /// No names: API servers have one certificate, and show it to whoever asks.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verifier()?.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use ccm_fake_api::Log;
    use prometheus_client::registry::Registry;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;
    use crate::https::MinTls;
    use crate::webhook::certificate::{Certificate, Files};
    use crate::webhook::metrics::WebhookMetrics;

    type Shown = Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>;

    fn ca() -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A certificate of this CA, for a client.
    fn client_of(ca: &CertifiedIssuer<'_, KeyPair>) -> Shown {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["kube-apiserver".to_owned()]).unwrap();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, ca).unwrap();
        Some((vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap()))
    }

    /// Whether a client that shows this gets an answer.
    async fn gets_through(clients: &Arc<ClientCa>, shown: Shown) -> bool {
        drop(default_provider().install_default());
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let server = rustls::ServerConfig::builder().with_client_cert_verifier(Arc::clone(clients) as _);
        let server = server.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = rustls::ClientConfig::builder().with_root_certificates(roots);
        let client = match shown {
            Some((chain, key)) => client.with_client_auth_cert(chain, key).unwrap(),
            None => client.with_no_client_auth(),
        };
        answers(&TlsAcceptor::from(Arc::new(server)), &TlsConnector::from(Arc::new(client))).await
    }

    async fn answers(acceptor: &TlsAcceptor, connector: &TlsConnector) -> bool {
        let (near, far) = tokio::io::duplex(1 << 16);
        let port = async {
            let mut stream = acceptor.accept(near).await?;
            stream.write_all(b"answer").await?;
            stream.shutdown().await
        };
        let name = ServerName::try_from("localhost").unwrap();
        let asks = async {
            // In TLS 1.3 the client learns with its first read that it was refused.
            let mut stream = connector.connect(name, far).await?;
            stream.read_to_string(&mut String::new()).await
        };
        let (port, asks) = tokio::join!(port, asks);
        assert_eq!(port.is_ok(), asks.is_ok());
        port.is_ok()
    }

    #[tokio::test]
    async fn only_clients_of_the_ca_get_through_and_nobody_before_there_is_one() {
        let (ours, other) = (ca(), ca());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        let clients = ClientCa::new(("--webhook-client-ca-file", path.clone()));
        let log = Log::start();
        clients.take(&Err("no such file".to_owned()));
        assert!(!gets_through(&clients, client_of(&ours)).await, "no file yet");
        for (content, ours_may, other_may) in [
            (ours.pem(), true, false),
            // What cannot be used changes nothing.
            ("none".to_owned(), true, false),
            (other.pem(), false, true),
            (ours.pem() + &other.pem(), true, true),
        ] {
            std::fs::write(&path, &content).unwrap();
            clients.take(&std::fs::read(&path).map_err(|error| error.to_string()));
            assert_eq!(gets_through(&clients, client_of(&ours)).await, ours_may, "{content}");
            assert_eq!(gets_through(&clients, client_of(&other)).await, other_may, "{content}");
            assert!(!gets_through(&clients, None).await, "without a certificate");
        }
        let told = ["cannot be used: nobody may ask before there is one", "cannot be used: the one before is kept"];
        assert_eq!(told.map(|line| log.lines(line).len()), [1, 1]);
    }

    /// Whoever resumed a session showed no certificate, and nobody looked at the one of before again.
    #[tokio::test]
    async fn a_client_of_a_ca_of_before_comes_back_by_no_session() {
        drop(default_provider().install_default());
        let (ours, other) = (ca(), ca());
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(at("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(at("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let flag = "--webhook-cert-dir";
        let files = Files { certificate: (flag, at("tls.crt")), key: (flag, at("tls.key")) };
        let certificate = Certificate::new(files, WebhookMetrics::register(&mut Registry::default()));
        let stop = CancellationToken::new();
        stop.cancel();
        Arc::clone(&certificate).reload(Duration::from_secs(10), stop).await;
        let clients = ClientCa::new(("--webhook-client-ca-file", at("ca.crt")));
        let acceptor = certificate.acceptor(MinTls::default(), Some(Arc::clone(&clients)));
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let client = rustls::ClientConfig::builder_with_protocol_versions(&[version]);
            let (chain, key) = client_of(&ours).unwrap();
            let client = client.with_root_certificates(roots.clone()).with_client_auth_cert(chain, key).unwrap();
            let connector = TlsConnector::from(Arc::new(client));
            clients.take(&Ok(ours.pem().into_bytes()));
            assert!(answers(&acceptor, &connector).await, "{version:?}");
            clients.take(&Ok(other.pem().into_bytes()));
            assert!(!answers(&acceptor, &connector).await, "{version:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_file_is_followed() {
        let (ours, other) = (ca(), ca());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crt");
        std::fs::write(&path, ours.pem()).unwrap();
        let clients = ClientCa::new(("--webhook-client-ca-file", path.clone()));
        let stop = CancellationToken::new();
        let period = Duration::from_secs(10);
        let test = async {
            tokio::time::sleep(period / 2).await;
            assert!(gets_through(&clients, client_of(&ours)).await);
            std::fs::write(&path, other.pem()).unwrap();
            tokio::time::sleep(period).await;
            assert!(gets_through(&clients, client_of(&other)).await);
            assert!(!gets_through(&clients, client_of(&ours)).await);
            stop.cancel();
        };
        tokio::join!(ClientCa::follow(Some(Arc::clone(&clients)), period, stop.clone()), test);
    }
}
