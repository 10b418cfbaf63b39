use std::time::Duration;

use ccm_cloud::{AnnotationRole, Capability, Credential, Source};
use ccm_sandbox::{CallError, NoRoom};

use super::*;
use crate::config::ProviderRecord;
use crate::trust::Counted;

fn config(change: impl FnOnce(&mut ProviderConfig)) -> ProviderConfig {
    let record = ProviderRecord { source: "cloud.wasm".to_owned(), ..ProviderRecord::default() };
    let mut config = record.check().unwrap();
    change(&mut config);
    config
}

fn packed(bytes: impl Into<Vec<u8>>) -> Packed {
    Packed { bytes: bytes.into(), signature: Some(b"signature".to_vec()), uid: None }
}

#[test]
fn each_reason_why_bytes_are_no_provider_is_a_step() {
    let bug = || std::io::Error::other("wrong").into();
    let cases = [
        (LoadError::TooLarge { size: 2, limit: 1 }, Step::Size),
        (LoadError::NotWasm("it is empty"), Step::Parse),
        (LoadError::CoreModule, Step::Parse),
        (LoadError::Precompiled, Step::Parse),
        (LoadError::Malformed { message: "end".into(), offset: 7 }, Step::Parse),
        (LoadError::BrokenOff(vec!["ccm:cloud/meta@0.2.0".into()]), Step::Parse),
        (LoadError::TooComplex { what: "functions", limit: 1, setting: "functions" }, Step::Parse),
        (LoadError::ContractVersion { needed: "ccm:cloud@9.0.0".into() }, Step::Parse),
        (LoadError::UnknownImports(vec!["a:b/c".into()]), Step::Imports),
        (LoadError::WasiOff(vec!["wasi:cli/exit".into()]), Step::Imports),
        (LoadError::Compile(bug()), Step::Compile),
        (LoadError::MissingExports(vec!["meta".into()]), Step::Exports),
        (LoadError::Types(bug()), Step::Exports),
        (LoadError::Describe(CallError::OutOfTime(Duration::from_secs(60))), Step::Describe),
        (LoadError::Descriptor("it has no name".into()), Step::Describe),
    ];
    for (error, step) in cases {
        let told = error.to_string();
        let rejected = Rejected::from(error);
        assert_eq!((rejected.step, rejected.error.to_string()), (step, told));
    }
    assert_eq!(Rejected::from(FetchError::TooLarge { size: 2, limit: 1 }).step, Step::Size);
    assert_eq!(Rejected::from(FetchError::Empty(vec![])).step, Step::Source);
}

/// It goes to the log, to Events and to the ConfigMap, whoever has a word in it.
#[test]
fn a_reason_is_one_line_of_bounded_length_with_all_causes() {
    let wrong = anyhow!("no:\n  phase       proven\r\u{1b}[2J\u{202e}x").context("cloud-config is /etc/cloud.conf");
    let told = r"cloud-config is /etc/cloud.conf: no:\n  phase       proven\r\u{1b}[2J\u{202e}x";
    assert_eq!(Rejected::at(Step::Check, wrong).reason(), told);
    let long = Rejected::at(Step::Check, anyhow::Error::msg("\n".repeat(1 << 20))).reason();
    assert!(long.len() <= MAX_REASON + '…'.len_utf8() && long.ends_with('…'), "{} bytes", long.len());
}

/// The same bytes are not compiled again and again; what the world around them decides is.
#[test]
fn only_what_depends_on_more_than_the_bytes_is_tried_again() {
    use Step::{
        Check, Compare, Compile, Container, Describe, Exports, Grants, Identity, Imports, Parse, Size, Source, Trust,
    };
    let all =
        [Source, Size, Container, Trust, Parse, Imports, Compile, Exports, Describe, Identity, Grants, Check, Compare];
    let again: Vec<&str> = all.into_iter().filter(|step| step.may_pass_later()).map(Step::as_str).collect();
    assert_eq!(again, ["source", "trust", "identity", "grants", "check"]);
    for step in all {
        assert_eq!(serde_json::to_value(step).unwrap(), step.to_string(), "metrics and pages have one word for it");
    }
    // An outage is no difference.
    let unanswered = Unanswered("nobody answers".to_owned());
    assert!(Rejected::at(Compare, unanswered.into()).may_pass_later());
    assert!(!Rejected::at(Compare, anyhow!("it finds less")).may_pass_later());
    // Nor is the memory that other calls have.
    let full = CallError::OutOfRoom("(unnamed)".to_owned(), NoRoom { budget: 1 });
    assert!(Rejected::from(LoadError::Describe(full)).may_pass_later());
}

