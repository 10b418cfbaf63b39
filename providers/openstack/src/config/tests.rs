//! Configurations for tests, and the test of reading one.

mod clouds;
mod patterns;
mod values;

use std::cell::RefCell;

use super::*;

thread_local! {
    static INSTALLED: RefCell<Option<Config>> = const { RefCell::new(None) };
}

/// What [`configured`] gives to this thread, until it is dropped.
pub(crate) struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        INSTALLED.set(None);
    }
}

/// Takes the place of what the operator configured.
pub(crate) fn install(config: Config) -> Installed {
    INSTALLED.set(Some(config));
    Installed
}

pub(super) fn installed() -> Option<Config> {
    INSTALLED.with_borrow(Clone::clone)
}

/// One that says nothing but who logs in.
pub(crate) fn config() -> Config {
    Config {
        identity: Identity {
            user: Named::new(None, Some("demo".to_owned())),
            domain: Named::new(Some("default".to_owned()), None),
            project: Named::new(None, Some("demo".to_owned())),
            ..Identity::default()
        },
        region: "RegionOne".to_owned(),
        interface: Interface::Public,
        regional: false,
        networking: Networking::default(),
        router: None,
        balancers: Balancers::default(),
        classes: vec![],
    }
}

/// An INI file as the host gives it, of lines `section.key=value` or `section "name".key=value`.
fn ini(text: &str) -> String {
    let mut entries = vec![];
    let (mut section, mut name) = (String::new(), "null".to_owned());
    for (at, line) in text.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let (word, rest) = header.split_once(' ').unwrap_or((header, ""));
            section = word.to_owned();
            name = if rest.is_empty() { "null".to_owned() } else { rest.to_owned() };
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), format!("{:?}", value.trim().trim_matches('"'))),
            None => (line, "null".to_owned()),
        };
        entries.push(format!(
            r#"{{"section": "{section}", "name": {name}, "key": "{key}", "value": {value}, "line": {at}}}"#
        ));
    }
    format!("[{}]", entries.join(","))
}

fn reading(text: &str) -> (Config, Vec<String>) {
    with_clouds(text, None, None)
}

fn with_clouds(text: &str, clouds: Option<&str>, cloud: Option<&str>) -> (Config, Vec<String>) {
    let conf = ini(text);
    let (config, problems) = read(Sources { conf: Some(&conf), clouds, cloud, regional: None });
    let told = |problem: &Problem| format!("{}{problem}", if problem.fatal { "" } else { "~" });
    (config, problems.iter().map(told).collect())
}

/// What is told of it, without what is right.
fn wrong(text: &str) -> Vec<String> {
    reading(text).1
}

#[test]
fn os_001_without_a_file_there_is_no_cloud() {
    let (_, problems) = read(Sources::default());
    assert!(problems[0].fatal && problems[0].message.contains("no OpenStack cloud provider config file given"));
}

#[test]
fn os_002_to_007_every_value_is_in_its_field() {
    let (config, problems) = reading(
        "[Global]
         auth-url = http://auth.url
         user-id = user
         password = mypass
         tenant-name = demo
         tenant-domain-name = Default
         region = RegionOne
         [LoadBalancer]
             create-monitor = yes
             monitor-delay = 1m
             monitor-timeout = 30s
             monitor-max-retries = 1
             monitor-max-retries-down = 3
         [Metadata]
           search-order = configDrive, metadataService",
    );
    // A blank behind the comma is no mistake.
    assert_eq!(problems, [""; 0], "os_006");
    for case in ["os_002", "os_007"] {
        assert_eq!(config.identity.user, Named::new(Some("user".to_owned()), None), "{case}");
        assert_eq!(config.identity.project, Named::new(None, Some("demo".to_owned())), "{case}");
        assert_eq!(config.identity.project_domain, Named::new(None, Some("Default".to_owned())), "{case}");
        assert_eq!(config.region, "RegionOne", "{case}");
    }
    let monitor = config.balancers.monitor;
    for (case, is_so) in [
        ("os_003", monitor.enabled),
        ("os_004", (monitor.delay, monitor.timeout) == (60, 30)),
        ("os_005", (monitor.max_retries, monitor.max_retries_down) == (1, 3)),
        ("os_006", search_order("configDrive, metadataService").is_ok()),
    ] {
        assert!(is_so, "{case}");
    }
}

