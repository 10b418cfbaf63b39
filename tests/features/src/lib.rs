//! Nothing but a list of features, in `Cargo.toml`. Cargo builds a dependency once for each set of features, and tests add some: who
//! names this package beside those to build (the recipes do) has the set of `cargo test --workspace`, and builds nothing twice.
