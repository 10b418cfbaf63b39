//! The vendor's own client against the simulator, every exchange checked against the vendor's document.

use std::path::Path;
use std::time::Duration;

use ccm_sim_digitalocean::{Certificate, CertificateKind, DigitalOcean, Droplet, Endpoint, Settings, TOKEN};

/// For a client that Go may have to compile.
const BUILD: Duration = Duration::from_secs(600);

#[tokio::test]
async fn the_client_of_the_vendor_understands_the_simulator() {
    let settings = Settings { provisioning: Duration::from_millis(200), ..Settings::default() };
    let cloud = DigitalOcean::start(settings).await.unwrap();
    for id in 1..=3 {
        cloud.put_droplet(Droplet::new(id, &format!("node-{id}")));
    }
    cloud.put_droplet(Droplet { gpu: true, ..Droplet::new(9, "gpu-1") });
    cloud.put_certificate(Certificate::new("web", CertificateKind::LetsEncrypt, "www.example.com"));

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("godo");
    let mut go = tokio::process::Command::new("go");
    let run = go
        .args(["test", "-count=1", "./..."])
        .current_dir(folder)
        .env("SIMULATOR_URL", cloud.url())
        .env("SIMULATOR_TOKEN", TOKEN)
        .kill_on_drop(true)
        .output();
    let run = tokio::time::timeout(BUILD, run).await.unwrap_or_else(|_| panic!("go test runs on after {BUILD:?}"));
    let run = run.expect("Go 1.26 (https://go.dev/dl)");
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{out}{}", String::from_utf8_lossy(&run.stderr));

    let asked: Vec<Endpoint> = cloud.counters().requests.into_keys().collect();
    assert_eq!(asked, Endpoint::ALL, "the client has not asked for everything");

    // On both sides.
    cloud.check().unwrap();
}
