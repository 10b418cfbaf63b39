"""Mends Octavia 11.0.0 as later versions do: it forgets the listeners of a balancer that is created with them, which stay in
PENDING_CREATE for ever, and their tasks miss the networks of the amphorae."""

from octavia.common import constants
from octavia.controller.worker.v2.controller_worker import ControllerWorker
from octavia.controller.worker.v2.flows.load_balancer_flows import LoadBalancerFlows
from octavia.controller.worker.v2.tasks.network_tasks import GetAmphoraeNetworkConfigs

_listeners = LoadBalancerFlows._create_listeners_flow


def run_flow(self, flow, *values, store=None, **named):
    self.tf_engine.taskflow_load(flow(*values, **named), store=store).run()


def create_listeners_flow(self):
    networks = GetAmphoraeNetworkConfigs(name="lab-networks-of-amphorae", requires=constants.LOADBALANCER_ID,
                                         provides=constants.AMPHORAE_NETWORK_CONFIG)
    return [networks, *_listeners(self)]


ControllerWorker.run_flow = run_flow
LoadBalancerFlows._create_listeners_flow = create_listeners_flow