#[test]
fn what_waits_for_the_cloud_or_for_memory_passes_and_a_crash_or_a_no_does_not() {
    let failed = |reaction| anyhow::Error::new(Failure::new(reaction, "on purpose"));
    let cases = [
        (failed(Reaction::Retry), true),
        (failed(Reaction::Throttled).context("it cannot tell what it offers"), true),
        (failed(Reaction::Pending), true),
        (failed(Reaction::Unauthorized), false),
        (failed(Reaction::Invalid), false),
        (Unanswered("nobody answers".to_owned()).into(), true),
        (CallError::OutOfTime(Duration::from_secs(60)).into(), true),
        (CallError::OutOfRoom("(unnamed)".to_owned(), NoRoom { budget: 1 }).into(), true),
        (CallError::OutOfCpu(Duration::from_secs(2)).into(), false),
        (CallError::BadAnswer("on purpose".to_owned()).into(), false),
        (anyhow!("its configuration is wrong"), false),
    ];
    for (error, is_passing) in cases {
        let error = error.context("cloud-config is /etc/cloud.conf");
        let text = format!("{error:#}");
        assert_eq!(Rejected::at(Step::Check, error).is_passing(), is_passing, "{text}");
    }
}

#[tokio::test]
async fn what_cannot_be_unpacked_ends_at_the_container_and_a_bomb_as_well() {
    let bomb = {
        use std::io::Write as _;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&vec![0; 1 << 20]).unwrap();
        gzip.finish().unwrap()
    };
    let config = config(|config| config.limits.sandbox.component_bytes = 1 << 10);
    for bytes in [bomb, vec![0x1f, 0x8b, 1, 2, 3], vec![0x28, 0xb5, 0x2f, 0xfd]] {
        let digest = format!("sha256:{:x}", Sha256::digest(&bytes));
        let rejected = unpacked(&config, packed(bytes)).await.err().unwrap();
        // By which two of them are told apart.
        assert_eq!((rejected.step, rejected.digest), (Step::Container, Some(digest)), "{:#}", rejected.error);
    }
}

#[tokio::test]
async fn trust_is_asked_before_anybody_looks_into_the_bytes() {
    let known = format!("sha256:{:x}", Sha256::digest(b"known"));
    let config = config(|config| config.trust.digests.push(known.clone()));
    let taken = unpacked(&config, packed(*b"known")).await.ok().unwrap();
    assert_eq!((taken.bytes, taken.digest, taken.signature), (b"known".to_vec(), known, Some(b"signature".to_vec())));
    let rejected = unpacked(&config, packed(*b"\0asm, and no more")).await.err().unwrap();
    assert_eq!(rejected.step, Step::Trust);
    assert!(rejected.digest.unwrap().starts_with("sha256:"));
}

