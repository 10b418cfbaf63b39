//! Who holds a Lease, and whether the holder lives.
//!
//! Times in a Lease are those of its holder's clock, and nobody's proof: a Lease is held when its record changes while we look, and it is not
//! when the record stays the same for as long as the holder wants to be waited for. That is measured by our own clock alone, as candidates
//! do. Only a holder that wants to be waited for longer than [`LONGEST`] is judged by the time that it wrote, and that is said.

use std::time::Duration;

use ccm_leader::{holder, promised, shown};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::Instant;

use super::api_server::{all, answered};

/// What a holder promises that does not say.
const PROMISED: Duration = Duration::from_secs(15);
/// Nobody looks longer at a Lease: managers renew every two seconds.
const LONGEST: Duration = Duration::from_secs(20);
/// What our program calls itself to the API server.
const OURS: &str = "wasm-ccm";
/// What the API server calls a program that says nothing of itself.
const NAMELESS: &str = "unknown";
/// From one look to the next.
const PERIOD: Duration = Duration::from_millis(500);

/// How a Lease stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody's name is in it.
    Free,
    /// Its record changed while we looked.
    Held(Hold),
    /// Its record did not change for as long as the holder promised.
    Expired(Hold),
    /// Its record did not change, and the holder wants to be waited for longer than anybody looks.
    Unmoved(Hold),
}

/// What is in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Who, as it is [shown].
    pub(crate) holder: String,
    /// When it was renewed, by the clock of the holder.
    pub(crate) renewed: Option<Timestamp>,
    /// How long the holder wants to be waited for.
    pub(crate) promised: Duration,
    /// The program that renewed it last, as the API server knows it.
    pub(crate) writer: Option<String>,
}

impl Hold {
    fn of(lease: &Lease) -> Self {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        Self {
            holder: shown(holder(lease)),
            renewed: renewed.map(|time| time.0),
            promised: promised(lease).unwrap_or(PROMISED),
            writer: writer(lease),
        }
    }

    /// The program that renews it, if that is another one than ours.
    pub(crate) fn stranger(&self) -> Option<&str> {
        self.writer.as_deref().filter(|writer| *writer != OURS)
    }

    /// Whether it was renewed in time, if the holder's clock shows `now` as well.
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        let promised = SignedDuration::try_from(self.promised).unwrap_or(SignedDuration::MAX);
        self.renewed.is_some_and(|renewed| now.duration_since(renewed) <= promised)
    }

    /// How long ago it was renewed, as far as both clocks agree.
    pub(crate) fn told(&self, now: Timestamp) -> String {
        let Some(renewed) = self.renewed else { return "it says not when it was renewed".to_owned() };
        let ago = SignedDuration::from_secs(now.duration_since(renewed).as_secs());
        match ago.is_negative() {
            true => format!("renewed {:#} from now by the clock of the holder", ago.abs()),
            false => format!("last renewed {ago:#} ago by the clock of the holder"),
        }
    }
}

impl Standing {
    /// Who leads.
    pub(crate) fn held(&self) -> Option<&Hold> {
        match self {
            Self::Held(hold) => Some(hold),
            _ => None,
        }
    }
}

/// Leases that were looked at, by name.
pub(crate) type Standings = Vec<(String, Standing)>;

/// Looks at those Leases of a namespace that are `wanted`, until of each is known how it stands.
///
/// # Errors
///
/// The API server does not give them: why.
pub(crate) async fn watch_all(
    client: &Client,
    namespace: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<Standings, String> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    watched(async || {
        let mut leases: Vec<Lease> = all(client, &path, None).await?;
        leases.retain(|lease| wanted(&lease.name_any()));
        Ok(leases)
    })
    .await
}

/// What is in a Lease now, alive or not; none where there is none.
///
/// # Errors
///
/// The API server does not give it: why.
pub(crate) async fn look(client: &Client, namespace: &str, name: &str) -> Result<Option<Hold>, String> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    Ok(answered(api.get_opt(name)).await?.as_ref().map(Hold::of))
}

