//! What answers take of the memory of the process.

use super::*;
use crate::memory::MemoryBudget;

/// Only bodies were counted: of thousands of answers that a call asks for at once, all of them the copy of one, the headers alone took tens of
/// megabytes, in each of a crowd of calls.
#[tokio::test]
async fn headers_of_answers_count_until_the_guest_asks_again() {
    let headers = format!("x-long: {}\r\n", "h".repeat(10_000));
    let rig = Rig::new(move |_| Reply::Bytes(reply("200 OK", &headers, "{}")));
    let share = MemoryBudget::new(1 << 20, 1).share("a");
    let mut call = CallScope::new(Class::Write, false, false, None, 500, 1 << 20);
    call.memory = share.try_begin(0).unwrap();
    let asks = || Request { share: 600 * S, ..request(Method::Get, Effect::Read) };
    let answers = rig.egress.send_all((0..200).map(|_| asks()).collect(), &call).await;
    let (given, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!((90..=104).contains(&given.len()), "{} answers of 10 kB in a megabyte", given.len());
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(error.maybe_sent && error.message.contains("--provider-memory"), "{error}");
    }
    assert_eq!(rig.cloud.take().len(), 1);
    call.asks_again();
    assert_eq!(rig.egress.send(asks(), &call).await.unwrap().status, 200);
}