#[test]
fn what_is_not_said_has_the_defaults_of_the_go_manager() {
    let (config, problems) = reading("[Global]\nuser-id = u");
    assert_eq!(problems, [""; 0]);
    assert_eq!(config.balancers, Balancers::default());
    assert_eq!((config.interface, config.region.as_str(), config.router), (Interface::Public, "", None));
    assert_eq!(config.networking, Networking::default());
}

/// Every key that there is.
const ALL: &str = r#"[Global]
    auth-url = a
    username = n
    user-domain-id = ud
    domain-id = d
    tenant-id = t
    trust-id = tr
    trustee-id = te
    trustee-password = x
    application-credential-id = x
    application-credential-name = acn
    application-credential-secret = x
    token = x
    os-endpoint-type = internal
    ca-file = x
    cafilecontents = x
    cert-file = x
    key-file = x
    tls-insecure = yes
    [Networking]
    ipv6-support-disabled
    public-network-name = pub
    public-network-name = other
    internal-network-name = int
    address-sort-order = 10.0.0.0/8
    [Route]
    router-id = r
    [LoadBalancer]
    enabled = off
    lb-version = v2
    lb-provider = ovn
    lb-method = SOURCE_IP_PORT
    subnet-id = s
    member-subnet-id = ms
    network-id = n
    floating-network-id = fn
    floating-subnet-id = fsi
    floating-subnet = fs
    floating-subnet-tags = fst
    internal-lb = true
    manage-security-groups = 1
    node-selector = a=b
    cascade-delete = false
    flavor-id = f
    availability-zone = az
    enable-ingress-hostname = true
    ingress-hostname-suffix = sslip.io
    max-shared-lb = 0x10
    container-store = external
    default-tls-container-ref = ref
    provider-requires-serial-api-calls = true
    [LoadBalancerClass "dmz"]
    floating-network-id = cfn
    subnet-id = cs
    [BlockStorage]
    anything = x"#;

#[test]
fn every_key_is_known_and_has_its_field() {
    let (config, problems) = reading(ALL);
    assert_eq!(problems, [""; 0]);
    let some = |text: &str| Some(text.to_owned());
    let identity = Identity {
        user: Named::new(None, some("n")),
        project: Named::new(some("t"), None),
        domain: Named::new(some("d"), None),
        user_domain: Named::new(some("ud"), None),
        project_domain: Named::default(),
        application_credential_name: some("acn"),
        trust: some("tr"),
        trustee: some("te"),
        system: false,
    };
    assert_eq!((config.identity, config.interface, config.router), (identity, Interface::Internal, some("r")));
    assert!(config.networking.no_ipv6);
    assert_eq!(
        (config.networking.public, config.networking.internal),
        (vec!["pub".to_owned(), "other".to_owned()], vec!["int".to_owned()])
    );
    assert_eq!(config.networking.order.len(), 1);
    let text = str::to_owned;
    let balancers = Balancers {
        enabled: false,
        provider: text("ovn"),
        method: text("SOURCE_IP_PORT"),
        place: Class {
            floating_network: text("fn"),
            floating_subnet_id: text("fsi"),
            floating_subnet: text("fs"),
            floating_subnet_tags: text("fst"),
            network: text("n"),
            subnet: text("s"),
            member_subnet: text("ms"),
        },
        internal: true,
        monitor: Balancers::default().monitor,
        manages_security_groups: true,
        node_selector: text("a=b"),
        cascade_delete: false,
        flavor: text("f"),
        availability_zone: text("az"),
        ingress_hostname: true,
        ingress_hostname_suffix: text("sslip.io"),
        most_shared: 16,
        container_store: text("external"),
        tls_container: text("ref"),
        serial: true,
    };
    assert_eq!(config.balancers, balancers);
    let class = Class { floating_network: text("cfn"), subnet: text("cs"), ..Class::default() };
    assert_eq!(config.classes, [(text("dmz"), class)]);
}

