//! Annotations that steer this provider.

/// Selects what the cloud says about the machine.
pub(crate) const STATE: &str = "cloudlycke.io/instance-state";
/// Overrides the instance type.
pub(crate) const INSTANCE_TYPE: &str = "cloudlycke.io/instance-type";
/// Overrides the zone.
pub(crate) const ZONE: &str = "cloudlycke.io/zone";
/// Overrides the region.
pub(crate) const REGION: &str = "cloudlycke.io/region";

/// Makes every call fail.
pub(crate) const LB_FAIL: &str = "cloudlycke.io/lb-fail";
/// How long a load balancer is being made.
pub(crate) const LB_DELAY: &str = "cloudlycke.io/lb-delay";
/// Asks for an address.
pub(crate) const LB_ADDRESS: &str = "cloudlycke.io/lb-address";
/// Where addresses come from.
pub(crate) const LB_MODE: &str = "cloudlycke.io/lb-mode";
/// When the load balancer is made, written by the provider: milliseconds since 1970.
pub(crate) const LB_READY_AT: &str = "cloudlycke.io/lb-ready-at";
