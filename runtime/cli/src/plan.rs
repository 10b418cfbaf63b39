//! Flags of `plan`.

use ccm_diagnosis::Wanted;
use clap::{ArgGroup, Args};

use super::RunArgs;
use super::tools::Output;

/// Flags of `plan`.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true).args(["object", "all"]))]
pub struct PlanArgs {
    /// The object, as kubectl names it: service NAME, svc/NAME, service NAMESPACE/NAME, node NAME or node/NAME.
    #[arg(value_name = "OBJECT", num_args = 1..=2)]
    object: Vec<String>,
    /// Namespace of the Service. Without it, that of the kubeconfig.
    #[arg(long, short, value_name = "NAMESPACE", conflicts_with = "all")]
    namespace: Option<String>,
    /// Plan for all Nodes and Services, the routes, and the cluster as a whole.
    #[arg(long)]
    all: bool,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
    /// As for `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

impl PlanArgs {
    /// The object that is planned; none where all are.
    ///
    /// # Errors
    ///
    /// The words name no object.
    pub fn wanted(&self) -> Result<Option<Wanted>, String> {
        if self.all {
            return Ok(None);
        }
        Wanted::parse(&self.object, self.namespace.as_deref()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use ccm_diagnosis::Target;

    use super::super::{Command, parse_from};

    /// What it is about, in a kubeconfig whose namespace is `here`; none where it is about all.
    fn target(words: &[&str]) -> Result<Option<Target>, String> {
        let words = ["wasm-ccm", "plan", "--provider=a.wasm"].iter().chain(words).map(OsString::from);
        let (cli, _) = parse_from(words).map_err(|error| error.to_string())?;
        let Command::Plan(args) = cli.command else { panic!() };
        Ok(args.wanted()?.map(|wanted| wanted.target(Some("here"))))
    }

    /// `plan` once took two of the forms that `explain` takes.
    #[test]
    fn a_plan_is_for_all_or_for_one_object_in_every_form_that_explain_takes() {
        assert_eq!(target(&["--all"]), Ok(None));
        for words in [&["node", "n1"][..], &["no/n1"], &["nodes", "n1"], &["Node/n1"]] {
            assert_eq!(target(words), Ok(Some(Target::Node { name: "n1".to_owned() })), "{words:?}");
        }
        let web = |namespace: &str| Target::Service { namespace: namespace.to_owned(), name: "web".to_owned() };
        for (words, namespace) in [
            (&["service", "shop/web"][..], "shop"),
            (&["svc/web", "-n", "shop"], "shop"),
            (&["service", "web", "--namespace=shop"], "shop"),
            (&["-n", "shop", "services", "web"], "shop"),
            (&["svc/shop/web"], "shop"),
            (&["svc", "web"], "here"),
        ] {
            assert_eq!(target(words), Ok(Some(web(namespace))), "{words:?}");
        }
        let wrong: [&[&str]; 10] = [
            &["node"],
            &["web"],
            &["service", "/web"],
            &["service", "a/b/c"],
            &["node", "a/b"],
            &["node", ""],
            &["pod", "a"],
            &["node", "n1", "--all"],
            &["--all", "-n", "shop"],
            &["service", "shop/web", "-n", "other"],
        ];
        for words in wrong {
            assert!(target(words).is_err(), "{words:?}");
        }
    }

    /// The second of two values after a flag is a word of its own.
    #[test]
    fn a_word_that_may_be_a_secret_is_never_repeated() {
        for words in [
            &["--credential", "token", "hunter2"][..],
            &["--credential", "token", "hunter2", "svc/web"],
            &["svc/web", "--credential", "token", "hunter2"],
            &["--credential", "token", "hunter2/web"],
            &["--credential", "token", "service", "hunter2!"],
            &["--credential", "token", "service/web", "-n", "hunter2!"],
        ] {
            let error = target(words).unwrap_err();
            assert!(!error.contains("hunter2"), "{words:?}: {error}");
        }
    }

    #[test]
    fn a_plan_of_nothing_names_both_ways() {
        let error = target(&[]).unwrap_err();
        assert!(error.contains("<OBJECT|--all>"), "{error}");
        let error = target(&["web"]).unwrap_err();
        assert!(error.contains("say service NAME -n NAMESPACE, service NAMESPACE/NAME, or node NAME"), "{error}");
    }
}
