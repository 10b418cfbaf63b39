//! The way to the API server, for all who talk to it.
//!
//! | module | does |
//! |---|---|
//! | `config` | where the API server is, and who asks: `--kubeconfig`, `--master`, the pod's service account |
//! | `connection` | connections for watches and reads, which are given up when the API server falls silent |
//! | `counted` | counts what clients send, as upstream's do |
//! | `observed` | whether a watch still hears of changes, and whether the API server answers |
//! | `fenced` | connections for writes, from which no byte leaves after the leadership ended |
//! | `api_gate` | requests with a time limit, counted; writes only while this process leads, and no more at once than are good for the API server |
//! | `api_status`, `error_text` | what an answer means, and how it is told |
//! | `events` | Kubernetes Events |
//! | `pages` | asks again for one page of a list, so that a long list has an end |
//! | `metrics` | requests and Events |

mod api_gate;
mod api_status;
mod config;
mod connection;
mod counted;
mod error_text;
mod events;
mod fenced;
mod metrics;
mod observed;
mod pages;

pub use api_gate::{ApiError, ApiGate, ApiGateSettings, Purpose};
pub use api_status::{is_answer, is_namespace_ending, lacks_right};
pub use config::{config, config_from};
pub use connection::{Pings, client};
pub use counted::plain_client;
pub use error_text::{api_error_text, causes};
pub use events::{
    EventRecorder, EventRequest, EventSettings, EventWriter, NODE_EVENTS, cut, node_reference, service_reference,
};
pub use fenced::fenced_client;
pub use metrics::{ApiMetrics, EventMetrics};
pub use observed::{Away, GRACE, Observed, observed};
pub use pages::{PagePauses, patient};
