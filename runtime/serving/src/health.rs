//! `/healthz`: whether a restart would help. `/readyz`: what the process still waits for. Both check by check, in upstream's form.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccm_cloud::is_plain;
use hyper::StatusCode;
use parking_lot::Mutex;

use crate::access::Reader;

type Ask = dyn Fn() -> Result<(), String> + Send + Sync;

/// Something that must hold of a process that works.
#[derive(Clone)]
pub struct Check {
    name: &'static str,
    ask: Arc<Ask>,
}

impl Check {
    /// `ask` must answer at once.
    pub fn new(name: &'static str, ask: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name, ask: Arc::new(ask) }
    }

    fn state(&self) -> Result<(), String> {
        (self.ask)().map_err(|why| one_line(&why))
    }
}

/// All checks. Without any there is one that always holds, `ping`.
#[derive(Clone)]
pub struct Health(Arc<Mutex<Vec<Check>>>);

impl Health {
    /// These checks.
    pub fn new(checks: impl IntoIterator<Item = Check>) -> Self {
        Self(Arc::new(Mutex::new(checks.into_iter().collect())))
    }

    /// One more, from now on: of a controller that has started. It takes the place of one with this name.
    pub fn add(&self, check: Check) {
        let mut checks = self.0.lock();
        checks.retain(|other| other.name != check.name);
        checks.push(check);
    }

    fn checks(&self) -> Vec<Check> {
        let checks = self.0.lock().clone();
        if checks.is_empty() { vec![Check::new("ping", || Ok(()))] } else { checks }
    }

    /// What `/healthz` answers; `query` may have `verbose` and `exclude=CHECK`. As upstream, reasons are not for [everybody](Reader::Anybody).
    pub fn all(&self, query: &str, reader: Reader) -> (StatusCode, String) {
        let excluded = |name: &str| query.split('&').any(|part| part.strip_prefix("exclude=") == Some(name));
        let mut is_healthy = true;
        let mut text = String::new();
        for check in self.checks() {
            text += &match check.state() {
                _ if excluded(check.name) => format!("[+]{} excluded: ok\n", check.name),
                Ok(()) => format!("[+]{} ok\n", check.name),
                Err(why) => {
                    is_healthy = false;
                    let why = if reader == Reader::Known { why.as_str() } else { "reason withheld" };
                    format!("[-]{} failed: {why}\n", check.name)
                }
            };
        }
        if !is_healthy {
            return (StatusCode::INTERNAL_SERVER_ERROR, text + "healthz check failed\n");
        }
        let is_verbose = query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
        (StatusCode::OK, if is_verbose { text + "healthz check passed\n" } else { "ok".to_owned() })
    }

    /// The checks that fail, in a line each.
    pub fn failing(&self) -> Vec<String> {
        let failing = |check: &Check| check.state().err().map(|why| format!("{} failed: {why}", check.name));
        self.checks().iter().filter_map(failing).collect()
    }

    /// What `/healthz/NAME`, `/livez/NAME` and `/readyz/NAME` answer; none when there is no such check.
    pub fn one(&self, name: &str) -> Option<(StatusCode, String)> {
        let check = self.checks().into_iter().find(|check| check.name == name)?;
        Some(match check.state() {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{name} failed: {why}\n")),
        })
    }
}

/// The checks of readiness, each with the reason if it fails.
#[derive(Clone, Default)]
pub struct Readiness {
    checks: Arc<Mutex<BTreeMap<String, Result<(), String>>>>,
}

impl Readiness {
    /// Says how a check stands.
    pub fn set(&self, check: &str, state: Result<(), String>) {
        self.checks.lock().insert(one_line(check), state.map_err(|why| one_line(&why)));
    }

    /// Whether all checks pass, and a line per check.
    pub fn report(&self) -> (bool, String) {
        let checks = self.checks.lock();
        let line = |(name, state): (&String, &Result<(), String>)| match state {
            Ok(()) => format!("[+]{name} ok\n"),
            Err(why) => format!("[-]{name} not ready: {why}\n"),
        };
        let text = checks.iter().map(line).collect();
        (!checks.is_empty() && checks.values().all(Result::is_ok), text)
    }

