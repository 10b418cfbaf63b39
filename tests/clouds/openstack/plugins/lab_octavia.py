"""Octavia's addresses and security groups are Neutron's; what would be plugged into a machine is Octavia's own pretence."""

from octavia.common import data_models
from octavia.db import api, repositories
from octavia.network.data_models import FixedIP, Interface
from octavia.network.drivers.neutron.allowed_address_pairs import AllowedAddressPairsDriver
from octavia.network.drivers.noop_driver.driver import NoopNetworkDriver


class Addresses(AllowedAddressPairsDriver):
    def __init__(self):
        super().__init__()
        self.pretence = NoopNetworkDriver()

    def plug_aap_port(self, load_balancer, vip, amphora, subnet):
        plugged = self.pretence.plug_aap_port(load_balancer, vip, amphora, subnet)
        # The pretence knows no address of the balancer: it is the one that Neutron gave.
        return data_models.Amphora(id=plugged.id, compute_id=plugged.compute_id, vrrp_ip=plugged.vrrp_ip, vrrp_port_id=plugged.vrrp_port_id,
                                   ha_ip=vip.ip_address, ha_port_id=vip.port_id)

    def get_plugged_networks(self, compute_id):
        """All networks in which the balancer's address or one of its members is, so that nothing is left to plug."""
        session = api.get_session()
        amphora = repositories.AmphoraRepository().get(session, compute_id=compute_id)
        balancer = amphora and amphora.load_balancer_id and repositories.LoadBalancerRepository().get(session, id=amphora.load_balancer_id)
        if not balancer:
            return []
        subnets = {member.subnet_id for pool in balancer.pools for member in pool.members
                   if member.subnet_id and member.provisioning_status != "PENDING_DELETE"}
        networks = {balancer.vip.network_id: {balancer.vip.subnet_id}}
        for subnet in subnets:
            networks.setdefault(self.get_subnet(subnet).network_id, set()).add(subnet)
        return [Interface(compute_id=compute_id, network_id=network, port_id=amphora.vrrp_port_id,
                          fixed_ips=[FixedIP(subnet_id=subnet) for subnet in inside]) for network, inside in networks.items()]


def _pretended(name):
    return lambda self, *values, **named: getattr(self.pretence, name)(*values, **named)


for _name in ("plug_vip", "unplug_vip", "unplug_aap_port", "plug_network", "unplug_network", "get_network_configs", "wait_for_port_detach"):
    setattr(Addresses, _name, _pretended(_name))
