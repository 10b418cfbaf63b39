//! Another name of the cluster. Names and tags have it in them, and those of what is this Service's follow when it changes: whose a thing is
//! says the tag with the UID, so that nothing of another cluster is renamed.

use super::{LONGEST, Names, PREFIX, cut, is_of_service};

impl Names {
    /// What is to be the name of something that has the cluster's former name in its own. None where it has the present one, or is another
    /// Service's, or of people.
    pub(crate) fn renamed(&self, name: &str) -> Option<String> {
        let former = cluster_of(name).filter(|former| *former != self.cluster)?;
        let renamed = with_cluster(name, former, &self.cluster);
        let (part, _) = renamed.split_once(PREFIX).filter(|(part, _)| is_of_part(part))?;
        let wanted = cut(format!("{part}{}", self.balancer));
        // The end of a name that was cut is lost.
        let is_it = wanted == renamed || (name.len() == LONGEST && wanted.starts_with(&renamed));
        (is_it && wanted != name).then_some(wanted)
    }

    /// The tag that the Service had under the cluster's former name, among those of something that has its UID as well.
    pub(super) fn former_tag<'t>(&self, tags: &'t [String]) -> Option<&'t String> {
        if !tags.contains(&self.uid) || tags.contains(&self.balancer) {
            return None;
        }
        tags.iter().find(|tag| is_of_service(tag) && self.renamed(tag).as_ref() == Some(&self.balancer))
    }
}

/// Whether this is what stands before the name of a load balancer in the names of its parts.
fn is_of_part(start: &str) -> bool {
    let mut kinds = ["listener_", "pool_", "monitor_"].iter();
    let number = kinds.find_map(|kind| start.strip_prefix(kind)).and_then(|rest| rest.strip_suffix('_'));
    start.is_empty() || number.is_some_and(|number| number.parse::<usize>().is_ok())
}

/// The cluster in a name: what stands before namespace and Service, of which neither has an underscore. A name that was cut may lack the
/// Service.
fn cluster_of(name: &str) -> Option<&str> {
    let (_, rest) = name.split_once(PREFIX)?;
    let mut ends = rest.rmatch_indices('_').map(|(at, _)| at);
    let (last, before) = (ends.next()?, ends.next());
    rest.get(..before.unwrap_or(last)).filter(|cluster| !cluster.is_empty())
}

/// A name with another cluster in it: the first place of the former one behind the prefix.
fn with_cluster(name: &str, former: &str, cluster: &str) -> String {
    let start = name.find(PREFIX).map_or(0, |at| at.saturating_add(PREFIX.len()));
    let (head, rest) = name.split_at(start);
    cut(format!("{head}{}", rest.replacen(former, cluster, 1)))
}

#[cfg(test)]
mod tests {
    use ccm_sdk::types::Service;

    use super::*;

    #[test]
    fn os_058_to_062_another_name_of_the_cluster_takes_the_place_of_the_first_behind_the_prefix() {
        let long = "a".repeat(250);
        for (case, name, former, expected) in [
            (
                "os_058",
                "kube_service_kubernetes_namespace_name",
                "kubernetes",
                "kube_service_cluster123_namespace_name",
            ),
            ("os_059", "kube_service_kube_namespace_name", "kube", "kube_service_cluster123_namespace_name"),
            ("os_060", "foobar_kubernetes_namespace_name", "kubernetes", "foobar_cluster123_namespace_name"),
            ("os_061", "foobar_namespace_name", "kubernetes", "foobar_namespace_name"),
            ("os_061", "kube_service_other_namespace_name", "kubernetes", "kube_service_other_namespace_name"),
        ] {
            assert_eq!(with_cluster(name, former, "cluster123"), expected, "{case}");
        }
        let longer = with_cluster(&format!("kube_service_k_{long}"), "k", "cluster123");
        assert_eq!((longer.len(), longer.starts_with("kube_service_cluster123_aaa")), (255, true), "os_062");
    }

