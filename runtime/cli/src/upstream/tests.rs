use std::time::Duration;

use clap::CommandFactory as _;

use super::super::{Cli, Command as Chosen, RunArgs, parse_from};
use super::*;

/// All flags of upstream's cloud controller manager (1.36), each with a value that stock manifests may have.
fn upstream() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("flags.txt").lines().filter_map(|line| line.split_once('='))
}

/// What `run` comes to with these flags; what is wrong with them, if anything.
fn run(flags: &[&str]) -> Result<(RunArgs, Vec<&'static str>), String> {
    let words = ["wasm-ccm", "run", "--provider=a.wasm"].iter().chain(flags).map(OsString::from);
    let (cli, ignored) = parse_from(words).map_err(|error| error.to_string())?;
    let Chosen::Run(args) = cli.command else { panic!() };
    Ok((*args, ignored.iter().map(|inert| inert.name).collect()))
}

#[test]
fn every_flag_of_upstream_starts_and_those_without_effect_are_told_in_one_line() {
    // With the equals sign, and as two words; a boolean alone too.
    let one: Vec<String> = upstream().map(|(name, value)| format!("--{name}={value}")).collect();
    let two = upstream().flat_map(|(name, value)| {
        let is_boolean = matches!(value, "true" | "false");
        if is_boolean { vec![format!("--{name}={value}")] } else { vec![format!("--{name}"), value.to_owned()] }
    });
    for words in [one, two.collect()] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (_, ignored) = run(&words).unwrap();
        assert_eq!(ignored, INERT.iter().map(|inert| inert.name).collect::<Vec<_>>());
    }
    let all: Vec<&Inert> = INERT.iter().collect();
    let line = told(&all).unwrap();
    assert!(!line.contains('\n'));
    for inert in INERT {
        assert_eq!(line.matches(inert.why).count(), 1, "{}", inert.why);
        let (before, _) = line.split_once(&format!("({})", inert.why)).unwrap();
        let (_, flags) = before.rsplit_once(';').unwrap_or(("", before));
        assert!(flags.split([',', ' ']).any(|flag| flag == format!("--{}", inert.name)), "{}", inert.name);
        assert!(upstream().any(|(name, _)| name == inert.name), "{} is no flag of upstream", inert.name);
    }
    assert_eq!(told(&[]), None);
}

#[test]
fn a_flag_of_upstream_has_an_effect_or_is_told_to_have_none() {
    let cli = Cli::command();
    let command = cli.find_subcommand("run").unwrap();
    for (name, _) in upstream() {
        let ours = command.get_arguments().any(|argument| argument.get_long() == Some(name) || name == "v");
        let inert = INERT.iter().any(|inert| inert.name == name);
        assert!(ours != inert, "{name}");
    }
}

#[test]
fn a_flag_that_asks_for_what_is_so_anyway_is_no_news_and_the_last_of_several_counts() {
    let quiet = [
        "--allocate-node-cidrs=false",
        "--use-service-account-credentials=0",
        "--profiling=f",
        "--permit-port-sharing=FALSE",
        "--disable-http2-serving",
    ];
    assert_eq!(run(&quiet).unwrap().1, [""; 0]);
    let several = ["--profiling=false", "--profiling", "--kube-api-qps=1", "--kube-api-qps=2"];
    assert_eq!(run(&several).unwrap().1, ["profiling", "kube-api-qps"]);
    assert_eq!(run(&["--profiling", "--profiling=false"]).unwrap().1, [""; 0]);
}

/// A connection that fell silent is replaced within this time: until then Nodes and Services change unseen.
#[test]
fn by_default_a_silent_connection_is_replaced_within_45_s() {
    let (args, _) = run(&[]).unwrap();
    let pings = args.pings();
    assert!(pings.period + pings.timeout <= Duration::from_secs(45), "{pings:?}");
}

#[test]
fn booleans_are_written_as_in_go_and_never_take_the_next_word() {
    type Told = fn(&RunArgs) -> bool;
    let flags: [(&str, Told, bool); 6] = [
        ("trace-http", |args| args.trace_http, false),
        ("untaint-before-addresses", |args| args.untaint_before_addresses, false),
        ("allow-provider-change", |args| args.provider.record.allow_provider_change, false),
        ("allow-downgrade", |args| args.provider.record.allow_downgrade, false),
        ("leader-elect", |args| args.leader.leader_elect, true),
        ("configure-cloud-routes", |args| args.route.configure_cloud_routes, true),
    ];
    for (name, is, default) in flags {
        assert_eq!(is(&run(&[]).unwrap().0), default, "{name}");
        for (text, wanted) in
            [("", true), ("=true", true), ("=1", true), ("=T", true), ("=false", false), ("=0", false)]
        {
            let flag = format!("--{name}{text}");
            assert_eq!(is(&run(&[&flag]).unwrap().0), wanted, "{flag}");
            let opposite = format!("--{name}={}", !wanted);
            assert_eq!(is(&run(&[&opposite, &flag]).unwrap().0), wanted, "{opposite} {flag}");
        }
        assert!(run(&[&format!("--{name}=perhaps")]).is_err());
        assert!(run(&[&format!("--{name}"), "true"]).is_err(), "the next word is no value of {name}");
    }
}

