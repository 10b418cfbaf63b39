//! `run --dry-run`: the process writes nothing, takes part in no election, and says what it would write.
//!
//! What the controllers would do is [planned](ccm_plan) again and again. Everything else of the process is as in `run`: health port, providers and
//! their exchange, Nodes and Services in memory. So there are two places that keep all of it from writing: every request to the API server goes
//! by [`sealed`], and the leadership of every provider is a [`Journal`], which never leads.

use std::sync::Arc;

use anyhow::{Result, ensure};
use ccm_apiserver::{EventWriter, Pings, client};
use ccm_cloud::Leadership;
use ccm_controllers::{ClusterAddresses, Metrics, Reflector, ReflectorHandle};
use ccm_diagnosis::{Target, WouldWrite};
use ccm_leader::Beside;
use ccm_plan::{
    Asked, DryRunParts, Journal, Kind, Looking, Pending, PendingList, PendingPage, Periods, dry_run, sealed,
};
use ccm_rollout::PeerSettings;
use ccm_rollout::opened::Opened;
use ccm_serving::health::Check;
use ccm_status::{DryRun as Shown, PendingWrite, ROWS, Rows, Trouble};
use k8s_openapi::api::core::v1::Service;
use kube::{Client, Config};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::controllers::{Providers, keeps_routes};
use crate::plan;
use crate::stores::Stores;
use crate::supervision::Supervision;
use crate::tasks::Tasks;
use ccm_cli::RunArgs;
use ccm_cli::controller_names::Selection;

/// What `/readyz` and the status page say in the place of the leader.
const SAYS: &str = "dry run: this process writes nothing, and takes part in no election";

/// The check of `/healthz` that fails when a look hangs.
const HEALTH_CHECK: &str = "dry-run";

/// A process that writes nothing.
pub(crate) struct DryRun {
    journal: Arc<Journal>,
    pending: Pending,
    beside: Beside,
}

/// What there is to look at, and how.
pub(crate) struct Scene<'a> {
    pub(crate) args: &'a RunArgs,
    pub(crate) selection: &'a Selection,
    /// What [`client_of`] made.
    pub(crate) client: Client,
    pub(crate) stores: Stores,
    pub(crate) providers: Providers,
    pub(crate) addresses: ClusterAddresses,
    pub(crate) metrics: &'a Metrics,
    pub(crate) supervision: Supervision,
}

impl DryRun {
    /// None where the operator wants a process that writes.
    ///
    /// # Errors
    ///
    /// Names the flag that does not go with it.
    pub(crate) fn wanted(
        args: &RunArgs,
        selection: &Selection,
        serves_webhook: bool,
        registry: &mut Registry,
    ) -> Result<Option<Self>> {
        if !args.dry_run {
            return Ok(None);
        }
        ensure!(
            !serves_webhook,
            "--dry-run and --webhooks do not go together: the webhook would refuse Services; leave one of them out"
        );
        tracing::info!("{SAYS}; what it would write is in this log, on its page / and in ccm_dry_run_pending_writes");
        let kinds = plan::planned_controllers(selection).kinds(keeps_routes(args, selection));
        let pending = Pending::register(registry, &kinds);
        Ok(Some(Self { journal: Arc::default(), pending, beside: Beside::default() }))
    }

    /// The leadership of everything: it never leads, and notes changes of clouds that it forbids.
    pub(crate) fn leadership(&self) -> Arc<dyn Leadership> {
        Arc::clone(&self.journal) as _
    }

    /// For the pages.
    pub(crate) fn pending(&self) -> Pending {
        self.pending.clone()
    }

    /// Beside whom it works, for the pages.
    pub(crate) fn beside(&self) -> Beside {
        self.beside.clone()
    }