#[test]
fn os_014_to_017_the_search_order_is_judged_though_only_programs_on_the_nodes_use_it() {
    for (case, order, wrong) in [
        ("os_014", "configDrive", None),
        ("os_014", "metadataService,configDrive", None),
        ("os_015", "", Some("Value cannot be empty")),
        ("os_016", "value1,value2,value3", Some("Value cannot contain more than 2 elements")),
        ("os_017", "value1", Some("invalid element \"value1\" found in section [Metadata]")),
    ] {
        let told = search_order(order);
        assert_eq!(told.is_err(), wrong.is_some(), "{case}");
        assert!(told.is_ok() || told.is_err_and(|told| wrong.is_some_and(|wrong| told.contains(wrong))), "{case}");
    }
    assert!(wrong("[Metadata]\nsearch-order = x")[0].starts_with("cloud-config:metadata.search-order: "));
}

#[test]
fn all_mistakes_are_told_at_once_with_section_and_key() {
    let problems = wrong(
        r#"[Global]
        os-endpoint-type = internalURL
        use-clouds = maybe
        [Networking]
        ipv6-support-disabled = sure
        public-network-name
        [LoadBalancer]
        lb-version = v1
        monitor-delay = soon
        monitor-timeout = -1s
        monitor-max-retries = many
        monitor-max-retries-down = -1
        max-shared-lb = none
        internal-lb =
        [LoadBalancerClass]
        subnet-id = s"#,
    );
    let keys: Vec<&str> = problems.iter().map(|problem| problem.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(
        keys,
        [
            "cloud-config:global.use-clouds",
            "cloud-config:networking.ipv6-support-disabled",
            "cloud-config:networking.public-network-name",
            "cloud-config:loadbalancer.lb-version",
            "cloud-config:loadbalancer.internal-lb",
            "cloud-config:loadbalancer.monitor-delay",
            "cloud-config:loadbalancer.monitor-timeout",
            "cloud-config:loadbalancer.monitor-max-retries",
            "cloud-config:loadbalancer.monitor-max-retries-down",
            "cloud-config:loadbalancer.max-shared-lb",
            "cloud-config:loadbalancerclass.subnet-id",
            "cloud-config:global.os-endpoint-type",
        ]
    );
    assert!(problems[1].ends_with("must be `true` or `false`, not \"sure\""), "{problems:?}");
    assert!(problems[7].ends_with("must be a whole number, not \"many\""), "{problems:?}");
    assert!(problems[9].ends_with("must be a whole number, not \"none\""), "{problems:?}");
    assert!(problems[2].ends_with("has no `=`: write public-network-name = VALUE"), "{problems:?}");
    assert!(problems[10].ends_with("without a name: write [LoadBalancerClass \"NAME\"]"), "{problems:?}");
    assert!(problems[3].contains("currently only support LBaaS v2, unrecognised lb-version \"v1\""), "{problems:?}");
}

/// The Go manager starts with them: what is not used does no harm.
#[test]
fn values_that_no_monitor_could_have_are_told_and_nothing_else_is_refused_for_them() {
    for (line, told) in [
        ("monitor-delay = 500ms", "monitor-delay: is 0, and Octavia takes whole numbers from 1 to"),
        ("monitor-timeout = 0", "monitor-timeout: is 0, and Octavia takes"),
        ("monitor-max-retries = 0", "monitor-max-retries: is 0, and Octavia takes whole numbers from 1 to 10: "),
        ("monitor-max-retries-down = 11", "monitor-max-retries-down: is 11, and Octavia takes"),
    ] {
        for enabled in ["", "\ncreate-monitor = true"] {
            let problems = wrong(&format!("[LoadBalancer]\n{line}{enabled}"));
            assert!(problems[0].starts_with(&format!("~cloud-config:loadbalancer.{told}")), "{problems:?}");
            assert!(problems.iter().all(|problem| problem.starts_with('~')), "{problems:?}");
        }
    }
}

#[test]
fn an_empty_provider_is_octavias_own_and_nobody_shares_where_none_may() {
    let (config, problems) = reading("[LoadBalancer]\nlb-provider = \"\"\nlb-method = \"\"\nmax-shared-lb = 0");
    assert_eq!(problems, [""; 0]);
    let balancers = config.balancers;
    assert_eq!((balancers.provider.as_str(), balancers.method.as_str(), balancers.most_shared), ("", "ROUND_ROBIN", 0));
    assert_eq!(reading("[LoadBalancer]\nmax-shared-lb = -1").0.balancers.most_shared, 0);
}

#[test]
fn keys_that_are_not_known_or_were_removed_do_no_harm_and_are_told_with_the_nearest() {
    for (text, expected) in [
        (
            "[Global]\nregoin = x",
            "~cloud-config:global.regoin: is not known, and has no effect; is it meant to be region?",
        ),
        (
            "[LoadBalancer]\nfloating-network = x",
            "~cloud-config:loadbalancer.floating-network: is not known, and has no effect",
        ),
        (
            "[LoadBalancer]\nuse-octavia = true",
            "~cloud-config:loadbalancer.use-octavia: was removed: load balancers are always made by Octavia",
        ),
        (
            "[Loadbalancers]\nenabled = x",
            "~cloud-config:loadbalancers: is not known, and has no effect; is it meant to be loadbalancer?",
        ),
        ("[LoadBalancerClass \"a\"]\nsubnet = x", "~cloud-config:loadbalancerclass.a.subnet: is not known"),
        (
            "[Networking]\naddress-sort-order = 10.0.0.0/8, x",
            "~cloud-config:networking.address-sort-order: is no network, and has no effect: x",
        ),
        ("[Networking]\npublic-network-name = ", "~cloud-config:networking.public-network-name: names no network"),
        (
            "[LoadBalancer]\nlb-provider = amphroa",
            "~cloud-config:loadbalancer.lb-provider: amphroa is sent to Octavia as it is",
        ),
        ("[LoadBalancer]\ncontainer-store = vault", "~cloud-config:loadbalancer.container-store: is neither"),
        ("[Metadata]\nrequest-timeout = 90", "~cloud-config:metadata.request-timeout: has no effect: the host's limit"),
        ("[Global]\nrequest-timeout = 2m", "~cloud-config:global.request-timeout: has no effect: the host's limit"),
        ("[LoadBalancer]\nmonitor-timeout = 9s", "~cloud-config:loadbalancer.monitor-timeout: the time-out of 9s"),
    ] {
        let problems = wrong(text);
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:?}");
    }
}

