//! Annotations that steer this provider.

use crate::balancer::Mode;
use crate::config::State;

ccm_sdk::annotations! {
    prefix "cloudlycke.io/";
    /// On a Node: the state of its machine in the cloud.
    pub(crate) STATE = "instance-state": Text = "running" in State::ALL;
    /// On a Node: its instance type, a label value.
    pub(crate) INSTANCE_TYPE = "instance-type": Text;
    /// On a Node: its zone, a label value.
    pub(crate) ZONE = "zone": Text;
    /// On a Node: its region, a label value.
    pub(crate) REGION = "region": Text;
    /// On a Service: every change of its load balancer except deletion fails with this text.
    pub(crate) LB_FAIL = "lb-fail": Text;
    /// On a Service: time until a new load balancer is ready.
    pub(crate) LB_DELAY = "lb-delay": Duration;
    /// On a Service: an address of the pool; takes precedence over spec.loadBalancerIP.
    pub(crate) LB_ADDRESS = "lb-address": Text;
    /// On a Service: where its addresses come from.
    pub(crate) LB_MODE = "lb-mode": Text in Mode::ALL;
    /// On a Service: when its load balancer is ready, in milliseconds since 1970.
    pub(crate) LB_READY_AT = "lb-ready-at": Integer, Written;
}
