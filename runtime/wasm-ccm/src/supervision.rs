//! Which controllers run, for those who look from outside: upstream's `running_managed_controllers`, and `/healthz/NAME`.

use std::num::NonZeroU32;

use ccm_controllers::Pulses;
use ccm_serving::health::{Check, Health};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use ccm_cli::controller_names::Controller;

/// Upstream's name of who runs them.
const MANAGER: &str = "cloud-controller-manager";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ManagedLabels {
    name: &'static str,
    manager: &'static str,
}

/// Controllers that run.
#[derive(Clone, Default)]
pub(crate) struct RunningMetrics {
    running: Family<ManagedLabels, Gauge>,
}

impl RunningMetrics {
    /// Registers the metric.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let this = Self::default();
        let help = "1 while a controller runs in this process, 0 when it has stopped; a standby has none";
        registry.register("running_managed_controllers", help, this.running.clone());
        this
    }
}

/// Looks after the controllers.
#[derive(Clone)]
pub(crate) struct Supervision {
    pub(crate) health: Health,
    pub(crate) running: RunningMetrics,
    pub(crate) pulses: Pulses,
    /// `--controller-watchdog-periods`
    pub(crate) periods: NonZeroU32,
}

impl Supervision {
    /// Does the work of a controller that begins now. From now on, health depends on its loops.
    pub(crate) async fn of<T>(self, controller: Controller, work: impl Future<Output = T>) -> T {
        let labels = ManagedLabels { name: controller.alias(), manager: MANAGER };
        let _running = Running::new(self.running.running.get_or_create_owned(&labels));
        self.watch(controller.name(), controller.loops());
        work.await
    }

    /// From now on, health depends on these loops.
    pub(crate) fn watch(&self, check: &'static str, loops: &'static [&'static str]) {
        let (pulses, periods) = (self.pulses.clone(), self.periods.get());
        self.health.add(Check::new(check, move || pulses.check(loops, periods)));
    }
}

/// Dropping it says that the controller has stopped, however it did.
struct Running(Gauge);

impl Running {
    fn new(gauge: Gauge) -> Self {
        gauge.set(1);
        Self(gauge)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ccm_serving::access::Reader;
    use futures::{FutureExt as _, poll};
    use hyper::StatusCode;

    use super::*;

    #[tokio::test]
    async fn a_controller_is_told_to_run_from_its_begin_to_its_end_whichever_end_that_is() {
        let mut registry = Registry::default();
        let health = Health::new([]);
        let supervision = Supervision {
            health: health.clone(),
            running: RunningMetrics::register(&mut registry),
            pulses: Pulses::default(),
            periods: NonZeroU32::MIN,
        };
        let told = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        let line = |value| {
            format!("running_managed_controllers{{name=\"cloud-node\",manager=\"cloud-controller-manager\"}} {value}")
        };
        assert_eq!(told(), [""; 0], "a standby has none");
        assert_eq!(health.one("cloud-node-controller"), None);
        let mut work = supervision.clone().of(Controller::Node, std::future::pending::<()>()).boxed();
        assert!(poll!(&mut work).is_pending());
        assert_eq!(told(), [line(1)]);
        drop(work);
        assert_eq!(told(), [line(0)]);
        supervision.of(Controller::Node, std::future::ready(())).await;
        assert_eq!(told(), [line(0)]);
        // It began twice, and is one.
        let (_, text) = health.all("verbose", Reader::Known);
        assert_eq!(text, "[+]cloud-node-controller ok\nhealthz check passed\n");
    }

    /// Nothing else makes Kubernetes restart a process whose controller is stuck.
    #[tokio::test(start_paused = true)]
    async fn health_fails_for_a_controller_one_of_whose_loops_is_stuck_and_for_no_other_one() {
        const PERIOD: Duration = Duration::from_secs(10);
        for controller in Controller::ALL {
            for stuck in controller.loops() {
                let supervision = Supervision {
                    health: Health::new([]),
                    running: RunningMetrics::default(),
                    pulses: Pulses::default(),
                    periods: NonZeroU32::MIN.saturating_add(2),
                };
                let _loops: Vec<_> = Controller::ALL
                    .into_iter()
                    .flat_map(|other| other.loops())
                    .map(|name| supervision.pulses.begin(name, if name == stuck { PERIOD } else { 9 * PERIOD }))
                    .collect();
                for controller in Controller::ALL {
                    supervision.clone().of(controller, std::future::ready(())).await;
                }
                tokio::time::advance(3 * PERIOD).await;
                assert_eq!(supervision.health.all("", Reader::Known).0, StatusCode::OK, "{stuck}");
                tokio::time::advance(PERIOD / 10).await;
                let failing = Controller::ALL
                    .into_iter()
                    .filter(|one| supervision.health.one(one.name()).unwrap().0 != StatusCode::OK)
                    .collect::<Vec<_>>();
                assert_eq!(failing, [controller], "{stuck}");
                let (status, text) = supervision.health.all("", Reader::Known);
                assert!(!status.is_success() && text.contains(&format!("its loop {stuck} has not turned")), "{text}");
            }
            assert!(!controller.loops().is_empty(), "{controller:?}");
        }
    }
}