#[test]
fn a_duration_without_a_unit_is_seconds() {
    let (config, problems) = reading("[LoadBalancer]\nmonitor-delay = 10\nmonitor-timeout = 2500ms");
    assert_eq!((config.balancers.monitor.delay, config.balancers.monitor.timeout, problems), (10, 2, vec![]));
    assert_eq!(seconds("90"), Ok(Duration::from_secs(90)));
    assert!(seconds("+5").is_err() && seconds("").is_err() && seconds("5 s").is_err());
}

const CLOUDS: &str = r#"{"clouds": {
    "mine": {
        "auth": {"auth_url": "https://other", "user_id": "u-2", "username": "n-2", "password": "x", "project_name": "p-2",
                 "project_domain_id": "pd-2", "user_domain_name": "ud-2", "trust_id": "t-2"},
        "region_name": "RegionTwo", "interface": "internal", "verify": false, "identity_api_version": 3, "cacert": "x"
    },
    "others": {"auth": {"what": "ever"}, "interface": 7, "odd": true}
}}"#;

#[test]
fn os_009_to_013_what_cloud_conf_leaves_open_is_that_of_clouds_yaml() {
    let (config, problems) = with_clouds(
        "[Global]
         auth-url = http://auth.url
         use-clouds = true
         password = mypass
         trust-id = t-1
         tenant-domain-name = pd-1
         [LoadBalancer]
         lb-method = LEAST_CONNECTIONS",
        Some(CLOUDS),
        Some("mine"),
    );
    assert_eq!(problems, [""; 0]);
    let identity = &config.identity;
    let named = |id: &str, name: &str| Named::new(Some(id.to_owned()), Some(name.to_owned()));
    for (case, is_so) in [
        ("os_009", identity.user == named("u-2", "n-2")),
        ("os_011", config.region == "RegionTwo" && identity.project == named("", "p-2")),
        ("os_012", identity.trust.as_deref() == Some("t-1")),
        ("os_013", config.balancers.method == "LEAST_CONNECTIONS"),
        ("2.9", identity.user_domain == named("", "ud-2") && identity.project_domain == named("pd-2", "pd-1")),
        ("2.9", config.interface == Interface::Internal),
    ] {
        assert!(is_so, "{case}: {config:?}");
    }
}

