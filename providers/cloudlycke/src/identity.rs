//! Names and provider IDs.

/// What is before `://` in the IDs that this provider gives.
pub(crate) const SCHEME: &str = "cloudlycke";

/// Nodes of these are taken care of without being asked: none of the local clusters behind them has a cloud of its own.
pub(crate) const SCHEMES: [&str; 4] = [SCHEME, "kind", "k3s", "kwok"];

/// The provider ID of the machine with this ID in the cloud.
pub(crate) fn provider_id(machine: &str) -> String {
    format!("{SCHEME}://{machine}")
}

/// The machine's ID where nobody configured one. Machines of the original demonstration (`master-c2-1`, `node-c2-1`) have
/// short ones, every other is called like its Node. Provider IDs are written once and for all: this must never change.
pub(crate) fn machine_id(node: &str) -> String {
    let short = [("master-", "m-"), ("node-", "n-")].iter().find_map(|(long, short)| {
        let position = node.strip_prefix(long)?;
        is_position(position).then(|| format!("{short}{position}"))
    });
    short.unwrap_or_else(|| node.to_owned())
}

/// `c<cluster>-<machine>`
fn is_position(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.strip_prefix('c')
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(cluster, machine)| number(cluster) && number(machine))
}

/// Whether the ID was given by a cloud that this provider does not stand in for.
pub(crate) fn is_foreign(provider_id: &str) -> bool {
    !SCHEMES.iter().any(|scheme| provider_id.strip_prefix(scheme).is_some_and(|rest| rest.starts_with("://")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_the_original_demonstration_have_short_ids_and_others_their_own_name() {
        let cases = [
            ("master-c2-1", "m-c2-1"),
            ("node-c2-1", "n-c2-1"),
            ("node-c12-345", "n-c12-345"),
            ("node-c2", "node-c2"),
            ("node-c2-", "node-c2-"),
            ("node-c-1", "node-c-1"),
            ("node-c2-1-a", "node-c2-1-a"),
            ("master-2-1", "master-2-1"),
            ("kind-worker", "kind-worker"),
        ];
        for (node, machine) in cases {
            assert_eq!(machine_id(node), machine, "{node}");
        }
    }

    #[test]
    fn an_id_is_foreign_unless_its_whole_scheme_is_known() {
        let cases = [
            ("cloudlycke://m-c2-1", false),
            ("kind://docker/kind/kind-worker", false),
            ("k3s://server-0", false),
            ("kwok://node-7", false),
            ("aws:///eu-north-1a/i-1", true),
            ("kindly://worker", true),
            ("kind:worker", true),
            ("m-c2-1", true),
            ("", true),
        ];
        for (id, foreign) in cases {
            assert_eq!(is_foreign(id), foreign, "{id}");
        }
    }
}