    /// Looks until the process stops.
    ///
    /// # Errors
    ///
    /// A flag of the controllers is wrong.
    pub(crate) fn start(self, tasks: &mut Tasks, scene: Scene<'_>) -> Result<()> {
        let Scene { args, selection, client, stores, providers, addresses, metrics, supervision } = scene;
        for (slot, _) in &providers {
            let slot = slot.clone();
            tasks.spawn_background("recoveries", async move { slot.follow().await });
        }
        // Without an election there is nobody to ask for.
        if args.leader.leader_elect {
            let PeerSettings { namespace, lease, .. } = args.leader.peers(None);
            let following = self.beside.follow(client.clone(), namespace, lease);
            tasks.spawn_background("Lease of the other manager", following);
        }
        let changes = providers
            .iter()
            .flat_map(|(slot, _)| [slot.generations(), slot.doubts(), slot.offers(), slot.recoveries()]);
        let looking = self.pending.looking().clone();
        let asked = |providers: &Providers, looking: &Looking| {
            let opened = |(slot, classes): &(ccm_rollout::ProviderSlot, Vec<String>)| Opened {
                provider: slot.component(),
                classes: classes.clone(),
            };
            providers.iter().map(opened).map(|opened| Asked::new(opened, looking)).collect()
        };
        // Where no controller reads Services, there are none.
        let nobody = || -> ReflectorHandle<Service> { Reflector::new(client.clone(), &metrics.store).handle() };
        let watched = looking.clone();
        let parts = DryRunParts {
            journal: self.journal,
            pending: self.pending,
            pulses: supervision.pulses.clone(),
            changes: changes.collect(),
            services: stores.services.unwrap_or_else(nobody),
            client,
            nodes: stores.nodes,
            providers: Box::new(move || asked(&providers, &looking)),
            addresses,
            controllers: plan::planned_controllers(selection),
            settings: plan::settings(args, selection)?,
            periods: periods(args),
            is_talkative: args.v >= 4 || args.trace_http,
        };
        let (pulses, periods) = (supervision.pulses.clone(), supervision.periods.get());
        supervision.health.add(Check::new(HEALTH_CHECK, move || watched.check(&pulses, periods)));
        let stop = tasks.stop.clone();
        tasks.spawn_reader("dry run", async move {
            stop.run_until_cancelled(dry_run(parts)).await;
        });
        Ok(())
    }
}

/// Those of the controllers.
fn periods(args: &RunArgs) -> Periods {
    let lifecycle = args.node_lifecycle.settings();
    let service = args.service.settings();
    Periods {
        nodes: args.node_status_update_frequency,
        nodes_again: (lifecycle.monitor_period, lifecycle.max_monitor_period),
        services: service.verify_period,
        services_again: (service.queue.min_backoff, service.queue.max_backoff),
        routes: args.route.settings().period,
        cluster: args.cluster.settings().period,
    }
}

/// The client of a process: one that cannot write, where it is a dry run.
///
/// # Errors
///
/// The configuration cannot be used.
pub(crate) fn client_of(
    config: &Config,
    pings: Pings,
    metrics: &ccm_apiserver::ApiMetrics,
    is_dry_run: bool,
) -> Result<Client> {
    let client = client(config, pings, metrics)?;
    Ok(if is_dry_run { sealed(&client) } else { client })
}

/// Writes Events until `drain`; a dry run writes none.
pub(crate) async fn write_events(writer: EventWriter, drain: CancellationToken, is_dry_run: bool) {
    if is_dry_run {
        // Whoever has something to say hears that nobody listens.
        drop(writer);
        return drain.cancelled().await;
    }
    writer.run(drain).await;
}

/// What stands in the place of the leader, in lines.
pub(crate) fn lines_of_leader(beside: &Beside) -> impl Iterator<Item = String> {
    [SAYS.to_owned()].into_iter().chain(beside.line())
}

/// For the status page.
pub(crate) fn shown(pending: &Pending) -> Shown {
    let PendingPage { list, writes: all, changes, left_out, unknown: all_unknown } = pending.first(ROWS);
    let PendingList { writes, unknown, as_of } = list;
    let write = |ccm_plan::PendingWrite { object, write, since, .. }: &ccm_plan::PendingWrite| PendingWrite {
        object: object.clone(),
        write: write.clone(),
        since: format!("{since:.0}"),
    };
    let trouble = |(name, why): &(String, String)| Trouble {
        name: name.clone(),
        reason: "not known".to_owned(),
        why: Some(why.clone()),
        next: None,
    };
    Shown {
        as_of: as_of.map(|at| format!("{at:.0}")),
        looking: pending.looking().line(),
        changes,
        left_out,
        writes: Rows { all, first: writes.iter().map(write).collect() },
        unknown: Rows { all: all_unknown, first: unknown.iter().map(trouble).collect() },
    }
}

