//! The line that makes a type a component.

/// Exports a type as a provider, with the interfaces that are named: `meta` and `instances` always, then any of
/// `load_balancers`, `load_balancer_survey`, `load_balancer_orphan`, `routes` and `cluster`.
///
/// ```text
/// ccm_sdk::export!(OpenStack: meta, instances, load_balancers, routes);
/// ```
///
/// Off WebAssembly it only checks that the traits are implemented, so that a provider's tests link.
#[macro_export]
macro_rules! export {
    ($provider:ident: meta, instances $(, $optional:ident)* $(,)?) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Exported = $crate::Guarded<$provider>;
            $crate::bindings::provider::export_provider!(Exported with_types_in $crate::bindings::provider);
            $($crate::__export_optional!($optional, Exported);)*
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || {
            fn implements<T: $crate::meta::Guest + $crate::instances::Guest $(+ $crate::$optional::Guest)*>() {}
            implements::<$provider>();
        };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_optional {
    (load_balancers, $provider:ident) => {
        $crate::bindings::load_balancers::export_load_balancers!(
            $provider with_types_in $crate::bindings::load_balancers
        );
    };
    (load_balancer_survey, $provider:ident) => {
        $crate::bindings::load_balancer_survey::export_load_balancer_survey!(
            $provider with_types_in $crate::bindings::load_balancer_survey
        );
    };
    (load_balancer_orphan, $provider:ident) => {
        $crate::bindings::load_balancer_orphan::export_load_balancer_orphan!(
            $provider with_types_in $crate::bindings::load_balancer_orphan
        );
    };
    (routes, $provider:ident) => {
        $crate::bindings::routes::export_routes!($provider with_types_in $crate::bindings::routes);
    };
    (cluster, $provider:ident) => {
        $crate::bindings::cluster::export_cluster!($provider with_types_in $crate::bindings::cluster);
    };
}
