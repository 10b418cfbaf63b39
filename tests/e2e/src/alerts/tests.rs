use super::*;

const HELD: &str = "# TYPE ccm_node_lifecycle_held_nodes gauge\nccm_node_lifecycle_held_nodes{provider=\"do\"} 2\n";
const NONE: &str = "ccm_node_lifecycle_held_nodes{provider=\"do\"} 0\nccm_api_write_width 4\n# EOF\n";

#[test]
fn series_are_those_that_were_read_with_what_prometheus_adds_and_end_when_they_are_gone() {
    let moment = |minutes, texts: &[&'static str]| Moment { minutes, texts: texts.to_vec() };
    let moments = [
        moment(3, &["a 1\nb{c=\"d } e\"} 2.5\nother 3\n", ""]),
        moment(2, &["a 1764354000\n", "a 7\n"]),
        moment(2, &["a 1\n", "a 7\n"]),
    ];
    let row = |(series, values): (&str, &str)| json!({ "series": series, "values": values });
    let expected = [
        ("a{job=\"wasm-ccm\",instance=\"host-0\"}", "1x2 1764354000x1 1x1"),
        ("a{job=\"wasm-ccm\",instance=\"host-1\"}", "_x3 7x1 7x1"),
        ("b{c=\"d } e\",job=\"wasm-ccm\",instance=\"host-0\"}", "2.5x2 stale _x1 _x2"),
    ];
    assert_eq!(input("max by (x) (a{y=\"z\"}) > on (x) b[5m]", &moments), expected.map(row));
}

#[tokio::test]
async fn an_alert_that_does_not_fire_or_fires_from_the_beginning_is_an_error() {
    let name = "WasmCCMNodeDeletionsHeld";
    fires(name, &[[HELD]]).await.unwrap();
    fires(name, &[[NONE], [HELD]]).await.unwrap();
    // For no longer than a moment.
    fires(name, &[[NONE, NONE], [NONE, HELD], ["", ""]]).await.unwrap();
    for moments in [vec![[NONE]], vec![[HELD], [HELD]], vec![[HELD], [NONE]], vec![[""]]] {
        let error = fires(name, &moments).await.unwrap_err();
        assert!(format!("{error:#}").contains("FAILED"), "{error:#}");
    }
    assert!(fires("WasmCCMNobody", &[[HELD]]).await.is_err());
}

#[tokio::test]
async fn hosts_with_nothing_wrong_are_quiet_and_what_fires_otherwise_is_named() {
    quiet(&[NONE, NONE]).await.unwrap();
    let error = quiet(&[NONE, HELD]).await.unwrap_err();
    assert!(format!("{error:#}").contains("WasmCCMNodeDeletionsHeld"), "{error:#}");
    // Nobody has the metric that each process has.
    let error = quiet(&[""]).await.unwrap_err();
    assert!(format!("{error:#}").contains("WasmCCMNoLeader"), "{error:#}");
}