/// For `explain`: what would be written to one object, in one line each.
pub(crate) fn would_write(pending: &Pending, target: &Target) -> WouldWrite {
    let PendingList { writes, unknown, as_of } = match target {
        Target::Service { namespace, name } => pending.of(Kind::Service, &format!("{namespace}/{name}")),
        Target::Node { name } => pending.of(Kind::Node, name),
    };
    let deletes = writes.iter().any(|one| one.deletes);
    let written = writes.iter().map(|one| format!("would write since {:.0}: {}", one.since, one.write));
    let unknown = unknown.iter().map(|(_, why)| format!("not known what it would write: {why}"));
    let lines: Vec<String> = written.chain(unknown).collect();
    let nothing = || match as_of {
        Some(as_of) => format!("would write nothing, as of {as_of:.0}"),
        None => "nothing was looked at yet".to_owned(),
    };
    WouldWrite { lines: if lines.is_empty() { vec![nothing()] } else { lines }, deletes }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use ccm_plan::ObjectPlan;
    use clap::Parser;
    use http::{Method, Request};
    use kube::client::Body;
    use parking_lot::Mutex;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;

    const NODE: &str = "/api/v1/nodes/n1";
    const REVIEW: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
    /// What may leave a dry run.
    pub(crate) const HARMLESS: [(Method, &str); 2] = [(Method::GET, NODE), (Method::POST, REVIEW)];

    /// An API server that takes everything, and what reached it. It ends with `tasks`.
    pub(crate) async fn server(tasks: &mut JoinSet<()>) -> (String, Arc<Mutex<Vec<(Method, String)>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<(Method, String)>>> = Arc::default();
        let told = Arc::clone(&asked);
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                // These requests have no bodies.
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    head.push(char::from(stream.read_u8().await.unwrap()));
                }
                let mut words = head.split(' ');
                let method = words.next().unwrap().parse().unwrap();
                told.lock().push((method, words.next().unwrap().to_owned()));
                let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
                stream.write_all(answer).await.unwrap();
            }
        });
        (url, asked)
    }

    /// What is said to a write, and to what is harmless.
    pub(crate) async fn statuses(client: &Client) -> Vec<u16> {
        let mut statuses = vec![];
        for (method, path) in [(Method::PATCH, NODE)].into_iter().chain(HARMLESS) {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            statuses.push(client.send(request).await.unwrap().status().as_u16());
        }
        statuses
    }

    #[tokio::test]
    async fn the_client_of_a_dry_run_sends_no_write_and_that_of_another_process_does() {
        let pings = Pings { period: Duration::from_secs(30), timeout: Duration::from_secs(15) };
        let metrics = ccm_apiserver::ApiMetrics::register(&mut Registry::default());
        for is_dry_run in [true, false] {
            let mut tasks = JoinSet::new();
            let (url, asked) = server(&mut tasks).await;
            let client = client_of(&Config::new(url.parse().unwrap()), pings, &metrics, is_dry_run).unwrap();
            let (status, arrived) = if is_dry_run { (403, 2) } else { (200, 3) };
            assert_eq!(statuses(&client).await, [status, 200, 200], "{is_dry_run}");
            let asked = asked.lock();
            assert_eq!(asked.len(), arrived, "{asked:?}");
            let harmless = HARMLESS.map(|(method, path)| (method, path.to_owned()));
            assert!(!is_dry_run || *asked == harmless, "{asked:?}");
        }
    }

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        run: RunArgs,
    }

    fn wanted(flags: &[&str], serves_webhook: bool) -> Result<Option<DryRun>> {
        let args = Cli::try_parse_from(["run", "--provider=a.wasm"].iter().chain(flags)).ok().unwrap().run;
        let selection = Selection::parse(&args.controllers).unwrap();
        DryRun::wanted(&args, &selection, serves_webhook, &mut Registry::default())
    }

    #[test]
    fn a_dry_run_is_wanted_or_not_and_never_leads_whatever_the_flags_of_the_election_say() {
        assert!(wanted(&[], true).unwrap().is_none());
        for flags in [&["--dry-run"][..], &["--dry-run", "--leader-elect=true"], &["--leader-elect", "--dry-run"]] {
            assert!(!wanted(flags, false).unwrap().unwrap().leadership().may_write(), "{flags:?}");
        }
    }

    #[test]
    fn what_would_change_the_cluster_without_a_write_is_refused() {
        let error = wanted(&["--dry-run"], true).err().unwrap().to_string();
        assert!(error.starts_with("--dry-run and --webhooks do not go together"), "{error}");
    }

    #[test]
    fn before_the_first_look_nothing_is_said_of_an_object() {
        let pending = Pending::register(&mut Registry::default(), &[Kind::Node]);
        let target = Target::Node { name: "n1".to_owned() };
        assert_eq!(would_write(&pending, &target).lines, ["nothing was looked at yet"]);
        assert_eq!((shown(&pending).as_of, shown(&pending).looking), (None, None));
        let _begun = pending.looking().begins();
        let looking = shown(&pending).looking.unwrap();
        assert!(looking.starts_with("looking since 20") && looking.ends_with(" s"), "{looking}");
    }

    /// `explain` once knew a deletion by the words of its line.
    #[test]
    fn a_dry_run_says_whether_it_would_delete_the_object() {
        let pending = Pending::register(&mut Registry::default(), &[Kind::Node]);
        let write = |method: &str, node: &str| ccm_plan::Write::Cluster {
            method: method.to_owned(),
            path: format!("/api/v1/nodes/{node}"),
            body: serde_json::Value::Null,
        };
        let plan = |name: &str, write| {
            let (name, writes) = (name.to_owned(), vec![write]);
            ObjectPlan { kind: Kind::Node, name, writes, ..ObjectPlan::default() }
        };
        pending.looked(
            vec![
                plan("n1", write("DELETE", "n1")),
                plan("n2", write("PATCH", "n2")),
                plan("n3", write("DELETE", "n30")),
            ],
            Some(Kind::Node),
        );
        for (name, deletes) in [("n1", true), ("n2", false), ("n3", false), ("n4", false)] {
            assert_eq!(would_write(&pending, &Target::Node { name: name.to_owned() }).deletes, deletes, "{name}");
        }
    }

    /// Who would switch believes "would write nothing".
    #[test]
    fn what_is_not_known_is_said_and_is_not_nothing() {
        let pending = Pending::register(&mut Registry::default(), &[Kind::Service]);
        let (name, unknown) = ("default/web".to_owned(), Some("the cloud said 500".to_owned()));
        pending.looked(
            vec![ObjectPlan { kind: Kind::Service, name, unknown, ..ObjectPlan::default() }],
            Some(Kind::Service),
        );
        let service = |name: &str| Target::Service { namespace: "default".to_owned(), name: name.to_owned() };
        assert_eq!(would_write(&pending, &service("web")).lines, ["not known what it would write: the cloud said 500"]);
        assert!(would_write(&pending, &service("other")).lines[0].starts_with("would write nothing, as of "));
        let Rows { all, first } = shown(&pending).unknown;
        let told = first.iter().map(|one| (one.name.as_str(), one.why.as_deref())).collect::<Vec<_>>();
        assert_eq!((all, told), (1, vec![("Service default/web", Some("the cloud said 500"))]));
    }

    #[test]
    fn the_page_of_a_large_cluster_is_small_and_tells_how_much_there_is() {
        let pending = Pending::register(&mut Registry::default(), &[Kind::Service]);
        let body = serde_json::json!({ "a": "x".repeat(4_096) });
        let write = |path: &str| ccm_plan::Write::Cluster {
            method: "PATCH".to_owned(),
            path: path.to_owned(),
            body: body.clone(),
        };
        let plan = |number: usize| {
            let unknown = number.is_multiple_of(2).then(|| "the cloud said 500".to_owned());
            let name = format!("default/s{number:05}");
            let writes = vec![write("/a"), write("/b")];
            ObjectPlan { kind: Kind::Service, name, writes, unknown, ..ObjectPlan::default() }
        };
        pending.looked((0..10_000).map(plan).collect(), Some(Kind::Service));
        let shown = shown(&pending);
        assert_eq!((shown.writes.first.len(), shown.unknown.first.len()), (ROWS, ROWS));
        let page = ccm_status::Status { dry_run: Some(shown), ..ccm_status::Status::default() }.render();
        assert!(page.len() <= ccm_status::MAX_PAGE, "{} bytes", page.len());
        assert!(page.contains("Would be written: 20,000") && page.contains("Not known: 5,000"), "{page}");
        // 80 MB of writes.
        assert!(
            page.contains(" writes are shown without what they are: the list would need too much memory"),
            "{page}"
        );
    }
}