#[test]
fn lists_add_up_scalars_are_replaced_and_underscores_are_dashes() {
    let flags =
        ["--cluster-cidr=10.0.0.0/16", "--cluster_cidr", "10.1.0.0/16,10.2.0.0/16", "--controllers", "-service,*"];
    let (args, _) = run(&[&flags[..], &["--cluster-name=a", "--cluster_name=b", "-v", "1", "-v=3"]].concat()).unwrap();
    assert_eq!(args.cluster_cidr, ["10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16"]);
    assert_eq!(args.controllers, ["-service", "*"]);
    assert_eq!((args.cluster_name.as_str(), args.v), ("b", 3));
}

/// The reference says it of all commands, and it was so of `run` and `plan` alone.
#[test]
fn the_flags_of_each_command_are_written_as_those_of_run() {
    let parsed = |words: &[&str]| {
        let words = ["wasm-ccm"].iter().chain(words).map(OsString::from);
        parse_from(words).map(|(cli, _)| cli.command).map_err(|error| error.to_string())
    };
    let Chosen::Check(args) = parsed(&["check", "a.wasm", "--allow_host=x", "--allow-host=y"]).unwrap() else {
        panic!()
    };
    assert_eq!(args.config.grants.allow_host, ["x", "y"]);
    let Chosen::Doctor(args) = parsed(&["doctor", "--leader_elect=false", "--online=false"]).unwrap() else { panic!() };
    let settings = args.settings().unwrap();
    assert!(!settings.online && !settings.is_elected);
    for words in [
        &["explain", "service", "web", "--leader_elect_resource_name", "x", "--leader-elect-resource-name=y"][..],
        &["uninstall", "--plan=false", "--plan", "--leader_elect_resource_namespace=x"],
        &["inspect", "a.wasm", "--output=json", "--output", "text"],
    ] {
        let told = parsed(words).map(|_| ()).err();
        assert_eq!(told, None, "{words:?}");
    }
    let told = parsed(&["doctor", "--kubeconfig", "--online"]).map(|_| ()).unwrap_err();
    assert!(told.contains("--kubeconfig needs a value, and --online follows it"), "{told}");
}

/// `--webhooks --provider FILE` once asked for a webhook of the name `--provider`, and said of FILE that it belongs to no flag.
#[test]
fn a_flag_whose_value_was_forgotten_takes_no_flag_as_its_value() {
    let cases: [(&[&str], &str); 7] = [
        (&["--webhooks", "--provider", "b.wasm"], "--webhooks needs a value, and --provider follows it"),
        (
            &["--controllers", "--cluster_cidr=10.0.0.0/16"],
            "--controllers needs a value, and --cluster-cidr follows it",
        ),
        (&["--kubeconfig", "--v=4"], "--kubeconfig needs a value, and --v follows it"),
        (&["--feature-gates", "--kubeconfig", "x"], "--feature-gates needs a value, and --kubeconfig follows it"),
        (&["--kube_api_qps", "--profiling"], "--kube-api-qps needs a value, and --profiling follows it"),
        // What is no flag of ours may be anything.
        (&["--webhooks", "--hunter2=hunter2"], "--webhooks needs a value, and what follows it begins with --"),
        (&["--webhooks", "--"], "--webhooks needs a value, and what follows it begins with --"),
    ];
    for (flags, part) in cases {
        let error = run(flags).map(|_| ()).unwrap_err();
        assert!(error.contains(part) && !error.contains("hunter2"), "{flags:?}: {error}");
    }
    let (args, _) = run(&["--controllers", "-service,*", "--webhooks", "-lb-service"]).unwrap();
    assert_eq!(
        (args.controllers, args.webhook.webhooks),
        (vec!["-service".into(), "*".into()], vec!["-lb-service".into()])
    );
}

#[test]
fn what_upstream_refuses_is_refused() {
    let cases = [
        ("--kube-api-qsp=20", "--kube-api-qsp"),
        ("--kube-api-qps=lots", "the value of --kube-api-qps"),
        ("--kube-api-qps", "--kube-api-qps needs a value"),
        ("--min-resync-period=12", "the value of --min-resync-period"),
        ("--profiling=maybe", "the value of --profiling"),
        ("--log-json-split-streams", "--log-json-split-streams"),
        ("--no-such-flag", "--no-such-flag"),
        ("-kube-api-qps=20", "-k"),
    ];
    for (flag, part) in cases {
        let error = run(&[flag]).map(|_| ()).unwrap_err();
        assert!(error.contains(part), "{flag}: {error}");
    }
}

/// Rows of the table in the documentation: `` | `--name` | what is here | ``.
#[test]
fn the_table_in_the_documentation_has_every_flag_and_says_what_the_program_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("### Every flag of upstream").unwrap();
    let section = section.split("\n#").next().unwrap();
    let rows: Vec<(&str, &str)> =
        section.lines().filter_map(|line| line.strip_prefix("| `--")?.strip_suffix(" |")?.split_once("` | ")).collect();
    let documented: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(documented, upstream().map(|(name, _)| name).collect::<Vec<_>>());
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    let mut defaults = 0;
    for (name, here) in rows {
        match INERT.iter().find(|inert| inert.name == name) {
            Some(inert) => {
                let already = inert.already.map_or_else(String::new, |is| format!(" (no warning for `{is}`)"));
                assert_eq!(here, format!("no effect: {}{already}", inert.why), "{name}");
            }
            None => assert!(!here.starts_with("no effect"), "{name}: {here}"),
        }
        if let Some((_, said)) = here.split_once("; default ") {
            let argument = run.get_arguments().find(|argument| argument.get_long() == Some(name)).unwrap();
            assert_eq!(argument.get_default_values()[0].to_str(), Some(said), "{name}");
            defaults += 1;
        }
    }
    assert_eq!(defaults, 3, "defaults in the table");
}
