//! Names, tags and descriptions of what is made for a Service. Names are those of the Go manager, so that a cluster finds its load
//! balancers whichever of both runs. They say nothing about whose a load balancer is: two clusters in one project may have the same
//! name, and a Service of the same name. That is what the tag with the Service's UID is for.

mod cluster;

use ccm_sdk::types::Service;

/// Longest name and tag, in bytes.
const LONGEST: usize = 255;

/// What names of load balancers begin with.
pub(crate) const PREFIX: &str = "kube_service_";

/// What tags with UIDs begin with.
const UID: &str = "kubernetes.io/service-uid/";

/// The host's word for a Service that takes a load balancer over.
const TAKEN_OVER: &str = "taken-over";

/// How descriptions of floating IPs begin, for the Go manager too.
const FLOATING: &str = "Floating IP for Kubernetes external service";

/// What things of a Service are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    /// Of the load balancer; it is a tag as well, of the load balancer and of listeners.
    pub(crate) balancer: String,
    /// What old Go managers called the load balancer: it has the UID, which no other Service has.
    pub(crate) legacy: String,
    /// The tag that no other Service has, in whatever cluster.
    pub(crate) uid: String,
    /// That of the Service whose load balancer this one takes over.
    former: Option<String>,
    cluster: String,
    service: String,
}

impl Names {
    pub(crate) fn of(cluster: &str, service: &Service) -> Self {
        let balancer = format!("{PREFIX}{cluster}_{}_{}", service.namespace, service.name);
        Self {
            balancer: cut(balancer),
            legacy: legacy(&service.uid),
            uid: format!("{UID}{}", service.uid),
            former: service
                .more
                .iter()
                .find(|(name, uid)| name == TAKEN_OVER && !uid.is_empty())
                .map(|(_, uid)| format!("{UID}{uid}")),
            cluster: cluster.to_owned(),
            service: service.full_name(),
        }
    }

    /// Whether a load balancer with this name was made for a Service that is called so.
    pub(crate) fn is_name(&self, name: &str) -> bool {
        name == self.balancer || name == self.legacy
    }

    pub(crate) fn listener(&self, port: usize) -> String {
        cut(format!("listener_{port}_{}", self.balancer))
    }

    pub(crate) fn pool(&self, port: usize) -> String {
        cut(format!("pool_{port}_{}", self.balancer))
    }

    pub(crate) fn monitor(&self, port: usize) -> String {
        cut(format!("monitor_{port}_{}", self.balancer))
    }

    pub(crate) fn description(&self) -> String {
        cut(format!("Kubernetes external service {} from cluster {}", self.service, self.cluster))
    }

    /// It has the UID as well, since a floating IP is looked for after its load balancer has gone.
    pub(crate) fn floating_ip(&self) -> String {
        let end = format!(" (UID {})", uid_of(&self.uid).unwrap_or_default());
        let mut text = self.floating_ip_of_go();
        text.truncate(text.floor_char_boundary(LONGEST.saturating_sub(end.len())));
        format!("{text}{end}")
    }

    /// As the Go manager describes it: two clusters of one name may have a Service of the same name.
    pub(crate) fn floating_ip_of_go(&self) -> String {
        format!("{FLOATING} {} from cluster {}", self.service, self.cluster)
    }

    /// Whether the description of a floating IP says that it was made for this Service: here, or by the Go manager.
    pub(crate) fn is_own_floating_ip(&self, description: &str) -> bool {
        // Of whatever name the cluster had: nobody else has the UID.
        let is_of = |tag: &String| {
            let end = format!(" (UID {})", uid_of(tag).unwrap_or_default());
            description.starts_with(FLOATING) && description.ends_with(&end)
        };
        is_of(&self.uid) || self.former.as_ref().is_some_and(is_of) || description == self.floating_ip_of_go()
    }

    /// Both tags of a listener, and of a load balancer.
    pub(crate) fn tags(&self) -> Vec<String> {
        vec![self.balancer.clone(), self.uid.clone()]
    }

    /// Whether tags say that a thing is this Service's. The tag with the UID counts: the other one is that of a namesake in another
    /// cluster as well. Without a UID it is the Go manager's, or from before.
    pub(crate) fn are_own(&self, tags: &[String]) -> bool {
        let is_own = |tag: &String| *tag == self.uid || self.former.as_ref() == Some(tag);
        tags.iter().any(is_own) || self.is_of_go(tags)
    }