#[test]
fn a_signed_component_that_may_be_older_than_what_was_proven_is_refused_with_both_counters() {
    let key = |config: &mut ProviderConfig| config.trust.keys.push("key.pem".into());
    let signed = |name: &str, counter| Some(Signed::new(name, counter));
    let new =
        |signed| Unpacked { bytes: vec![], digest: "sha256:new".to_owned(), signature: None, signed, is_stored: false };
    let (mut proven, mut refused) = (Counters::default(), Refusals::default());
    let said = |config: &ProviderConfig, signed, proven: &Counters, refused: &Refusals| {
        let judged = not_older(config, &new(signed), proven, refused);
        judged.err().map(|rejected| {
            assert_eq!((rejected.step, rejected.digest.as_deref()), (Step::Trust, Some("sha256:new")));
            format!("{:#}", rejected.error)
        })
    };
    let asks = config(key);
    for first in [None, signed("a", 0), signed("a", 9)] {
        assert_eq!(said(&asks, first, &proven, &refused), None, "nobody remembers another one");
    }
    for counter in [7, 9] {
        let digest = format!("sha256:{counter:064}");
        proven.add(&Counted { signed: Signed::new("a", counter), digest });
    }
    for newer in [signed("a", 9), signed("a", 10), signed("b", 1)] {
        assert_eq!(said(&asks, newer, &proven, &refused), None);
    }
    let older = said(&asks, signed("a", 8), &proven, &refused).unwrap();
    assert!(older.contains("has the counter 8, and that of a sha256:000000000000 had 9;"), "{older}");
    let bare = said(&asks, None, &proven, &refused).unwrap();
    assert!(bare.contains("has no counter, and that of a sha256:000000000000 had 9;"), "{bare}");
    for error in [older, bare] {
        assert!(error.contains("a counter of at least 9") && error.contains("--allow-downgrade"), "{error}");
    }
    let unasked = config(|_| ());
    let allowed = config(|config| (key(config), config.allow_downgrade = true).1);
    let listed = config(|config| (key(config), config.trust.digests.push("sha256:new".to_owned())).1);
    for config in [unasked, allowed, listed] {
        assert_eq!(said(&config, signed("a", 8), &proven, &refused), None);
        assert_eq!(said(&config, None, &proven, &refused), None);
    }
    refused.refuse(&format!("sha256:{:064}", 9), "it crashed".to_owned());
    assert_eq!(said(&asks, signed("a", 7), &proven, &refused), None, "the one before may return");
    assert!(said(&asks, signed("a", 6), &proven, &refused).unwrap().contains("had 7"));
    proven.add(&Counted { signed: Signed::new("a", 12), digest: "sha256:new".to_owned() });
    assert_eq!(
        said(&asks, signed("a", 6), &proven, &refused),
        None,
        "it was signed again, and is not older than itself"
    );
}

#[test]
fn a_component_that_calls_itself_otherwise_than_its_signature_is_refused_with_both_names() {
    let new = descriptor("cloud", &["cloud"], &[]);
    let signed = |name: &str| Some(Signed::new(name, 1));
    assert!(signed_as(None, &new).is_ok() && signed_as(signed("cloud").as_ref(), &new).is_ok());
    let error = signed_as(signed("other").as_ref(), &new).unwrap_err().to_string();
    assert!(error.contains("it calls itself \"cloud\", and its signature is for \"other\""), "{error}");
}

fn descriptor(name: &str, schemes: &[&str], secrets: &[&str]) -> Descriptor {
    let credential = |key: &&str| {
        let (name, variable) = ((*key).to_owned(), key.to_uppercase());
        let value = Source { keys: vec![format!("cloud-config:{key}")], environment_variables: vec![variable] };
        Credential { name, purpose: String::new(), required: false, value, uses: vec![] }
    };
    Descriptor {
        name: name.to_owned(),
        version: "1".to_owned(),
        revision: "1".to_owned(),
        provider_id_schemes: schemes.iter().map(|scheme| (*scheme).to_owned()).collect(),
        files: vec![],
        endpoints: vec![],
        credentials: secrets.iter().map(credential).collect(),
        settings: vec![],
        annotations: vec![],
        ..Descriptor::default()
    }
}

const LOAD_BALANCERS: &str = "ccm:cloud/load-balancers@0.2.0";

/// What is said of a component in place of a cloud with two schemes, a secret and load balancers, which a Service needs.
fn judged(config: &ProviderConfig, new: &Descriptor, exports: &[&str]) -> Option<String> {
    let old = descriptor("cloud", &["cloud", "older"], &["token"]);
    let before = Before { descriptor: &old, offers: vec![Capability::LoadBalancers] };
    let exports: Vec<String> = exports.iter().map(|name| (*name).to_owned()).collect();
    let judged = identity(config, new, &exports, Some(before), needs);
    judged.err().map(|error| format!("{error:#}"))
}