/// Looks at one Lease, until it is known how it stands; none where there is none.
///
/// # Errors
///
/// The API server does not give it: why.
pub(crate) async fn watch(client: &Client, namespace: &str, name: &str) -> Result<Option<Standing>, String> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let one = watched(async || Ok(answered(api.get_opt(name)).await?.into_iter().collect())).await?;
    Ok(one.into_iter().next().map(|(_, standing)| standing))
}

async fn watched(read: impl AsyncFn() -> Result<Vec<Lease>, String>) -> Result<Standings, String> {
    let mut open: Vec<Lease> = read().await?;
    let began = Instant::now();
    let mut standings: Standings = vec![];
    let settle = |open: &mut Vec<Lease>, now: &[Lease], standings: &mut Standings| {
        open.retain(|lease| {
            let now =
                now.iter().find(|one| one.metadata.uid == lease.metadata.uid && one.name_any() == lease.name_any());
            let standing = stands(lease, now, began.elapsed());
            standings.extend(standing.iter().map(|standing| (lease.name_any(), standing.clone())));
            standing.is_none()
        });
    };
    let first = open.clone();
    settle(&mut open, &first, &mut standings);
    while !open.is_empty() {
        tokio::time::sleep(PERIOD).await;
        let now = read().await?;
        settle(&mut open, &now, &mut standings);
    }
    Ok(standings)
}

/// How a Lease stands that was `before` and is `now`; none where that is not known yet.
fn stands(before: &Lease, now: Option<&Lease>, elapsed: Duration) -> Option<Standing> {
    // Somebody deleted it meanwhile.
    let Some(now) = now else { return Some(Standing::Free) };
    let hold = Hold::of(now);
    if hold.holder.is_empty() {
        Some(Standing::Free)
    } else if before.spec != now.spec {
        Some(Standing::Held(hold))
    } else if elapsed > hold.promised {
        Some(Standing::Expired(hold))
    } else {
        (elapsed > LONGEST).then_some(Standing::Unmoved(hold))
    }
}