    /// Whether tags name this Service among several, and somebody of them has no UID yet, as the Go manager leaves them.
    pub(crate) fn may_share(&self, tags: &[String]) -> bool {
        let named = tags.iter().filter(|tag| is_of_service(tag)).count();
        let known = tags.iter().filter(|tag| uid_of(tag).is_some()).count();
        named > 1 && named > known && tags.contains(&self.balancer) && !tags.contains(&self.uid)
    }

    /// Whether a thing has this Service's name and nobody's UID: the Go manager made it.
    pub(crate) fn is_of_go(&self, tags: &[String]) -> bool {
        tags.contains(&self.balancer) && !tags.iter().any(|tag| uid_of(tag).is_some())
    }

    /// Of those that share a load balancer, the one that has it as long as no tag has a UID: it was made for this one, or else this is the
    /// first by name.
    pub(crate) fn is_first(&self, name: &str, tags: &[String]) -> bool {
        if tags.iter().any(|tag| tag == name) {
            return name == self.balancer;
        }
        tags.iter().filter(|tag| is_of_service(tag)).min() == Some(&self.balancer)
    }

    /// The tags of a thing that is this Service's: those of others stay.
    pub(crate) fn with_own(&self, tags: &[String]) -> Vec<String> {
        let gone = [self.former.as_ref(), self.former_tag(tags)];
        let mut with: Vec<String> = tags.iter().filter(|tag| !gone.contains(&Some(tag))).cloned().collect();
        with.extend(self.tags().into_iter().filter(|tag| !tags.contains(tag)));
        with
    }

    /// The tags of a thing that is this Service's no more.
    pub(crate) fn without_own(&self, tags: &[String]) -> Vec<String> {
        let own = [Some(&self.balancer), Some(&self.uid), self.former.as_ref(), self.former_tag(tags)];
        tags.iter().filter(|tag| !own.contains(&Some(tag))).cloned().collect()
    }

    /// Tags of other Services.
    pub(crate) fn others<'t>(&self, tags: &'t [String]) -> Vec<&'t str> {
        let own = [Some(&self.balancer), self.former_tag(tags)];
        let others = tags.iter().filter(|tag| is_of_service(tag) && !own.contains(&Some(tag)));
        others.map(String::as_str).collect()
    }

    /// UIDs of other Services.
    pub(crate) fn other_uids<'t>(&self, tags: &'t [String]) -> Vec<&'t str> {
        let others = tags.iter().filter(|tag| **tag != self.uid && self.former.as_ref() != Some(tag));
        others.filter_map(|tag| uid_of(tag)).collect()
    }
}

/// The Service that a load balancer was made for, by its name. Neither a namespace nor a Service has an underscore.
pub(crate) fn service_of(name: &str) -> Option<String> {
    let (rest, service) = name.strip_prefix(PREFIX)?.rsplit_once('_')?;
    let (_, namespace) = rest.rsplit_once('_')?;
    Some(format!("{namespace}/{service}"))
}

/// `a` and the UID without dashes.
fn legacy(uid: &str) -> String {
    const LONGEST: usize = 32;
    let mut name = format!("a{}", uid.replace('-', ""));
    name.truncate(name.floor_char_boundary(LONGEST));
    name
}

/// The security group of a Service.
pub(crate) fn security_group(service: &Service) -> String {
    cut(format!("lb-sg-{}-{}-{}", service.uid, service.namespace, service.name))
}

pub(crate) fn security_group_description(cluster: &str, service: &Service) -> String {
    cut(format!("Security Group for {} Service LoadBalancer in cluster {cluster}", service.full_name()))
}

/// The UID that a tag names.
pub(crate) fn uid_of(tag: &str) -> Option<&str> {
    tag.strip_prefix(UID)
}

/// Whether a floating IP was made, here or by the Go manager, for a Service whose load balancer has this name.
pub(crate) fn is_floating_ip_of(description: &str, balancer: &str) -> bool {
    let named = || {
        let (service, rest) = description.strip_prefix(FLOATING)?.strip_prefix(' ')?.split_once(" from cluster ")?;
        let (namespace, name) = service.split_once('/')?;
        let cluster = match rest.rsplit_once(" (UID ") {
            Some((cluster, uid)) if uid.ends_with(')') => cluster,
            _ => rest,
        };
        Some(cut(format!("{PREFIX}{cluster}_{namespace}_{name}")))
    };
    named().is_some_and(|named| named == balancer)
}

