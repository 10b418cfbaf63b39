//! The ports of the process.
//!
//! | module | does |
//! |---|---|
//! | [`https`] | a port with TLS: certificates from files, a bounded number of connections, HTTP/1.1 on each |
//! | [`access`] | who may read the pages of a port: tokens, and what the API server says of them |
//! | [`health`] | what `/healthz` and `/readyz` say, check by check |
//! | [`webhook`] | the port on which the API server asks about Services before it takes them |
//!
//! Which pages the health port has is assembled in `wasm-ccm`, where all that they show is known.

pub mod access;
pub mod health;
pub mod https;
pub mod webhook;
