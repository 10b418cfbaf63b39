//! A private Kubernetes control plane on loopback, for tests, benchmarks and the demo.
//!
//! [`ControlPlane::start`] runs the pinned etcd and kube-apiserver (see `control-plane/`), and on request
//! kube-scheduler, kube-controller-manager and kwok. Nothing of it survives its owner: not after a drop, a panic, or a
//! SIGKILL (module `janitor` says how). Nothing here knows wasm-ccm.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use ccm_cluster::{ControlPlane, NodeFixture, Settings};
//!
//! let cluster = ControlPlane::start(Settings::default()).await?;
//! NodeFixture::new("n1").internal_ip("10.0.0.1").register(cluster.client()).await?;
//! println!("KUBECONFIG={}", cluster.kubeconfig().display());
//! # Ok(())
//! # }
//! ```

mod audit;
mod binaries;
mod component;
mod control_plane;
mod credentials;
mod flags;
mod janitor;
mod node;
mod reset;
mod settings;
mod wait;

pub use audit::Write;
pub use binaries::ensure_binaries;
pub use control_plane::ControlPlane;
pub use node::{NodeFixture, UNINITIALIZED_TAINT, register_nodes};
pub use settings::{Settings, User};
pub use wait::{Watched, await_absent, await_all, await_node, await_object, poll_until};
