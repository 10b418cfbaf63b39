//! What is wrong, why, and what would be left: the commands `doctor`, `explain` and `uninstall`, and the page `/explain/v1/` that a running host answers them with. They read,
//! and write nothing.
//!
//! ```text
//!           doctor   explain   uninstall
//!               └───┐   │   ┌───┘
//!                   ▼   ▼   ▼
//!                      ask
//!               ┌───────┴───────┐
//!               ▼               ▼
//!          API server    pages of the leader
//! ```
//!
//! | module | does |
//! |---|---|
//! | `ask` | reads the cluster and the leader, and judges what the commands need: Leases, pods, Nodes, Services, Events |
//! | `doctor` | looks for what keeps a cluster and its host from working together |
//! | `explain` | leads from one object to the reason |
//! | `uninstall` | looks for what would be left without the host |
//! | `kubelet` | a Node whose kubelet asks for no manager, and what to do about it |
//! | `paste` | commands that are printed, with the flags that lead where the command went |
//! | `plain` | texts of others, without what a terminal obeys |
//! | `throttled` | whose quota is used up, and what to do about it |
//! | `verdict` | how `doctor` and `explain` end |

mod ask;
mod doctor;
mod explain;
pub mod kubelet;
mod paste;
mod plain;
mod throttled;
mod uninstall;
mod verdict;

pub use ask::{Access, address};
pub use doctor::{DoctorSettings, Report, RightsOf, doctor};
pub use explain::{
    Answer, AskedOfDryRun, ExplainSettings, Explained, Explanation, Target, Wanted, WouldWrite, asked, explain,
};
pub use paste::{LEASE, Paste, word};
pub use plain::{about, shown, without_keys};
pub use uninstall::{Remains, UninstallSettings, uninstall};
pub use verdict::Verdict;
