//! Which addresses a load balancer gets.

use std::net::IpAddr;

use ccm_sdk::Done;
use ccm_sdk::types::{Failure, IpFamily, Service};

use super::service_spec::{ServiceSpec, family_of, pool_of};
use super::state::Record;
use super::{Balancers, MOVED, name};

/// Most addresses that are looked at for a free one. More are never in use: the host's cache does not hold so many.
const MAX_LOOKS: u32 = 1 << 16;

impl Balancers<'_> {
    /// One address per family, none of them taken yet: a Service that cannot have them all takes none.
    pub(super) fn allocate(
        &self,
        service: &Service,
        service_spec: &ServiceSpec,
        known: Option<&Record>,
        done: &mut Done,
    ) -> Result<Vec<IpAddr>, Failure> {
        let mut ips = vec![];
        for family in &service_spec.families {
            ips.push(self.address(service, service_spec, *family, known, done)?);
        }
        Ok(ips)
    }

    /// The chosen one, else the one that it has, else a free one.
    fn address(
        &self,
        service: &Service,
        service_spec: &ServiceSpec,
        family: IpFamily,
        known: Option<&Record>,
        done: &mut Done,
    ) -> Result<IpAddr, Failure> {
        if let Some(requested) = service_spec.requested_of(family) {
            return match self.taken(requested.ip, service) {
                Some(taken) => Err(Failure::conflict(taken).field(&requested.field)),
                None => Ok(requested.ip),
            };
        }
        let pool = pool_of(self.config, family);
        let mut own = known.map_or(&[][..], Record::held).iter().copied();
        let Some(own) = own.find(|ip| family_of(*ip) == family && pool.contains(*ip)) else {
            return self.free(service, family);
        };
        // Both had it when the cache forgot them; whoever came first keeps it.
        let Some(taken) = self.taken(own, service) else { return Ok(own) };
        let ip = self.free(service, family)?;
        done.warn(MOVED, format!("{taken}; {} gets {ip} instead", service.full_name()));
        Ok(ip)
    }

    /// Where the search begins depends on the Service alone, so that a pool with room gives it the same address again.
    fn free(&self, service: &Service, family: IpFamily) -> Result<IpAddr, Failure> {
        let pool = pool_of(self.config, family);
        let size = pool.size();
        let looks = u32::try_from(size).unwrap_or(u32::MAX).min(MAX_LOOKS);
        let start = name::place(&service.uid, size);
        let places = (0..looks).map(u128::from).map(|step| start.checked_add(step).unwrap_or(step) % size.max(1));
        let mut addresses = places.filter_map(|place| pool.nth(place));
        addresses
            .find(|ip| self.state.holder(*ip).is_none())
            .ok_or_else(|| Failure::quota(format!("address pool exhausted ({looks} in use)")))
    }
}