fn needs(capability: Capability) -> Option<String> {
    (capability == Capability::LoadBalancers).then(|| "Service default/web".to_owned())
}

#[test]
fn a_component_takes_over_only_when_it_is_the_same_provider() {
    let whole = [LOAD_BALANCERS, "ccm:cloud/meta@0.2.0"];
    let same = descriptor("cloud", &["cloud", "older"], &["token"]);
    let cases = [
        ("the same", same.clone(), &whole[..], None),
        ("a new scheme", descriptor("cloud", &["cloud", "new", "older"], &["token"]), &whole, None),
        ("a new secret", descriptor("cloud", &["cloud", "older"], &["key", "token"]), &whole, None),
        (
            "another name",
            descriptor("other", &["cloud", "older"], &["token"]),
            &whole,
            Some(r#"it calls itself "other", and "cloud" serves"#),
        ),
        (
            "another first scheme",
            descriptor("cloud", &["older", "cloud"], &["token"]),
            &whole,
            Some("begin with older, cloud"),
        ),
        (
            "a scheme less",
            descriptor("cloud", &["cloud"], &["token"]),
            &whole,
            Some("no provider would manage the existing Nodes"),
        ),
        (
            "no schemes",
            descriptor("cloud", &[], &["token"]),
            &whole,
            Some("no provider would manage the existing Nodes"),
        ),
        (
            "a secret less",
            descriptor("cloud", &["cloud", "older"], &[]),
            &whole,
            Some("cloud-config:token, TOKEN are secret"),
        ),
        (
            "an interface less",
            same.clone(),
            &["ccm:cloud/load-balancer-survey@0.2.0"],
            Some("does not export load-balancers, and Service default/web"),
        ),
    ];
    for (what, new, exports, wanted) in cases {
        let told = judged(&config(|_| ()), &new, exports);
        match (wanted, &told) {
            (None, told) => assert_eq!(*told, None, "{what}"),
            (Some(part), Some(told)) => {
                assert!(told.contains(part), "{what}: {told}");
                assert!(told.ends_with("if that is right, use --allow-provider-change"), "{what}: {told}");
            }
            (Some(_), None) => panic!("{what} was taken"),
        }
        let allowed = config(|config| config.allow_provider_change = true);
        assert_eq!(judged(&allowed, &new, exports), None, "{what}, and it is allowed");
        assert!(identity(&config(|_| ()), &new, &[], None, needs).is_ok(), "{what}, and nobody was there before");
    }
}

#[test]
fn the_name_that_the_operator_asks_for_counts_also_at_the_first_load_and_when_a_change_is_allowed() {
    let config = config(|config| (config.name, config.allow_provider_change) = (Some("cloud".to_owned()), true));
    let other = descriptor("other", &["other"], &[]);
    assert!(judged(&config, &other, &[]).unwrap().contains("--cloud-provider"));
    let error = identity(&config, &other, &[], None, needs).unwrap_err().to_string();
    assert!(error.contains(r#"calls itself "other", the operator asks for "cloud""#), "{error}");
    assert_eq!(judged(&config, &descriptor("cloud", &["any"], &[]), &[]), None);
}

#[test]
fn an_interface_that_nobody_needs_or_that_never_worked_may_go() {
    let same = descriptor("cloud", &["cloud"], &[]);
    let before = |offers: &[Capability]| Some(Before { descriptor: &same, offers: offers.to_vec() });
    let all = [Capability::LoadBalancers, Capability::Routes, Capability::Cluster];
    assert!(identity(&config(|_| ()), &same, &[], before(&all), |_| None).is_ok());
    assert!(identity(&config(|_| ()), &same, &[], before(&[]), needs).is_ok());
    assert!(identity(&config(|_| ()), &same, &[], before(&all), needs).is_err());
}

/// It may be exported and not offered: `meta.offers` judges the configuration.
#[test]
fn an_interface_that_objects_depend_on_must_work_with_the_configuration_as_well() {
    let same = descriptor("cloud", &["cloud"], &[]);
    let before = || Some(Before { descriptor: &same, offers: vec![Capability::LoadBalancers] });
    assert!(offers(&config(|_| ()), &[Capability::LoadBalancers], before(), needs).is_ok());
    let error = offers(&config(|_| ()), &[Capability::Routes], before(), needs).unwrap_err().to_string();
    assert!(error.contains("does not offer load-balancers") && error.contains("Service default/web"), "{error}");
    assert!(error.contains("--allow-provider-change"), "{error}");
    assert!(offers(&config(|_| ()), &[], before(), |_| None).is_ok());
    assert!(offers(&config(|_| ()), &[], None, needs).is_ok());
    assert!(offers(&config(|config| config.allow_provider_change = true), &[], before(), needs).is_ok());
}

fn declares(names: &[(&str, AnnotationRole)]) -> Descriptor {
    let annotation = |&(name, role): &(&str, AnnotationRole)| Annotation {
        name: name.to_owned(),
        purpose: String::new(),
        kind: ccm_cloud::ValueKind::Text,
        default: None,
        allowed: vec![],
        role,
    };
    Descriptor {
        name: "cloud".to_owned(),
        annotations: names.iter().map(annotation).collect(),
        ..Descriptor::default()
    }
}

/// A component that declared `*` once read every annotation of a Service, the copy that kubectl keeps included, and rewrote all of them.
#[test]
fn annotations_that_are_not_its_own_need_a_grant_and_are_pinned() {
    use AnnotationRole::{Asked, Both};
    let grants = |granted: &[&str]| {
        config(|config| config.grants.allow_annotations = granted.iter().map(|&name| name.to_owned()).collect())
    };
    let refused = |config: &ProviderConfig, new: &Descriptor, before: Option<&Descriptor>| {
        annotations(config, new, before).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (name, part) in [
        ("*", "nobody can grant"),
        ("kubectl.kubernetes.io/last-applied-configuration", "--allow-annotation='kubectl.kubernetes.io/last"),
        ("cert-manager.io/*", "--allow-annotation='cert-manager.io/*'"),
    ] {
        let told = refused(&grants(&[]), &declares(&[(name, Both)]), None);
        assert!(told.contains(part) && told.contains("reads and writes"), "{told}");
    }
    let prefix = "service.beta.kubernetes.io/cloud-loadbalancer-name";
    let own = declares(&[("cloud.example/*", Both), (prefix, Asked)]);
    let named = config(|config| config.name = Some("cloud".to_owned()));
    let renamed =
        config(|config| (config.name, config.component) = (Some("mine".to_owned()), Some("cloud".to_owned())));
    assert_eq!(refused(&named, &own, None) + &refused(&renamed, &own, None), "");
    assert_eq!(refused(&grants(&[prefix]), &own, None), "");
    let told = refused(&grants(&[]), &own, None);
    let parts = ["it calls itself \"cloud\"", "--cloud-provider=cloud", "--allow-annotation"];
    assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    // A component of a cloud declares some forty, which once were all in one line.
    let names: Vec<String> = (0..40).map(|i| format!("service.beta.kubernetes.io/cloud-loadbalancer-{i:02}")).collect();
    let many = declares(&names.iter().map(|name| (name.as_str(), Asked)).collect::<Vec<_>>());
    let told = refused(&grants(&[]), &many, None);
    assert!(told.contains("-02 (reads) and 37 more, which") && told.len() < 500, "{told}");
    let others = declares(&[("service.beta.kubernetes.io/cl-loadbalancer-name", Asked)]);
    assert!(refused(&named, &others, None).contains("not of its own domain"), "another cloud's");
    let (one, more) = (declares(&[("other.io/a", Asked)]), declares(&[("other.io/*", Asked)]));
    let granted = grants(&["other.io/*"]);
    assert_eq!(refused(&granted, &one, None) + &refused(&granted, &one, Some(&more)), "");
    for wider in [&more, &declares(&[("other.io/a", Both)])] {
        let told = refused(&granted, wider, Some(&one));
        assert!(told.contains("other.io/") && told.contains("--allow-grant-change"), "{told}");
    }
    let mut allowed = granted;
    allowed.grants.allow_grant_change = true;
    assert_eq!(refused(&allowed, &more, Some(&one)), "");
}
