//! Certificates that change while the port is open, seen by a client.

use std::path::Path;

use ccm_fake_api::Log;
use prometheus_client::registry::Registry;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::*;

const PERIOD: Duration = Duration::from_secs(10);

/// A CA, and a client that trusts it alone.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    client: TlsConnector,
}

impl Authority {
    fn new() -> Self {
        drop(default_provider().install_default());
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(issuer.der().clone()).unwrap();
        let client = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Self { issuer, client: TlsConnector::from(Arc::new(client)) }
    }

    /// Certificate and key for a name, as PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A folder with a pair, and the port that serves it.
struct Bench {
    folder: TempDir,
    ca: Authority,
    certificate: Arc<Certificate>,
    found: Found,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files {
            certificate: ("--webhook-cert-dir", folder.path().join("tls.crt")),
            key: ("--webhook-cert-dir", folder.path().join("tls.key")),
        };
        let certificate = Certificate::new(files, WebhookMetrics::register(&mut Registry::default()));
        Self { folder, ca: Authority::new(), certificate, found: Found::Nothing }
    }

    fn write(&self, certificate: &str, key: &str) {
        write(self.folder.path(), certificate, key);
    }

    /// As each period does.
    fn look(&mut self) {
        let last = std::mem::replace(&mut self.found, Found::Nothing);
        self.found = self.certificate.look(last);
    }

    /// Whether the port's certificate is for this name.
    async fn serves(&self, name: &str) -> bool {
        let (near, far) = tokio::io::duplex(1 << 16);
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let (port, client) = tokio::join!(
            self.certificate.acceptor(MinTls::default(), None).accept(near),
            self.ca.client.connect(name, far)
        );
        port.is_ok() && client.is_ok()
    }

    fn counts(&self) -> (u64, u64) {
        (self.certificate.metrics.certificates("ok"), self.certificate.metrics.certificates("failed"))
    }
}

fn write(folder: &Path, certificate: &str, key: &str) {
    std::fs::write(folder.join("tls.crt"), certificate).unwrap();
    std::fs::write(folder.join("tls.key"), key).unwrap();
}

#[tokio::test]
async fn a_pair_that_is_overwritten_is_served_and_a_broken_one_is_not() {
    let (log, mut bench) = (Log::start(), Bench::new());
    bench.look();
    bench.look();
    assert!(!bench.serves("one").await, "there is none yet");
    assert_eq!(bench.counts(), (0, 1), "said once");
    let (one, two) = (bench.ca.issue("one"), bench.ca.issue("two"));
    bench.write(&one.0, &one.1);
    bench.look();
    assert!(bench.serves("one").await && !bench.serves("two").await);
    let cut = &two.0[..two.0.len() / 2];
    let broken: [(&str, &str, &str); 5] = [
        ("half written", &two.0, &one.1),
        ("no key", &two.0, ""),
        ("no certificate", "", &two.1),
        ("cut", cut, &two.1),
        ("garbage", "garbage", "garbage"),
    ];
    for (number, (name, certificate, key)) in (2..).zip(broken) {
        bench.write(certificate, key);
        bench.look();
        bench.look();
        assert!(bench.serves("one").await && !bench.serves("two").await, "{name}");
        assert_eq!(bench.counts(), (1, number), "{name}");
    }
    bench.write(&two.0, &two.1);
    bench.look();
    bench.look();
    assert!(bench.serves("two").await && !bench.serves("one").await);
    assert_eq!(bench.counts(), (2, 6), "read once");
    let told = ["no review can be answered before there is one", "cannot be used: the one before is kept"];
    assert_eq!(told.map(|line| log.lines(line).len()), [1, 5]);
}

/// As kubelet does with a mounted Secret: the files are links through `..data`, which is switched.
#[tokio::test]
async fn a_folder_that_is_switched_is_read_anew() {
    let mut bench = Bench::new();
    let mount = bench.folder.path().to_owned();
    let switch = |version: &str, pair: &(String, String)| {
        std::fs::create_dir(mount.join(version)).unwrap();
        write(&mount.join(version), &pair.0, &pair.1);
        std::os::unix::fs::symlink(version, mount.join("..data_tmp")).unwrap();
        std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    };
    let (one, two) = (bench.ca.issue("one"), bench.ca.issue("two"));
    switch("..1", &one);
    for name in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), mount.join(name)).unwrap();
    }
    bench.look();
    assert!(bench.serves("one").await);
    switch("..2", &two);
    std::fs::remove_dir_all(mount.join("..1")).unwrap();
    bench.look();
    assert!(bench.serves("two").await && !bench.serves("one").await);
}

#[tokio::test(start_paused = true)]
async fn the_files_are_looked_at_after_each_period_until_it_ends() {
    let bench = Bench::new();
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&bench.certificate).reload(PERIOD, stop.clone()));
    while bench.counts() != (0, 1) {
        tokio::task::yield_now().await;
    }
    let one = bench.ca.issue("one");
    bench.write(&one.0, &one.1);
    let begun = tokio::time::Instant::now();
    while bench.counts() != (1, 1) {
        tokio::time::sleep(PERIOD / 10).await;
    }
    assert!(begun.elapsed() >= PERIOD, "{:?}", begun.elapsed());
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap();
}

#[test]
fn a_key_of_another_certificate_is_told_with_both_files() {
    let ca = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("tls.crt"), ca.issue("one").0).unwrap();
    std::fs::write(at("tls.key"), ca.issue("other").1).unwrap();
    let flag = "--webhook-cert-dir";
    let files = Files { certificate: (flag, at("tls.crt")), key: (flag, at("tls.key")) };
    let error = format!("{:#}", files.read().and_then(|pair| files.parse(pair)).unwrap_err());
    let (certificate, key) = (at("tls.crt"), at("tls.key"));
    let told = format!(
        "{flag} {} is not the private key of the certificate in {flag} {};",
        key.display(),
        certificate.display()
    );
    assert!(error.starts_with(&told), "{error}");
}