#[test]
fn os_008_010_the_host_finds_values_of_cloud_conf_before_those_of_clouds_yaml() {
    let descriptor = crate::descriptor::descriptor();
    let password = descriptor.credentials.iter().find(|credential| credential.name == "password").expect("a password");
    assert_eq!(
        password.value.keys,
        ["cloud-config:Global.password", "secure:clouds.{cloud}.auth.password", "clouds:clouds.{cloud}.auth.password"]
    );
    assert_eq!(descriptor.endpoints[0].base_url.keys[0], "cloud-config:Global.auth-url");
    assert!(
        descriptor
            .endpoints
            .iter()
            .all(|endpoint| endpoint.tls.as_ref().is_some_and(|tls| tls.ca_file.keys.len() == 2))
    );
}

#[test]
fn clouds_yaml_is_named_whole_or_not_at_all() {
    let told = |text: &str, clouds: Option<&str>, cloud: Option<&str>| {
        let problems = with_clouds(text, clouds, cloud).1;
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].clone()
    };
    let used = "[Global]\nuse-clouds = true";
    assert!(told(used, None, None).contains("use-clouds: is set, but there is no clouds.yaml"));
    assert!(told(used, None, Some("mine")).contains("cloud: names the entry \"mine\", but there is no clouds.yaml"));
    assert!(told(used, Some(CLOUDS), None).contains("cloud: is missing"));
    assert!(told(used, Some(CLOUDS), Some("yours")).contains("which clouds.yaml has not; it has: mine, others"));
    // What cloud.conf says wins.
    let (config, _) = with_clouds("[Global]\nregion = One\nos-endpoint-type = admin", Some(CLOUDS), Some("mine"));
    assert_eq!((config.region.as_str(), config.interface), ("One", Interface::Admin));
    assert!(told("[Global]\nuse-clouds = false", Some(CLOUDS), Some("mine")).starts_with("~"));
    let profiled = r#"{"clouds": {"mine": {"profile": "vendor", "auth": {"usrname": "x"}, "interface": "interal"}}}"#;
    let problems = with_clouds(used, Some(profiled), Some("mine")).1;
    let keys: Vec<&str> = problems.iter().map(|problem| problem.split(": ").next().unwrap_or_default()).collect();
    assert_eq!(
        keys,
        ["~clouds:clouds.mine.profile", "~clouds:clouds.mine.auth.usrname", "clouds:clouds.mine.interface"]
    );
    assert!(problems[1].contains("is it meant to be username?"));
}

#[test]
fn provider_ids_carry_the_region_only_where_that_is_asked_for() {
    let of = |regional| read(Sources { regional, ..Sources::default() }).0.regional;
    assert_eq!([Some("true"), Some("false"), Some("yes"), None].map(of), [true, false, false, false]);
    // The Go manager takes `true` alone, and so the host must not read other spellings as that.
    let declared = crate::descriptor::descriptor().settings;
    let setting = declared.iter().find(|setting| setting.name == REGIONAL).expect("it is declared");
    assert_eq!(setting.kind, ccm_sdk::meta::ValueKind::Text);
    for (value, told) in [("yes", true), ("True", true), ("true", false), ("false", false), ("", false)] {
        let problems = read(Sources { regional: Some(value), ..Sources::default() }).1;
        let problem = problems.iter().find(|problem| problem.field == "OS_CCM_REGIONAL");
        assert_eq!(problem.is_some(), told, "{value}: {problems:?}");
        assert!(problem.is_none_or(|problem| !problem.fatal && problem.message.contains("only true")), "{problem:?}");
    }
}
