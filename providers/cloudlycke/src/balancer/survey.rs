//! Many load balancers at once: after a start, their addresses are learnt before the first of them is ensured.

use ccm_sdk::load_balancer_survey::{Standing, Wish};
use ccm_sdk::types::{Backend, Service};

use super::service_spec::{ServiceSpec, family_of, pool_of};
use super::state::Record;
use super::{Balancers, Mode, addresses, members, node_addresses};

impl Balancers<'_> {
    /// One standing per wish. Of two Services with the same address the one that is known, or else stands first, keeps it.
    pub(crate) fn survey(&self, backends: &[Backend], wishes: &[Wish]) -> Vec<Standing> {
        let standing = |wish: &Wish| {
            let chosen = wish.backends.iter().filter_map(|index| backends.get(usize::try_from(*index).ok()?));
            self.standing(&wish.service, &chosen.collect::<Vec<_>>())
        };
        // Addresses first: one that an earlier wish will be told to leave is still another's.
        for wish in wishes {
            let service = &wish.service;
            for ip in self.shown(service, vec![]).iter().flat_map(Record::held) {
                if self.state.holder(*ip).is_none() {
                    self.state.hold(*ip, service);
                    // It may have given the address back, and its state here is older.
                    if !self.state.may_have(&service.uid, *ip) {
                        self.state.release(*ip, &service.uid);
                    }
                }
            }
        }
        wishes.iter().map(standing).collect()
    }

    fn standing(&self, service: &Service, backends: &[&Backend]) -> Standing {
        let service_spec = match ServiceSpec::of(self.config, service) {
            Ok(service_spec) => service_spec,
            Err(failure) => return Standing::Unknown(failure),
        };
        let members = members(backends);
        let Some(shown) = self.shown(service, members.clone()) else { return Standing::Missing };
        let taken: Vec<_> = shown.held().iter().filter_map(|ip| self.taken(*ip, service)).collect();
        if !taken.is_empty() {
            return Standing::Differs(taken);
        }
        let mut differences = vec![];
        if shown.pooled != (service_spec.mode == Mode::Pool) {
            differences.push(format!("the mode is `{}` now", service_spec.mode));
        } else if service_spec.mode == Mode::Pool {
            differences.extend(self.wrong_addresses(service, &service_spec));
        } else if service_spec.mode == Mode::Nodes {
            match node_addresses(backends, &service_spec) {
                Ok(ips) if ips == shown.ips => {}
                Ok(_) => differences.push("the addresses are not those of the Nodes".to_owned()),
                Err(failure) => return Standing::Unknown(failure),
            }
        }
        if shown.hostname != service_spec.hostname {
            let name = service_spec.hostname.as_deref().unwrap_or("none");
            differences.push(format!("the host name should be {name}"));
        }
        match self.state.written(&service.uid) {
            Some(Some(record)) if record.members != members => differences.push("the members are others".to_owned()),
            Some(_) => {}
            None => self.state.learn(service, &shown),
        }
        if differences.is_empty() { Standing::InStep(service.ingress.clone()) } else { Standing::Differs(differences) }
    }

    /// What is wrong with addresses that nobody else has.
    fn wrong_addresses(&self, service: &Service, service_spec: &ServiceSpec) -> Vec<String> {
        let mut wrong = vec![];
        let shown: Vec<_> = addresses(service).collect();
        for family in &service_spec.families {
            let mut own = shown.iter().filter(|ip| family_of(**ip) == *family);
            match (own.next(), service_spec.requested_of(*family)) {
                (None, _) => wrong.push("an address of one IP family is missing".to_owned()),
                (Some(ip), Some(requested)) if *ip != requested.ip => {
                    wrong.push(format!("the address should be {}, not {ip}", requested.ip));
                }
                (Some(ip), None) if !pool_of(self.config, *family).contains(*ip) => {
                    wrong.push(format!("the address {ip} is outside the pool"));
                }
                (Some(_), _) => {}
            }
            wrong.extend(own.map(|ip| format!("the address {ip} is one too many")));
        }
        let others = shown.iter().filter(|ip| !service_spec.families.contains(&family_of(**ip)));
        wrong.extend(others.map(|ip| format!("the address {ip} is of an IP family that is not asked for")));
        wrong
    }
}
