//! Services that nobody here can read.

use tokio::sync::watch;

use super::offer::{WEB, calls, with_other};
use super::*;
use crate::service::unread;
use crate::store::{FirstList, Reach, Shown, Unread, UnreadObject};

const WHY: &str =
    "it takes 200112 bytes in memory, 200000 of them for its annotations: a Service is kept up to 128 KiB";

const HOUR: Duration = Duration::from_secs(3_600);

fn object(uid: &str, why: &str, shown: Shown) -> UnreadObject {
    UnreadObject { uid: uid.to_owned(), why: why.to_owned(), shown, reach: Reach::UNKNOWN }
}

/// Says which Services cannot be read.
fn notes(bench: &mut Bench) -> watch::Sender<Unread> {
    let notes = watch::Sender::new(Unread::new());
    let syncer = Arc::get_mut(&mut bench.syncer).expect("nothing runs");
    syncer.unread = FirstList::there().with_unread(notes.subscribe()).unread();
    notes
}

fn named(name: &str) -> (String, String) {
    ("default".to_owned(), name.to_owned())
}

/// The log alone said it, which whoever wrote the Service need not see.
#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_read_says_why_what_follows_and_what_to_do() {
    let repeat_warning = HOUR;
    let settings = ServiceSettings { repeat_warning, ..ServiceSettings::default() };
    let mut bench = Bench::with(FakeBalancers::default(), settings);
    let notes = notes(&mut bench);
    notes.send_modify(|all| all.extend([(named("big"), object("u", WHY, Shown::LeftOut))]));
    let syncer = Arc::clone(&bench.syncer);
    let story = async {
        tokio::time::sleep(HOUR / 2).await;
        notes.send_modify(|all| all.extend([(named("grown"), object("v", WHY, Shown::AsBefore))]));
        tokio::time::sleep(HOUR / 4).await;
        // Another one of the name.
        notes.send_modify(|all| all.extend([(named("big"), object("w", WHY, Shown::New))]));
        tokio::time::sleep(HOUR / 4).await;
        notes.send_modify(|all| all.clear());
        tokio::time::sleep(HOUR * 3).await;
        drop(notes);
    };
    tokio::join!(unread::run(&syncer), story);
    let events = bench.events().await;
    assert!(events.iter().all(|event| event.starts_with("Warning ServiceUnreadable: ")), "{events:?}");
    let part = |part: &Value| part.as_str().unwrap().to_owned();
    let told = bench.api.raw_events().into_iter().map(|event| (part(&event["regarding"]["uid"]), part(&event["note"])));
    let mut told: Vec<(String, String)> = told.collect();
    told.sort();
    let says = |uid: &str, does: &str| {
        let way_out = "Until you correct that, or take away what is too much";
        (uid.to_owned(), format!("the Service cannot be read: {WHY}. {way_out}, the host {does}"))
    };
    let nothing = "does nothing for the Service, and what the Service has in the cloud stays as it is";
    assert_eq!(told, [says("u", nothing), says("v", "goes on with the Service as it was before"), says("w", nothing)]);
}

/// Fifty of them say so at once. When the others had their turn, those fifty were news again, and the others never had one.
#[tokio::test(start_paused = true)]
async fn of_many_services_that_cannot_be_read_each_has_its_turn() {
    const COUNT: usize = 60;
    const MINUTE: Duration = Duration::from_secs(60);
    for repeat_warning in [HOUR, MINUTE] {
        let settings = ServiceSettings { repeat_warning, ..ServiceSettings::default() };
        let mut bench = Bench::with(FakeBalancers::default(), settings);
        let notes = notes(&mut bench);
        let one = |number| (named(&format!("s{number:02}")), object(&format!("u{number:02}"), WHY, Shown::LeftOut));
        notes.send_modify(|all| all.extend((0..COUNT).map(one)));
        let syncer = Arc::clone(&bench.syncer);
        let story = async {
            tokio::time::sleep(MINUTE + MINUTE / 2).await;
            drop(notes);
        };
        tokio::join!(unread::run(&syncer), story);
        bench.events().await;
        let about = |event: &Value| event["regarding"]["uid"].as_str().unwrap().to_owned();
        let mut told: Vec<String> = bench.api.raw_events().iter().map(about).collect();
        told.sort();
        told.dedup();
        assert_eq!(told.len(), COUNT, "{repeat_warning:?}");
    }
}

/// It may be the one that was restored in the place of the original, and takes its load balancer over when it can be read.
#[tokio::test(start_paused = true)]
async fn what_a_service_leaves_behind_that_was_removed_by_force_stays_as_long_as_another_one_cannot_be_read() {
    let mut bench = with_other(FakeBalancers::default()).await;
    let notes = notes(&mut bench);
    notes.send_modify(|all| all.extend([(named("web"), object(WEB, WHY, Shown::New))]));
    bench.api.destroy_service("other");
    bench.catch_up();
    let Verdict::After(delay) = bench.sync("other").await else { panic!("deleted") };
    assert_eq!(calls(&bench), [""; 0]);
    let events = bench.events().await;
    let why = format!("Service default/web cannot be read: {WHY}");
    assert!(
        events.iter().any(|event| event.contains("DeleteLoadBalancerFailed") && event.contains(&why)),
        "{events:?}"
    );

    // One that the store shows as it was before is asked as any other.
    notes.send_modify(|all| all.extend([(named("web"), object(WEB, WHY, Shown::AsBefore))]));
    tokio::time::advance(delay).await;
    assert_eq!(bench.sync("other").await, Verdict::Done);
    assert_eq!(calls(&bench), ["delete other"]);
}

/// Whoever may write Services, and none with a load balancer, kept every load balancer in the cloud that others left behind.
#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_read_and_has_no_load_balancer_keeps_none_that_others_leave_behind() {
    let mut bench = with_other(FakeBalancers::default()).await;
    let notes = notes(&mut bench);
    let reach = Reach { exposes: true, is_balancer: false };
    let object = UnreadObject { reach, ..object(WEB, WHY, Shown::LeftOut) };
    notes.send_modify(|all| all.extend([(named("web"), object)]));
    bench.api.destroy_service("other");
    bench.catch_up();
    assert_eq!(bench.sync("other").await, Verdict::Done);
    assert_eq!(calls(&bench), ["delete other"]);
}
