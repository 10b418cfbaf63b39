//! The status page in Debian's chromium: what a browser makes of it is what the metrics say, and its style is let through.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;
use tokio::process::Command;

use super::{Scene, has_all, section, words};
use crate::stage::{LIMIT, Stage};

/// The background in both schemes, as the style sheet has it.
const LIGHT: [u8; 3] = [0xff, 0xff, 0xff];
const DARK: [u8; 3] = [0x12, 0x15, 0x18];

/// A phone and a desk, in pixels.
const WIDTHS: [u32; 2] = [390, 1280];

/// Runs the browser on the page with a profile of its own.
async fn browse(stage: &Stage, url: &str, name: &str, flags: &[String]) -> String {
    let profile = format!("--user-data-dir={}", stage.folder().join(name).display());
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", "--hide-scrollbars"]);
    browser.args([
        "--no-first-run",
        "--disable-background-networking",
        "--disable-extensions",
        "--disable-dev-shm-usage",
    ]);
    let output = browser.arg(profile).args(flags).arg(url).kill_on_drop(true).output();
    let output = tokio::time::timeout(LIMIT, output).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The document as the browser has it.
async fn document(scene: &Scene, name: &str) -> String {
    browse(&scene.stage, &url(scene), name, &["--dump-dom".to_owned()]).await
}

fn url(scene: &Scene) -> String {
    format!("https://127.0.0.1:{}/", scene.host.port())
}

/// Takes a picture, where people find it later, and returns how wide it is and the colour of its corner.
async fn picture(scene: &Scene, name: &str, width: u32, is_dark: bool) -> (u32, [u8; 3]) {
    let scheme = if is_dark { "dark" } else { "light" };
    let name = format!("status-{name}-{width}-{scheme}");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
    let mut flags = vec![format!("--screenshot={}", file.display()), format!("--window-size={width},1600")];
    flags.push(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)));
    browse(&scene.stage, &url(scene), &name, &flags).await;
    corner(&file)
}

/// Width and first pixel of a PNG. Whatever filter its first row has: nothing is before or above the first pixel.
fn corner(file: &Path) -> (u32, [u8; 3]) {
    let bytes = std::fs::read(file).unwrap();
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (width, mut data, mut at) = (number(16), vec![], 8);
    while let Some(kind) = bytes.get(at + 4..at + 8) {
        let length = usize::try_from(number(at)).unwrap();
        if kind == b"IDAT" {
            data.extend_from_slice(&bytes[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    let mut first = [0; 4];
    ZlibDecoder::new(&*data).read_exact(&mut first).unwrap();
    (width, [first[1], first[2], first[3]])
}

#[tokio::test]
#[ignore = "needs chromium, which `./just browser-test` installs"]
async fn a_browser_shows_what_the_metrics_say_in_both_schemes_and_runs_nothing() {
    let scene = Scene::healthy().await;
    let shown = document(&scene, "healthy").await;
    has_all(&words(&shown), &["Nothing needs attention"]);
    let [phone, desk] = WIDTHS;
    assert_eq!(picture(&scene, "healthy", desk, false).await, (desk, LIGHT));
    assert_eq!(picture(&scene, "healthy", phone, true).await, (phone, DARK));

    scene.breaks().await;
    let shown = document(&scene, "broken").await;
    let services = scene.host.count("ccm_services_not_ready", &[]).await.unwrap();
    let held = scene.host.count("ccm_node_lifecycle_held_nodes", &[]).await.unwrap();
    has_all(&words(&shown), &[&format!("{services} Services not ready"), &format!("{held} held deletion")]);
    has_all(&section(&shown, "services"), &[super::ATTACK, "default/refused CloudFailed"]);
    assert!(!shown.contains("<script"), "{shown}");
    assert_eq!(picture(&scene, "broken", phone, false).await, (phone, LIGHT));
    assert_eq!(picture(&scene, "broken", desk, true).await, (desk, DARK));
    scene.host.end().await;
}