/// Whether the Go manager made a floating IP for a Service that is called as that of a load balancer with this name, in whatever cluster.
pub(crate) fn is_floating_ip_of_namesake(description: &str, balancer: &str) -> bool {
    let named =
        description.strip_prefix(FLOATING).and_then(|rest| rest.strip_prefix(' ')?.split_once(" from cluster "));
    named.is_some_and(|(service, cluster)| {
        !cluster.contains(" (UID ") && service_of(balancer).as_deref() == Some(service)
    })
}

/// Whether a tag names a Service, of whatever cluster.
pub(crate) fn is_of_service(tag: &str) -> bool {
    tag.starts_with(PREFIX)
}

fn cut(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(LONGEST));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(cluster: &str, namespace: &str, name: &str) -> Names {
        let service = Service { namespace: namespace.to_owned(), ..Service::named(name) };
        Names::of(cluster, &service)
    }

    #[test]
    fn os_052_to_054_a_load_balancer_is_named_by_cluster_and_service() {
        for (case, cluster, namespace, name, expected) in [
            (
                "os_052",
                "my-valid-cluster",
                "valid-cluster-namespace",
                "valid-name",
                "kube_service_my-valid-cluster_valid-cluster-namespace_valid-name",
            ),
            ("os_054", "", "", "", "kube_service___"),
        ] {
            assert_eq!(names(cluster, namespace, name).balancer, expected, "{case}");
        }
        let long = "x".repeat(200);
        for (case, names) in [("os_053", names(&long, &long, "web")), ("os_053", names("c", &long, &long))] {
            assert_eq!(names.balancer.len(), 255, "{case}");
            assert_eq!(names.listener(0).len(), 255, "{case}");
            assert!(names.floating_ip().ends_with("(UID uid-web)") || names.floating_ip().len() == 255, "{case}");
        }
    }

    #[test]
    fn os_055_to_057_a_security_group_is_named_by_the_uid() {
        let service = |uid: &str, namespace: &str, name: &str| Service {
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            ..Service::named(name)
        };
        let long = "x".repeat(200);
        for (case, service, expected) in [
            ("os_055", service("12345", "ns", "web"), "lb-sg-12345-ns-web".to_owned()),
            ("os_056", service("12345", &long, &long), format!("lb-sg-12345-{long}-{}", "x".repeat(42))),
            ("os_057", service("", "", ""), "lb-sg---".to_owned()),
        ] {
            assert_eq!(security_group(&service), expected, "{case}");
        }
    }

    #[test]
    fn a_floating_ip_is_told_from_that_of_a_namesake_in_another_cluster() {
        let web = Names::of("kubernetes", &Service::named("web"));
        let other = Names::of("kubernetes", &Service { uid: "uid-other".to_owned(), ..Service::named("web") });
        assert!(web.is_own_floating_ip(&web.floating_ip()));
        assert!(!web.is_own_floating_ip(&other.floating_ip()));
        assert!(
            web.is_own_floating_ip("Floating IP for Kubernetes external service default/web from cluster kubernetes")
        );
        assert!(!web.is_own_floating_ip("Floating IP for Kubernetes external service default/web from cluster b"));
        assert!(!web.is_own_floating_ip("mine"));
    }

    #[test]
    fn a_floating_ip_is_of_the_load_balancer_that_was_made_for_the_same_service() {
        let web = Names::of("kubernetes", &Service::named("web"));
        let go = "Floating IP for Kubernetes external service default/web from cluster";
        for (description, is_of) in [
            (web.floating_ip(), true),
            (format!("{go} kubernetes"), true),
            (format!("{go} kubernetes (UID of-its-former-self)"), true),
            (format!("{go} b"), false),
            (format!("{go} kubernetes, which I keep"), false),
            (Names::of("kubernetes", &Service::named("api")).floating_ip(), false),
            ("Floating IP for Kubernetes external service, which I keep".to_owned(), false),
            ("mine".to_owned(), false),
        ] {
            assert_eq!(is_floating_ip_of(&description, &web.balancer), is_of, "{description}");
        }
    }
}
