//! What the controllers would write, without writing it: `wasm-ccm plan`.
//!
//! There is no second reconciler here. The controllers of `run` rehearse: each does its work on an object once. What they would write stops
//! at two walls, and is noted there:
//!
//! | wall | what stops there | where |
//! |---|---|---|
//! | the egress of the providers, whose leadership forbids every change | requests that change a cloud | [`Journal`], as a [`Leadership`](ccm_cloud::Leadership) |
//! | the client of the API server, which sends nothing but GET | everything that changes the cluster | [`read_only`] |
//!
//! The API server's answers to writes are made up, so that what follows a write of the cluster is planned as well. The answer of a cloud
//! cannot be made up: what follows a change of the cloud is said to be unknown.
//!
//! [`dry_run`] plans again and again, for `wasm-ccm run --dry-run`. There a third wall stands before the API server, by which the whole process
//! goes: [`sealed`].

mod agenda;
mod api_server;
mod asked;
mod dry_run;
mod journal;
mod known;
mod looking;
mod nodes;
mod patch;
mod pending;
mod planner;
mod report;
mod sealed;

pub use api_server::read_only;
pub use asked::Asked;
pub use dry_run::{DryRunParts, Periods, dry_run};
pub use journal::Journal;
pub use looking::{Begun, Looking};
pub use pending::{Pending, PendingList, PendingPage, PendingWrite};
pub use planner::{Controllers, Found, PlanParts, Settings, Target, plan};
pub use report::{Kind, ObjectPlan, Totals, Write};
pub use sealed::sealed;
