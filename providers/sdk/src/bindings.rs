//! The contract in Rust, generated from `wit/`.
//!
//! One world for what every provider has, and one more for each optional interface: every `generate!` brings its own export
//! macro and its own description of the component's type. [`export!`](crate::export) expands those that a provider names, and
//! the linker merges their descriptions into the type of the component. All share the types of the first.

pub mod provider {
    wit_bindgen::generate!({
        path: "../../wit/v0.2",
        world: "ccm:cloud/provider@0.2.0",
        generate_all,
        // Types of interfaces that a provider does not call are still part of the contract.
        generate_unused_types: true,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_provider",
    });
}

pub mod load_balancers {
    wit_bindgen::generate!({
        path: "../../wit/v0.2",
        inline: "package ccm:sdk; world load-balancers { export ccm:cloud/load-balancers@0.2.0; }",
        with: { "ccm:cloud/types@0.2.0": crate::types },
        generate_all,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_load_balancers",
    });
}

pub mod load_balancer_survey {
    wit_bindgen::generate!({
        path: "../../wit/v0.2",
        inline: "package ccm:sdk; world load-balancer-survey { export ccm:cloud/load-balancer-survey@0.2.0; }",
        with: { "ccm:cloud/types@0.2.0": crate::types },
        generate_all,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_load_balancer_survey",
    });
}

pub mod load_balancer_orphan {
    wit_bindgen::generate!({
        path: "../../wit/v0.2",
        inline: "package ccm:sdk; world load-balancer-orphan { export ccm:cloud/load-balancer-orphan@0.2.0; }",
        with: { "ccm:cloud/types@0.2.0": crate::types },
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_load_balancer_orphan",
    });
}

pub mod routes {
    wit_bindgen::generate!({
        path: "../../wit/v0.2",
        inline: "package ccm:sdk; world routes { export ccm:cloud/routes@0.2.0; }",
        with: { "ccm:cloud/types@0.2.0": crate::types },
        generate_all,
        additional_derives: [PartialEq, Eq],
        pub_export_macro: true,
        export_macro_name: "export_routes",
    });
}

pub mod cluster {
    wit_bindgen::generate!({
        path: "../../wit/v0.2",
        inline: "package ccm:sdk; world cluster { export ccm:cloud/cluster@0.2.0; }",
        with: { "ccm:cloud/types@0.2.0": crate::types },
        generate_all,
        pub_export_macro: true,
        export_macro_name: "export_cluster",
    });
}
