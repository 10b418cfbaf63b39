//! Commands that are printed. They get the flags that lead where this command went: without them, whoever pastes one asks, or changes, another
//! cluster.

use http::Uri;

use crate::ask::Access;
use crate::plain::one_line;

/// The Lease of the host, where no flag names another one: its namespace and its name.
pub const LEASE: (&str, &str) = ("kube-system", "cloud-controller-manager");

/// The flags for the commands that are printed.
#[derive(Debug, Clone, Default)]
pub struct Paste {
    kubectl: String,
    helm: String,
    /// For commands of ours that need the API server.
    cluster: String,
    /// For those that need the host as well.
    host: String,
}

impl Paste {
    /// As this command reaches the API server.
    #[must_use]
    pub fn new(access: &Access) -> Self {
        let file = access.kubeconfig.as_ref().map(|file| flag("--kubeconfig", &file.to_string_lossy()));
        let file = file.unwrap_or_default();
        // A password in it is nothing for a screen.
        let server = access.master.as_deref().and_then(|master| master.parse::<Uri>().ok());
        let server = server.map(|server| {
            let port = server.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
            let (scheme, host) = (server.scheme_str().unwrap_or("https"), server.host().unwrap_or_default());
            format!("{scheme}://{host}{port}{}", server.path().trim_end_matches('/'))
        });
        let with = |name: &str| file.clone() + &server.iter().map(|server| flag(name, server)).collect::<String>();
        let cluster = with("--master");
        Self { kubectl: with("--server"), helm: with("--kube-apiserver"), host: cluster.clone(), cluster }
    }

    /// The same, with the way to the host.
    #[must_use]
    pub(crate) fn with_host(self, address: Option<&Uri>, namespace: &str, lease: &str) -> Self {
        let mut host = self.host;
        host.extend(address.map(|address| flag("--address", address.to_string().trim_end_matches('/'))));
        for (name, value, default) in [
            ("--leader-elect-resource-namespace", namespace, LEASE.0),
            ("--leader-elect-resource-name", lease, LEASE.1),
        ] {
            host.extend((value != default).then(|| flag(name, value)));
        }
        Self { host, ..self }
    }

    /// A text of ours, with complete commands. One that names its kubeconfig is complete: this one does not do there.
    #[must_use]
    pub fn complete(&self, text: &str) -> String {
        let commands = [
            ("kubectl", &self.kubectl),
            ("helm uninstall", &self.helm),
            ("wasm-ccm push", &self.cluster),
            ("wasm-ccm uninstall", &self.cluster),
            ("wasm-ccm explain", &self.host),
            ("wasm-ccm doctor", &self.host),
        ];
        let (mut complete, mut rest) = (String::new(), text);
        let first = |rest: &str| {
            commands.iter().filter_map(|(name, flags)| Some((rest.find(name)? + name.len(), *flags))).min()
        };
        while let Some((end, flags)) = first(rest) {
            let (command, after) = rest.split_at(end);
            complete += command;
            if after.starts_with([' ', '`', ')']) && !after.starts_with(" --kubeconfig=") {
                complete += flags;
            }
            rest = after;
        }
        complete + rest
    }
}

/// With the space before it, as a shell takes it.
fn flag(name: &str, value: &str) -> String {
    format!(" {name}={}", word(value))
}

/// One word for a shell.
#[must_use]
pub fn word(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,".contains(c);
    match value.chars().all(is_plain) {
        true => value.to_owned(),
        false => format!("'{}'", one_line(value).replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paste(kubeconfig: Option<&str>, master: Option<&str>) -> Paste {
        Paste::new(&Access { kubeconfig: kubeconfig.map(Into::into), master: master.map(ToOwned::to_owned) })
    }

    /// `doctor --kubeconfig FILE` said `wasm-ccm explain service shop/web`, which found no API server, and `kubectl delete lease`, which found another one.
    #[test]
    fn a_command_leads_where_this_one_went() {
        let address = Uri::from_static("https://127.0.0.1:10258");
        let paste = paste(Some("/k/c"), Some("https://10.0.0.1:6443/a/"));
        let here = paste.clone().with_host(Some(&address), LEASE.0, LEASE.1);
        let there = paste.clone().with_host(None, "cloud", "mine");
        let (file, url) = ("--kubeconfig=/k/c", "https://10.0.0.1:6443/a");
        let ours = format!("{file} --master={url}");
        let kubectl = format!("kubectl {file} --server={url}");
        let helm = format!("helm uninstall {file} --kube-apiserver={url}");
        let at = "--address=https://127.0.0.1:10258";
        let lease = "--leader-elect-resource-namespace=cloud --leader-elect-resource-name=mine";
        for (paste, text, wanted) in [
            (
                &here,
                "`wasm-ccm explain service a/b` says why; `kubectl -n a describe service b` shows the Events",
                format!(
                    "`wasm-ccm explain {ours} {at} service a/b` says why; `{kubectl} -n a describe service b` shows the Events"
                ),
            ),
            (&there, "`wasm-ccm doctor` says more", format!("`wasm-ccm doctor {ours} {lease}` says more")),
            (&there, "(`wasm-ccm explain node n`)", format!("(`wasm-ccm explain {ours} {lease} node n`)")),
            (&here, "echo '{}' | kubectl apply -f -", format!("echo '{{}}' | {kubectl} apply -f -")),
            (&here, "kubectl --kubeconfig=FILE apply -f -", "kubectl --kubeconfig=FILE apply -f -".to_owned()),
            (&here, "helm uninstall ccm --namespace a", format!("{helm} ccm --namespace a")),
            (&here, "`wasm-ccm push FILE configmap:a/b`", format!("`wasm-ccm push {ours} FILE configmap:a/b`")),
            // These ask no cluster, or are none.
            (
                &here,
                "`wasm-ccm inspect FILE`, kubectl.kubernetes.io/x",
                "`wasm-ccm inspect FILE`, kubectl.kubernetes.io/x".to_owned(),
            ),
        ] {
            assert_eq!(paste.complete(text), wanted);
            assert_eq!(Paste::default().complete(text), text);
        }
    }

    #[test]
    fn what_stands_in_a_flag_is_one_word_for_a_shell_and_no_secret() {
        for (kubeconfig, wanted) in [
            ("a b/it's", r"kubectl --kubeconfig='a b/it'\''s' get"),
            ("$(reboot)", "kubectl --kubeconfig='$(reboot)' get"),
            ("~/c", "kubectl --kubeconfig='~/c' get"),
            ("a\n\u{1b}[2Jb", "kubectl --kubeconfig='a [2Jb' get"),
            ("x/kubectl get", "kubectl --kubeconfig='x/kubectl get' get"),
        ] {
            assert_eq!(paste(Some(kubeconfig), None).complete("kubectl get"), wanted);
        }
        let secret = paste(None, Some("https://u:hunter2@host:1/p?token=hunter2")).complete("kubectl get");
        assert_eq!(secret, "kubectl --server=https://host:1/p get");
    }
}
