//! Configurations for tests, and the test of reading one.

use std::cell::RefCell;

use super::*;

thread_local! {
    static INSTALLED: RefCell<Option<Config>> = const { RefCell::new(None) };
}

/// What [`configured`] gives to this thread, until it is dropped.
pub(crate) struct Installed;

impl Drop for Installed {
    fn drop(&mut self) {
        INSTALLED.set(None);
    }
}

/// Takes the place of what the operator configured.
pub(crate) fn install(config: Config) -> Installed {
    INSTALLED.set(Some(config));
    Installed
}

pub(super) fn installed() -> Option<Config> {
    INSTALLED.with_borrow(Clone::clone)
}

/// One that says nothing but who logs in.
pub(crate) fn config() -> Config {
    Config {
        identity: Identity {
            user: Named::new(None, Some("demo".to_owned())),
            domain: Named::new(Some("default".to_owned()), None),
            project: Named::new(None, Some("demo".to_owned())),
            ..Identity::default()
        },
        region: "RegionOne".to_owned(),
        interface: Interface::Public,
        regional: false,
        networking: Networking::default(),
        router: None,
        balancers: Balancers::default(),
        classes: vec![],
    }
}
