//! Lists of many pages.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::StoreMetrics;
use crate::store::{Reflector, Stored as _};
use crate::testing::{FakeApi, scraped, service};

const PAGES: usize = 20;
const LIST: &str = "GET /api/v1/services";

/// With 20 Services in a page, 10,000 are 500 pages. Where one request in a hundred failed, the list never had an end: each of those began it anew.
#[tokio::test(start_paused = true)]
async fn a_list_goes_on_with_the_page_that_failed() {
    for (status, retry_after) in [(429, Some(3)), (429, None), (500, None), (502, None), (503, None), (504, None)] {
        let api = FakeApi::new();
        let services = PAGES * usize::try_from(Service::PAGE_SIZE).unwrap();
        for number in 0..services {
            api.add_service(service(&format!("s{number:03}")).0);
        }
        api.serve_in_pages();
        api.refuse_each(5, LIST, status, retry_after);
        let mut registry = Registry::default();
        let reflector = Reflector::<Service>::new(api.client.clone(), &StoreMetrics::register(&mut registry));
        let (first_list, reader) = (reflector.first_list(), reflector.reader());
        let begun = Instant::now();
        let listed = async {
            tokio::select! {
                () = reflector.run(CancellationToken::new()) => false,
                complete = first_list.complete() => complete,
            }
        };
        assert_eq!(tokio::time::timeout(Duration::from_secs(300), listed).await, Ok(true), "{status}");
        assert_eq!(reader.len(), services, "{status}");
        // One of five has failed, and was asked for once more.
        let asked = api.calls().into_iter().filter(|call| call.line == LIST && call.query.contains("limit=")).count();
        assert_eq!(asked, PAGES + 4, "{status}");
        assert!(scraped(&registry, "ccm_store_watch_failures_total{kind=\"Service\"}") == 0.0, "{status}");
        let waited = begun.elapsed();
        assert!(retry_after.is_none_or(|seconds| waited >= Duration::from_secs(4 * seconds)), "{status}: {waited:?}");
    }
}
