//! Names that metrics keep for ever, whichever components come and go.

use super::*;
use crate::egress::told::MOST_ENDPOINTS;

/// Remembers what it was told of.
#[derive(Default)]
struct Series {
    endpoints: Mutex<BTreeSet<String>>,
    operations: Mutex<BTreeSet<String>>,
}

impl ExchangeObserver for Series {
    fn exchange_ended(&self, exchange: Exchange<'_>) {
        self.endpoints.lock().insert(exchange.endpoint.to_owned());
        self.operations.lock().insert(exchange.operation.to_owned());
    }

    fn budget(&self, left: BudgetLeft<'_>) {
        self.endpoints.lock().insert(left.endpoint.to_owned());
    }
}

/// Each component that was refused left its own endpoints and operations in the metrics, and the host had no memory for them after some hundred.
#[tokio::test]
async fn components_that_come_and_go_with_other_names_leave_a_bounded_number_of_them_in_metrics() {
    const MOST: usize = 5;
    let (carryover, series) = (Carryover::default(), Arc::new(Series::default()));
    for number in 0..MOST_ENDPOINTS + 10 {
        let endpoint = ccm_cloud::Endpoint {
            name: format!("endpoint-{number}"),
            purpose: String::new(),
            base_url: Source::default(),
            default_base_url: None,
            tls: None,
        };
        let asked =
            Request { endpoint: endpoint.name.clone(), operation: format!("GET /{number}"), ..post(Effect::Read) };
        let descriptor = Descriptor { name: "test".to_owned(), endpoints: vec![endpoint], ..Descriptor::default() };
        let mut config =
            EgressConfig { observer: Some(Arc::clone(&series) as _), ..EgressConfig::new(Arc::new(Alone)) };
        (config.settings.offline, config.settings.limits.operations) = (true, MOST);
        let egress = Egress::open(config, &descriptor, &carryover, None).unwrap();
        egress.send(asked, &call()).await.unwrap_err();
    }
    let (endpoints, operations) = (series.endpoints.lock().clone(), series.operations.lock().clone());
    assert_eq!((endpoints.len(), operations.len()), (MOST_ENDPOINTS + 1, MOST + 1));
    assert!(endpoints.contains("endpoint-0") && endpoints.contains("unknown"));
    assert!(operations.contains("GET /0") && operations.contains("other"));
}