    #[test]
    fn os_063_to_067_the_cluster_stands_before_namespace_and_service() {
        let cut = "listener_0_kube_service_kubernetes_namesp";
        for (case, name, expected) in [
            ("os_063", "kube_service_kubernetes_namespace_name", Some("kubernetes")),
            ("os_064", "listener_kube_service_kubernetes_namespace_name", Some("kubernetes")),
            ("os_064", "listener_0_kube_service_kubernetes_namespace_name", Some("kubernetes")),
            ("os_065", "kube_service_kubernetes_123_namespace_name", Some("kubernetes_123")),
            ("os_066", "FOOBAR", None),
            ("os_067", cut, Some("kubernetes")),
            ("no cluster at all", "kube_service__namespace_name", None),
        ] {
            assert_eq!(cluster_of(name), expected, "{case}");
        }
    }

    #[test]
    fn names_that_were_cut_get_the_new_name_of_the_cluster_as_if_they_never_were() {
        let of = |namespace: &str, name: &str| Service { namespace: namespace.to_owned(), ..Service::named(name) };
        let [long, other] = ["x", "y"].map(|letter| letter.repeat(200));
        let whole = of("default", &"x".repeat(220));
        for (case, service, former, cluster) in [
            ("in the Service, shorter", of(&"n".repeat(63), &long), "a-long-name", "new"),
            ("in the Service, longer", of(&"n".repeat(63), &long), "old", "a-long-name"),
            ("in the Service, of a cluster with underscores", of(&"n".repeat(63), &long), "old_1", "new_1"),
            ("in the namespace", of(&long, "web"), &long[..100], "new"),
            ("parts alone", whole.clone(), "old", "new"),
            ("only the new names", whole, "o", "a-long-name-of-a-cluster"),
        ] {
            let [had, wanted] = [former, cluster].map(|cluster| Names::of(cluster, &service));
            assert_eq!(wanted.renamed(&had.balancer).as_ref(), Some(&wanted.balancer), "{case}");
            assert_eq!(wanted.renamed(&had.listener(0)), Some(wanted.listener(0)), "{case}");
            assert_eq!(wanted.renamed(&had.pool(12)), Some(wanted.pool(12)), "{case}");
            assert_eq!(wanted.renamed(&had.monitor(1)), Some(wanted.monitor(1)), "{case}");
            let tags = [had.balancer.clone(), wanted.uid.clone()];
            assert_eq!(wanted.former_tag(&tags), Some(&had.balancer), "{case}");
            assert_eq!(wanted.renamed(&wanted.listener(0)), None, "{case}: it has the name already");
            let others = Names::of(former, &of("default", &other));
            assert_eq!(wanted.renamed(&others.balancer), None, "{case}: another Service's");
        }
        let names = Names::of("new", &of("default", "web-2"));
        assert_eq!(names.renamed("kube_service_old_default_web"), None, "not cut: it is that of web");
    }

    #[test]
    fn what_is_not_this_services_keeps_its_name_and_its_tags() {
        let names = Names::of("new", &Service::named("web"));
        for (name, expected) in [
            ("kube_service_old_default_web", Some("kube_service_new_default_web")),
            ("kube_service_old_1_default_web", Some("kube_service_new_default_web")),
            ("pool_3_kube_service_old_default_web", Some("pool_3_kube_service_new_default_web")),
            ("kube_service_new_default_web", None),
            ("kube_service_old_default_api", None),
            ("kube_service_old_other_web", None),
            ("mine_kube_service_old_default_web", None),
            ("web", None),
        ] {
            assert_eq!(names.renamed(name).as_deref(), expected, "{name}");
        }
        let (old, new, uid) = ("kube_service_old_default_web", "kube_service_new_default_web", names.uid.as_str());
        for (tags, former) in [
            (vec![old, uid], Some(old)),
            (vec![old], None),
            (vec![old, "kubernetes.io/service-uid/other"], None),
            // Both clusters share it.
            (vec![old, new, uid, "kubernetes.io/service-uid/other"], None),
        ] {
            let tags: Vec<String> = tags.into_iter().map(str::to_owned).collect();
            assert_eq!(names.former_tag(&tags).map(String::as_str), former, "{tags:?}");
        }
    }
}
