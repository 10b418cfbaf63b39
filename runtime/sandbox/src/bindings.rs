//! The contract, as wasmtime generates it from `wit/`.
//!
//! One `bindgen!` of the largest world: the exports of an optional interface are looked up by its own `GuestIndices`, which
//! fail where a component has no such export.

wasmtime::component::bindgen!({
    path: "../../wit/v0.2",
    world: "full-provider",
    imports: { default: async | trappable },
    exports: { default: async },
});
