//! Flags of who may read the health port: upstream's where a thing is upstream's.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use ccm_rollout::config::duration::parse;
use ccm_serving::access::AccessSettings;
use clap::Args;

/// Who may read the health port.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access to the health port")]
pub struct AccessArgs {
    /// Ask for a token on a loopback address, too. By default, the health port asks for a token only where other machines reach it.
    #[arg(long)]
    pub authentication_on_loopback: bool,
    /// How to reach the API server that reviews tokens (TokenReview). Without it, it is the API server of the controllers.
    #[arg(long, value_name = "FILE")]
    pub authentication_kubeconfig: Option<PathBuf>,
    /// How to reach the API server that reviews access (SubjectAccessReview). Without it, it is the API server of the controllers.
    #[arg(long, value_name = "FILE")]
    pub authorization_kubeconfig: Option<PathBuf>,
    /// Time for which the answer about a token counts; 0 asks each time.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse)]
    authentication_token_webhook_cache_ttl: Duration,
    /// Time for which it counts that a user may get a page.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// Time for which it counts that a user may not get a page.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
    /// Pages that need no token, comma-separated; a `*` at the end stands for everything that follows. An empty list opens none. To a user
    /// who may not get /readyz/*, /readyz says whether all is well, and not why not; so do /healthz and /livez.
    #[arg(long, value_name = "PATH", value_delimiter = ',', value_parser = path, default_value = "/healthz,/readyz,/livez")]
    authorization_always_allow_paths: Vec<String>,
    /// New tokens, and new pages of known users, about which the host asks the API server in a second, at most. More of them get status 429.
    /// Whoever had access before does not count, and half of them are for addresses that have asked nothing new for 10 s.
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN.saturating_add(19))]
    authentication_reviews_per_second: NonZeroU32,
    /// Tokens, and pages of users, whose answers the host keeps, at most. Of more, it forgets refusals first.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN.saturating_add(1_023))]
    authentication_cache_entries: NonZeroUsize,
}

/// As upstream takes it: the slash may be left out.
fn path(text: &str) -> Result<String, String> {
    let start = text.strip_suffix('*').unwrap_or(text);
    if start.contains('*') {
        return Err(format!("{text:?}: a * stands only at the end of a path"));
    }
    Ok(if text.is_empty() || text.starts_with('/') { text.to_owned() } else { format!("/{text}") })
}

impl AccessArgs {
    /// As the wall takes it.
    pub fn settings(&self) -> AccessSettings {
        // What an empty list is on a command line.
        let paths = self.authorization_always_allow_paths.iter().filter(|path| !path.is_empty());
        AccessSettings {
            always_allow: paths.cloned().collect(),
            token_ttl: self.authentication_token_webhook_cache_ttl,
            allowed_ttl: self.authorization_webhook_cache_authorized_ttl,
            denied_ttl: self.authorization_webhook_cache_unauthorized_ttl,
            reviews_per_second: self.authentication_reviews_per_second,
            entries: self.authentication_cache_entries,
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
        args: AccessArgs,
    }

    fn args(flags: &[&str]) -> Result<AccessArgs, String> {
        let parsed = Cli::try_parse_from(["run"].iter().chain(flags));
        parsed.map(|cli| cli.args).map_err(|error| error.to_string())
    }

    fn settings(paths: &[&str], seconds: [u64; 3], numbers: [usize; 2]) -> AccessSettings {
        let [token_ttl, allowed_ttl, denied_ttl] = seconds.map(Duration::from_secs);
        AccessSettings {
            always_allow: paths.iter().map(|path| (*path).to_owned()).collect(),
            token_ttl,
            allowed_ttl,
            denied_ttl,
            reviews_per_second: NonZeroU32::new(u32::try_from(numbers[0]).unwrap()).unwrap(),
            entries: NonZeroUsize::new(numbers[1]).unwrap(),
        }
    }

    #[test]
    fn case_248_each_flag_has_upstreams_default_and_its_own_value_and_an_empty_list_opens_nothing() {
        let open = ["/healthz", "/readyz", "/livez"];
        let default = args(&[]).unwrap();
        assert_eq!(default.settings(), settings(&open, [10, 10, 10], [20, 1_024]));
        assert!(!default.authentication_on_loopback && default.authentication_kubeconfig.is_none());
        let set = args(&[
            "--authentication-on-loopback",
            "--authentication-kubeconfig=/a",
            "--authorization-kubeconfig=/b",
            "--authentication-token-webhook-cache-ttl=0",
            "--authorization-webhook-cache-authorized-ttl=2s",
            "--authorization-webhook-cache-unauthorized-ttl=3s",
            "--authorization-always-allow-paths=/metrics,healthz",
            "--authorization-always-allow-paths=/explain/*",
            "--authentication-reviews-per-second=4",
            "--authentication-cache-entries=5",
        ])
        .unwrap();
        assert_eq!(set.settings(), settings(&["/metrics", "/healthz", "/explain/*"], [0, 2, 3], [4, 5]));
        assert!(set.authentication_on_loopback);
        assert_eq!(
            (set.authentication_kubeconfig, set.authorization_kubeconfig),
            (Some("/a".into()), Some("/b".into()))
        );
        let none = args(&["--authorization-always-allow-paths="]).unwrap();
        assert_eq!(none.settings().always_allow, [""; 0]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_the_name_of_its_flag() {
        for flag in [
            "--authorization-always-allow-paths=/a*b",
            "--authorization-always-allow-paths=/**",
            "--authentication-reviews-per-second=0",
            "--authentication-cache-entries=0",
            "--authentication-token-webhook-cache-ttl=-1s",
        ] {
            let error = args(&[flag]).err().unwrap();
            assert!(error.contains(flag.split('=').next().unwrap()), "{flag}: {error}");
        }
    }
}