    /// The checks that fail, in a line each.
    pub fn failing(&self) -> Vec<String> {
        let failing = |(name, state): (&String, &Result<(), String>)| {
            state.as_ref().err().map(|why| format!("{name} not ready: {why}"))
        };
        self.checks.lock().iter().filter_map(failing).collect()
    }

    /// What `/readyz/NAME` answers; none when there is no such check.
    pub fn one(&self, name: &str) -> Option<(StatusCode, String)> {
        let checks = self.checks.lock();
        Some(match checks.get(name)? {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{name} not ready: {why}\n")),
        })
    }
}

/// What others say must not look like the line of another check, nor move the cursor of a terminal.
fn one_line(text: &str) -> String {
    text.replace(|c| !is_plain(c), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_told_check_by_check() {
        let health =
            Health::new([Check::new("one", || Ok(())), Check::new("leaderElection", || Err("it hangs".to_owned()))]);
        let (good, bad) = (StatusCode::OK, StatusCode::INTERNAL_SERVER_ERROR);
        for (query, status, text) in [
            ("", bad, "[+]one ok\n[-]leaderElection failed: it hangs\nhealthz check failed\n"),
            ("exclude=leaderElection", good, "ok"),
            (
                "verbose&exclude=leaderElection",
                good,
                "[+]one ok\n[+]leaderElection excluded: ok\nhealthz check passed\n",
            ),
        ] {
            assert_eq!(health.all(query, Reader::Known), (status, text.to_owned()), "{query}");
        }
        let withheld = "[+]one ok\n[-]leaderElection failed: reason withheld\nhealthz check failed\n".to_owned();
        assert_eq!(health.all("", Reader::Anybody), (bad, withheld));
        assert_eq!(health.one("one"), Some((good, "ok".to_owned())));
        assert_eq!(health.one("leaderElection"), Some((bad, "leaderElection failed: it hangs\n".to_owned())));
        assert_eq!(health.one("other"), None);
        assert_eq!(
            Health::new([]).all("verbose", Reader::Known),
            (good, "[+]ping ok\nhealthz check passed\n".to_owned())
        );
    }

    #[test]
    fn checks_of_controllers_come_when_these_start_and_take_the_place_of_the_ping() {
        let health = Health::new([]);
        let seen = health.clone();
        health.add(Check::new("service-lb-controller", || Err("it hangs".to_owned())));
        let bad = StatusCode::INTERNAL_SERVER_ERROR;
        assert_eq!(
            seen.all("", Reader::Known),
            (bad, "[-]service-lb-controller failed: it hangs\nhealthz check failed\n".to_owned())
        );
        let text = "service-lb-controller failed: it hangs\n".to_owned();
        assert_eq!((seen.one("service-lb-controller"), seen.one("ping")), (Some((bad, text)), None));
    }

    /// What a component or a cloud says may have lines of its own.
    #[test]
    fn no_reason_becomes_the_line_of_another_check() {
        let readiness = Readiness::default();
        readiness.set("provider x\n[+]y", Err("refused\n[+]nodes ok\r\u{1b}[2Jx\u{202e}y".to_owned()));
        let lines = "[-]provider x [+]y not ready: refused [+]nodes ok  [2Jx y\n";
        assert_eq!(readiness.report(), (false, lines.to_owned()));
    }

    #[test]
    fn one_check_of_readiness_can_be_asked_for_by_its_name() {
        let readiness = Readiness::default();
        readiness.set("nodes", Ok(()));
        readiness.set("services", Err("not listed".to_owned()));
        assert_eq!(readiness.one("nodes"), Some((StatusCode::OK, "ok".to_owned())));
        let text = "services not ready: not listed\n".to_owned();
        assert_eq!(readiness.one("services"), Some((StatusCode::SERVICE_UNAVAILABLE, text)));
        assert_eq!(readiness.one("other"), None);
    }
}
