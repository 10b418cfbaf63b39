//! What the cloud takes in a minute and in an hour.

use ccm_cloud::Budget as CloudBudget;

use super::*;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

fn windows(per_minute: u32, per_hour: u32, rest: &BudgetSettings) -> BudgetSettings {
    let (per_minute, per_hour) = (NonZeroU32::new(per_minute), NonZeroU32::new(per_hour));
    BudgetSettings { per_minute, per_hour, ..rest.clone() }
}

#[tokio::test(start_paused = true)]
async fn no_minute_and_no_hour_has_more_requests_than_the_cloud_takes_whenever_it_counts_them() {
    let budget = budget(windows(10, 35, &BudgetSettings { max_wait: 24 * HOUR, ..patient() }));
    let start = Instant::now();
    let times = RefCell::new(Vec::new());
    let ask = async |number: u32| {
        let permit = budget.acquire(Class::Write, far()).await.unwrap();
        let sent = Instant::now();
        // Some take long, and what ends late may have arrived late.
        sleep(S * (number % 7)).await;
        drop(permit);
        times.borrow_mut().push((sent, Instant::now()));
    };
    join_all((0..80).map(ask)).await;
    let times = times.into_inner();
    for (sent, _) in &times {
        for (length, most) in [(MINUTE, 10), (HOUR, 35)] {
            let counting = times.iter().filter(|(other, ended)| other <= sent && *ended + length > *sent).count();
            assert!(counting <= most, "{counting} in {length:?} at {:?}", *sent - start);
        }
    }
    // 35 in each hour, the first 10 of them at once.
    between(start.elapsed(), 2 * HOUR, 2 * HOUR + 2 * MINUTE);
    assert_eq!(times.iter().filter(|(sent, _)| *sent == start).count(), 10);
}

#[tokio::test(start_paused = true)]
async fn who_would_wait_too_long_for_a_place_hears_at_once_when_there_is_one() {
    let budget = budget(windows(2, 3, &BudgetSettings::default()));
    ask(&budget, Class::Write, 200, &[]).await;
    advance(20 * S).await;
    ask(&budget, Class::Write, 200, &[]).await;
    let told = refused(&budget, Class::Write).await;
    assert_eq!((told.reason, told.retry_after), (NoTurnReason::Throttled, 40 * S));
    let text = "the host sends 2 requests in 60 s; the next one can go in 40 s (limit requests-per-minute)";
    assert_eq!(told.message, text);
    advance(40 * S).await;
    let held = budget.acquire(Class::Write, far()).await.unwrap();
    // The hour is full until the first has left it; with that in it that is under way.
    assert_eq!(refused(&budget, Class::Write).await.retry_after, HOUR - MINUTE);
    drop(held);
    advance(HOUR - MINUTE).await;
    ask(&budget, Class::Write, 200, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn those_under_way_take_a_place_too() {
    let budget = budget(windows(1, 100, &BudgetSettings::default()));
    let held = budget.acquire(Class::Write, far()).await.unwrap();
    assert_eq!(refused(&budget, Class::Write).await.retry_after, MINUTE);
    advance(30 * S).await;
    drop(held);
    assert_eq!(refused(&budget, Class::Write).await.retry_after, MINUTE, "it may have arrived just now");
}

#[test]
fn what_the_provider_says_of_its_cloud_counts_unless_the_operator_knows_better() {
    let number = NonZeroU32::new;
    let minute = CloudBudget { per_minute: number(250), per_hour: number(5_000), ..CloudBudget::default() };
    let plain = BudgetSettings::default();
    assert_eq!(plain.clone().of_cloud(&CloudBudget::default()), plain);
    assert_eq!(plain.clone().of_cloud(&minute), windows(250, 5_000, &plain));
    let operators = windows(1_000, 20_000, &plain);
    assert_eq!(operators.clone().of_cloud(&minute), operators);

    let rate = |per_second: Option<u32>, burst: Option<u32>| {
        let (per_second, burst) = (per_second.and_then(number), burst.and_then(number));
        CloudBudget { per_second, burst, ..CloudBudget::default() }
    };
    let of = |cloud: CloudBudget| {
        let settings = plain.clone().of_cloud(&cloud);
        (settings.per_second, settings.burst.map(NonZeroU32::get))
    };
    assert_eq!(of(rate(Some(10), Some(30))), (Some(10.0), Some(30)));
    assert_eq!(of(rate(Some(10), None)), (Some(10.0), Some(10)), "no burst of many times the rate");
    assert_eq!(of(rate(None, Some(30))), (None, Some(30)));
    assert_eq!(of(rate(Some(1_000), Some(9_000))), (Some(50.0), Some(250)), "nobody asks for more than the defaults");
    let faster = BudgetSettings { per_second: Some(100.0), ..plain.clone() };
    assert_eq!(faster.clone().of_cloud(&rate(Some(10), None)), faster);
    let longer = BudgetSettings { burst: number(400), ..plain };
    assert_eq!(longer.of_cloud(&rate(Some(10), Some(30))).burst, number(400));
}
