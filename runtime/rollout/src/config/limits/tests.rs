//! Each limit is set, checked and documented.

use super::*;

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
}

#[test]
fn what_is_given_counts_and_the_rest_has_its_default() {
    let given = pairs(&[("memory-bytes", "32MiB"), ("call-time", "1m30s"), ("handles", "7"), ("log-lines", "0")]);
    let limits = LimitSettings::from_pairs(&given).unwrap().resolve(LimitPreset::default()).unwrap();
    let base = LimitSettings::default().resolve(LimitPreset::default()).unwrap();
    let wanted = ProviderLimits {
        sandbox: ccm_sandbox::Limits {
            memory_bytes: 32 << 20,
            call_time: Duration::from_secs(90),
            handles: 7,
            ..ccm_sandbox::Limits::default()
        },
        compare: CompareLimits { time: Duration::from_secs(270), ..CompareLimits::default() },
        log: LogLimits { lines: 0, ..LogLimits::default() },
        ..base
    };
    assert_eq!(limits, wanted);
}

/// Every limit, where it ends up.
#[test]
fn each_limit_sets_its_own_field_and_no_other() {
    type Change = fn(&mut ProviderLimits);
    let cases: [(&str, &str, Change); 63] = [
        ("source-bytes", "101B", |l| l.source_bytes = 101),
        ("component-bytes", "102B", |l| l.sandbox.component_bytes = 102),
        ("functions", "103", |l| l.sandbox.functions = 103),
        ("types", "104", |l| l.sandbox.types = 104),
        ("function-bytes", "105B", |l| l.sandbox.function_bytes = 105),
        ("memory-bytes", "106B", |l| l.sandbox.memory_bytes = 106),
        ("memories", "107", |l| l.sandbox.memories = 107),
        ("tables", "108", |l| l.sandbox.tables = 108),
        ("table-elements", "109", |l| l.sandbox.table_elements = 109),
        ("instances", "110", |l| l.sandbox.instances = 110),
        ("handles", "111", |l| l.sandbox.handles = 111),
        ("host-call-bytes", "112B", |l| l.sandbox.host_call_bytes = 112),
        ("call-time", "53s", |l| l.sandbox.call_time = Duration::from_secs(53)),
        ("call-cpu", "114s", |l| l.sandbox.call_cpu = Duration::from_secs(114)),
        ("busy-calls", "115", |l| l.sandbox.busy_calls = 115),
        ("events", "116", |l| l.sandbox.events = 116),
        ("annotation-bytes", "162B", |l| l.sandbox.annotation_bytes = 162),
        ("routes", "163", |l| l.sandbox.routes = 163),
        ("route-text-bytes", "164B", |l| l.sandbox.route_text_bytes = 164),
        ("route-attributes", "165", |l| l.sandbox.route_attributes = 165),
        ("log-lines", "117", |l| l.log.lines = 117),
        ("log-line-bytes", "118B", |l| l.log.line_bytes = 118),
        ("cache-bytes", "119B", |l| l.cache_bytes = 119),
        ("request-bytes", "120B", |l| l.network.limits.request_bytes = 120),
        ("response-bytes", "121B", |l| l.network.limits.response_bytes = 121),
        ("call-response-bytes", "122B", |l| l.network.limits.call_response_bytes = 122),
        ("call-requests", "123", |l| l.network.limits.call_requests = 123),
        ("headers", "124", |l| l.network.limits.headers.count = 124),
        ("header-bytes", "125B", |l| l.network.limits.headers.bytes = 125),
        ("query-values", "126", |l| l.network.limits.query_values = 126),
        ("url-bytes", "127B", |l| l.network.limits.url_bytes = 127),
        ("parallel-requests", "128", |l| l.network.limits.parallel = 128),
        ("operations", "154", |l| l.network.limits.operations = 154),
        ("request-time", "129s", |l| l.network.limits.request_time = Duration::from_secs(129)),
        ("connect-time", "130s", |l| l.network.client.connect_timeout = Duration::from_secs(130)),
        ("idle-connections", "131", |l| l.network.client.idle_connections = 131),
        ("attempts", "132", |l| l.network.retry.attempts = 132),
        ("retry-delay", "133ms", |l| l.network.retry.min_delay = Duration::from_millis(133)),
        ("max-retry-delay", "134s", |l| l.network.retry.max_delay = Duration::from_secs(134)),
        ("share-bytes", "135B", |l| l.network.limits.share_bytes = 135),
        ("login-bytes", "166B", |l| l.network.limits.login_bytes = 166),
        ("min-credential-bytes", "136B", |l| l.network.limits.min_credential_bytes = 136),
        ("requests-per-second", "137", |l| l.network.budget.per_second = Some(137.0)),
        ("request-burst", "138", |l| l.network.budget.burst = NonZeroU32::new(138)),
        ("concurrent-requests", "139", |l| l.network.budget.concurrency = NonZeroUsize::new(139).unwrap()),
        ("request-wait", "140s", |l| l.network.budget.max_wait = Duration::from_secs(140)),
        ("reserve-percent", "41", |l| l.network.budget.reserve_percent = 41),
        ("max-pause", "142s", |l| l.network.budget.max_pause = Duration::from_secs(142)),
        ("breaker-failures", "143", |l| l.network.budget.breaker_failures = NonZeroU32::new(143).unwrap()),
        ("breaker-first-pause", "144ms", |l| l.network.budget.breaker_pause_min = Duration::from_millis(144)),
        ("breaker-pause", "145s", |l| l.network.budget.breaker_pause_max = Duration::from_secs(145)),
        ("requests-per-minute", "147", |l| l.network.budget.per_minute = NonZeroU32::new(147)),
        ("requests-per-hour", "148", |l| l.network.budget.per_hour = NonZeroU32::new(148)),
        ("idle-time", "146s", |l| l.network.client.idle_timeout = Duration::from_secs(146)),
        ("compare-nodes", "149", |l| l.compare.nodes = 149),
        ("compare-services", "150", |l| l.compare.services = 150),
        ("compare-single-services", "151", |l| l.compare.single_services = 151),
        ("compare-time", "252s", |l| l.compare.time = Duration::from_secs(252)),
        ("module-items", "155", |l| l.sandbox.module_items = 155),
        ("endpoints", "156", |l| l.sandbox.endpoints = 156),
        ("credentials", "157", |l| l.sandbox.credentials = 157),
        ("declarations", "158", |l| l.sandbox.declarations = 158),
        ("compare-pause", "153s", |l| l.compare.pause = Duration::from_secs(153)),
    ];
    for (name, value, change) in cases {
        let mut expected = LimitSettings::default().resolve(LimitPreset::default()).unwrap();
        change(&mut expected);
        let limits =
            LimitSettings::from_pairs(&pairs(&[(name, value)])).unwrap().resolve(LimitPreset::default()).unwrap();
        assert_eq!(limits, expected, "{name}");
        assert_ne!(limits, LimitSettings::default().resolve(LimitPreset::default()).unwrap(), "{name}");
    }
    let schema = schemars::schema_for!(LimitSettings);
    let all = schema.get("properties").and_then(|limits| limits.as_object()).unwrap();
    let unknown: Vec<&String> = all.keys().filter(|name| !cases.iter().any(|case| case.0 == *name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_documentation_has_every_limit_with_its_default() {
    let documented = include_str!("../../../../../docs/reference/limits.md");
    let schema = schemars::schema_for!(LimitSettings);
    let limits = schema.get("properties").and_then(|limits| limits.as_object()).unwrap();
    assert!(limits.len() > 40);
    for (name, limit) in limits {
        let purpose = limit["description"].as_str().unwrap();
        let default = purpose.rsplit_once("Default ").unwrap().1.trim_end_matches('.');
        assert!(documented.contains(&format!("| `{name}` | {default} |")), "{name}, default {default}");
    }
}

#[test]
fn a_limit_that_cannot_be_is_refused_by_name() {
    let cases = [
        (&[("memory", "1")][..], "memory-bytes"),
        (&[("memory-bytes", "lots")], "lots"),
        (&[("memory-bytes", "0")], "memory-bytes must be above zero"),
        (&[("call-time", "5")], "call-time"),
        // A component that hangs would keep out each one that could take its place.
        (
            &[("compare-time", "2m59s")],
            "limit compare-time: 179s is less than 3 calls, which may take 60s each (limit call-time)",
        ),
        (&[("call-time", "90s"), ("compare-time", "4m")], "give at least 270s"),
        (&[("busy-calls", "0")], "busy-calls must be above zero"),
        // Once taken for the default.
        (&[("requests-per-second", "0")], "requests-per-second must be above zero"),
        (&[("requests-per-minute", "0")], "requests-per-minute must be above zero"),
        (&[("requests-per-hour", "0")], "requests-per-hour must be above zero"),
        (&[("requests-per-second", "-1")], "requests-per-second=-1: give a whole number"),
        (&[("reserve-percent", "300")], "reserve-percent=300: give a whole number that is not too large"),
        (&[("memory-bytes", "lots")], "memory-bytes=lots: give a size, such as 64MiB"),
        (&[("handles", "1"), ("handles", "2")], "given twice"),
        (
            &[("memory-byte", "64MiB")],
            "--limit memory-byte=...: there is no such limit; did you mean memory-bytes?; there are ",
        ),
        (&[("anything", "1")], "--limit anything=...: there is no such limit; there are "),
    ];
    for (given, part) in cases {
        let error = LimitSettings::from_pairs(&pairs(given))
            .and_then(|limits| limits.resolve(LimitPreset::default()))
            .unwrap_err();
        assert!(format!("{error:#}").contains(part), "{error:#} does not say {part}");
    }
}