/// The API server notes which program wrote a field last, by its `User-Agent` where it does not name itself.
fn writer(lease: &Lease) -> Option<String> {
    let renewed = |fields: &serde_json::Value| fields.pointer("/f:spec/f:renewTime").is_some();
    let mut entries = lease.metadata.managed_fields.iter().flatten();
    let last = entries.rfind(|entry| entry.fields_v1.as_ref().is_some_and(|fields| renewed(&fields.0)));
    last.and_then(|entry| entry.manager.clone()).filter(|manager| !matches!(manager.as_str(), "" | NAMELESS))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    fn lease(name: &str, holder: &str, renewed: &str, promised: u32) -> Lease {
        let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": promised, "renewTime": renewed });
        serde_json::from_value(json!({ "metadata": { "name": name, "uid": name }, "spec": spec })).unwrap()
    }

    /// What is found of Leases that say this at each look.
    async fn found(look: impl Fn(usize) -> Vec<Lease>) -> (Vec<(String, String)>, Duration) {
        let (began, looks) = (Instant::now(), Cell::new(0));
        let read = async || {
            looks.set(looks.get() + 1);
            Ok(look(looks.get() - 1))
        };
        let found = watched(read).await.unwrap();
        let word = |standing: &Standing| match standing {
            Standing::Free => "free".to_owned(),
            Standing::Held(hold) => format!("held by {}", hold.holder),
            Standing::Expired(hold) => format!("expired, of {}", hold.holder),
            Standing::Unmoved(hold) => format!("unmoved, of {}", hold.holder),
        };
        (found.iter().map(|(name, standing)| (name.clone(), word(standing))).collect(), began.elapsed())
    }

    /// A clock that was off by ten minutes once made a living leader a dead one, and a dead one a living.
    #[tokio::test(start_paused = true)]
    async fn a_lease_is_held_when_it_moves_whatever_its_times_say() {
        for renewed in ["2020-01-01T00:00:00.000000Z", "2090-01-01T00:00:00.000000Z"] {
            let next = renewed.replace("00:00Z", "02:00Z").replace(".000000", ".000001");
            let moves = |look| vec![lease("a", "n_1", if look < 4 { renewed } else { &next }, 15)];
            let (found_moving, took) = found(moves).await;
            assert_eq!(found_moving, [("a".to_owned(), "held by n_1".to_owned())]);
            assert!(took < Duration::from_secs(3), "{took:?}");
            let (found_still, took) = found(|_| vec![lease("a", "n_1", renewed, 15)]).await;
            assert_eq!(found_still, [("a".to_owned(), "expired, of n_1".to_owned())]);
            assert!((15..17).contains(&took.as_secs()), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_without_a_holder_is_known_at_once_and_a_patient_holder_is_not_waited_for() {
        let renewed = "2026-11-26T10:00:00.000000Z";
        let (free, took) = found(|_| vec![lease("a", "", renewed, 15)]).await;
        assert_eq!((free, took), (vec![("a".to_owned(), "free".to_owned())], Duration::ZERO));
        assert_eq!(found(|_| vec![]).await, (vec![], Duration::ZERO));
        let given_back = |look| vec![lease("a", if look == 0 { "n_1" } else { "" }, renewed, 15)];
        assert_eq!(found(given_back).await.0, [("a".to_owned(), "free".to_owned())]);
        let deleted = |look| if look == 0 { vec![lease("a", "n_1", renewed, 15)] } else { vec![] };
        assert_eq!(found(deleted).await.0, [("a".to_owned(), "free".to_owned())]);
        let (patient, took) = found(|_| vec![lease("a", "n_1", renewed, 600)]).await;
        assert_eq!(patient, [("a".to_owned(), "unmoved, of n_1".to_owned())]);
        assert!(took < Duration::from_secs(22), "{took:?}");
    }

    #[test]
    fn the_program_that_renewed_it_last_is_the_one_that_holds_it() {
        let written = |managers: serde_json::Value| {
            let mut lease = lease("a", "n_1", "2026-11-26T10:00:00.000000Z", 15);
            lease.metadata.managed_fields = serde_json::from_value(managers).unwrap();
            Hold::of(&lease)
        };
        let entry = |manager: &str, field: &str| json!({ "manager": manager, "fieldsV1": { "f:spec": { field: {} } } });
        let go = "digitalocean-cloud-controller-manager";
        let hold = written(json!([entry("wasm-ccm", "f:leaseTransitions"), entry(go, "f:renewTime")]));
        assert_eq!(hold.stranger(), Some(go));
        let hold = written(json!([entry(go, "f:leaseTransitions"), entry("wasm-ccm", "f:renewTime")]));
        assert_eq!((hold.writer.as_deref(), hold.stranger()), (Some("wasm-ccm"), None));
        for nobody in ["", "unknown"] {
            assert_eq!(written(json!([entry(nobody, "f:renewTime")])).writer, None);
        }
        assert_eq!(written(json!(null)).writer, None);
    }

    /// `doctor` and `explain` say it several times.
    #[test]
    fn what_a_holder_calls_itself_is_short() {
        let holder = format!("n_1\n\u{1b}[2J{}", "x".repeat(1 << 20));
        let hold = Hold::of(&lease("a", &holder, "2026-11-26T10:00:00.000000Z", 15));
        assert!(hold.holder.starts_with("n_1  [2Jx") && hold.holder.len() < 300, "{} bytes", hold.holder.len());
    }

    #[test]
    fn what_a_holder_wrote_is_told_by_its_clock() {
        let hold = Hold::of(&lease("a", "n_1", "2026-11-26T10:00:00.000000Z", 600));
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        assert_eq!(hold.told(at("2026-11-26T10:09:00Z")), "last renewed 9m ago by the clock of the holder");
        assert_eq!(hold.told(at("2026-11-26T09:50:00Z")), "renewed 10m from now by the clock of the holder");
        assert!(hold.is_fresh(at("2026-11-26T10:10:00Z")) && !hold.is_fresh(at("2026-11-26T10:10:01Z")));
    }
}
