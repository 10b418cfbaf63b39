//! Flags of `plan`.

use ccm_plan::Target;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::RunArgs;
use super::tools::Output;

/// Flags of `plan`.
// No `Debug`: what an operator writes may be a secret.
#[derive(Args)]
pub struct PlanArgs {
    /// The kind of the object.
    #[arg(requires = "name", required_unless_present = "all", value_parser = PossibleValuesParser::new(["service", "node"]))]
    kind: Option<String>,
    /// The object: NAMESPACE/NAME of a Service, NAME of a Node.
    name: Option<String>,
    /// Plan for all Nodes and Services, the routes, and the cluster as a whole.
    #[arg(long, conflicts_with = "kind")]
    all: bool,
    /// Output format.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
    /// As for `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

impl PlanArgs {
    /// What is planned.
    ///
    /// # Errors
    ///
    /// The name cannot be one.
    pub fn target(&self) -> Result<Target, String> {
        let (Some(kind), Some(name)) = (&self.kind, &self.name) else { return Ok(Target::All) };
        match (kind.as_str(), name.split_once('/')) {
            ("service", Some((namespace, name)))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Target::Service { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            ("service", _) => Err(format!("{name:?} is not NAMESPACE/NAME, such as default/web")),
            (_, None) if !name.is_empty() => Ok(Target::Node(name.clone())),
            (_, _) => Err(format!("{name:?} is not the name of a Node; a Node has no namespace")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: PlanArgs,
    }

    fn target(words: &[&str]) -> Result<Target, String> {
        let words = [&["plan", "--provider=a.wasm"], words].concat();
        Cli::try_parse_from(words).map_err(|error| error.to_string())?.args.target()
    }

    #[test]
    fn a_plan_is_for_one_object_or_for_all() {
        assert_eq!(target(&["--all"]), Ok(Target::All));
        assert_eq!(target(&["node", "n1"]), Ok(Target::Node("n1".to_owned())));
        let web = Target::Service { namespace: "default".to_owned(), name: "web".to_owned() };
        assert_eq!(target(&["service", "default/web"]), Ok(web));
        let wrong: [&[&str]; 9] = [
            &[],
            &["node"],
            &["service", "web"],
            &["service", "/web"],
            &["service", "a/b/c"],
            &["node", "a/b"],
            &["node", ""],
            &["pod", "a"],
            &["node", "n1", "--all"],
        ];
        for words in wrong {
            assert!(target(words).is_err(), "{words:?}");
        }
    }
}
