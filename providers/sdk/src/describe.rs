//! Declares what a provider asks the operator for: tables instead of records with ten fields each.
//!
//! ```
//! use ccm_sdk::meta::{Budget, Credential, Descriptor, Endpoint, Setting, Source};
//!
//! mod annotations {
//!     ccm_sdk::annotations! {
//!         prefix "mycloud.example/";
//!         /// Who can reach the load balancer. It cannot be changed later.
//!         pub NETWORK = "network": Text = "public" in &["public", "private"];
//!         /// Seconds until an idle connection ends; 30 to 600.
//!         pub IDLE = "idle-seconds": Integer;
//!         /// The load balancer's ID.
//!         pub ID = "load-balancer-id": Text, Both;
//!     }
//! }
//!
//! fn describe() -> Descriptor {
//!     let url = Source::variable("MYCLOUD_URL");
//!     let token = Source::variable("MYCLOUD_TOKEN");
//!     Descriptor {
//!         endpoints: vec![Endpoint::new("api", "The API of MyCloud.", url).or("https://api.mycloud.example")],
//!         credentials: vec![Credential::new("token", "API token.", token).in_header("api", "authorization")],
//!         settings: vec![Setting::new("region", "Where load balancers are made.", Source::variable("MYCLOUD_REGION"))],
//!         annotations: ccm_sdk::describe::annotations(annotations::ALL),
//!         budgets: vec![Budget { per_second: Some(10), burst: Some(30), ..Budget::of(&["api"]) }],
//!         ..Descriptor::new("mycloud", env!("CARGO_PKG_VERSION"))
//!     }
//! }
//!
//! # fn main() {
//! assert_eq!(annotations::IDLE, "mycloud.example/idle-seconds");
//! assert_eq!(describe().annotations[0].allowed, ["public", "private"]);
//! assert_eq!(describe().annotations[0].purpose, "Who can reach the load balancer. It cannot be changed later.");
//! # }
//! ```

use crate::meta::{
    Annotation, AnnotationRole, Budget, Credential, CredentialUse, Descriptor, Endpoint, Place, Setting, Source,
    ValueKind,
};

/// Declares annotations: a constant with the name of each, and `ALL` of them for [`annotations`]. What is written about one is its
/// purpose, one line each. After the kind of the value can stand `= DEFAULT`, `in` with the words that are allowed, and
/// `, Written` for what the provider itself writes, or `, Both` for what people may set as well. See the [module](crate::describe) for an example.
#[macro_export]
macro_rules! annotations {
    (prefix $prefix:literal; $(
        #[doc = $purpose:literal]
        $visible:vis $name:ident = $suffix:literal: $kind:ident $(= $default:literal)? $(in $allowed:expr)? $(, $role:ident)?;
    )*) => {
        $(#[doc = $purpose] $visible const $name: &str = concat!($prefix, $suffix);)*

        /// All of them.
        pub(crate) const ALL: &[$crate::describe::Row] = &[$($crate::describe::Row {
            kind: $crate::meta::ValueKind::$kind,
            $(default: Some($default),)?
            $(allowed: $allowed,)?
            $(role: $crate::meta::AnnotationRole::$role,)?
            ..$crate::describe::Row::new($name, $purpose)
        }),*];
    };
}

/// An annotation, as [`annotations!`](macro@crate::annotations) writes it.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The whole name. It may end in `*`.
    pub name: &'static str,
    /// For people.
    pub purpose: &'static str,
    /// What a value is.
    pub kind: ValueKind,
    /// What is so without it.
    pub default: Option<&'static str>,
    /// Empty where more than words are allowed.
    pub allowed: &'static [&'static str],
    /// Who writes it.
    pub role: AnnotationRole,
}

impl Row {
    /// A text that people write.
    pub const fn new(name: &'static str, purpose: &'static str) -> Self {
        Self { name, purpose, kind: ValueKind::Text, default: None, allowed: &[], role: AnnotationRole::Asked }
    }
}

/// Annotations for the descriptor.
pub fn annotations(rows: &[Row]) -> Vec<Annotation> {
    let annotation = |row: &Row| Annotation {
        name: row.name.to_owned(),
        // Of a doc comment.
        purpose: row.purpose.strip_prefix(' ').unwrap_or(row.purpose).to_owned(),
        kind: row.kind,
        default_value: row.default.map(str::to_owned),
        allowed: row.allowed.iter().map(|&word| word.to_owned()).collect(),
        role: row.role,
    };
    rows.iter().map(annotation).collect()
}

impl Source {
    /// An environment variable.
    pub fn variable(name: &str) -> Self {
        Self { keys: vec![], environment_variables: vec![name.to_owned()] }
    }

    /// A key of a file: `cloud-config:Global.auth-url`.
    pub fn key(key: &str) -> Self {
        Self { keys: vec![key.to_owned()], environment_variables: vec![] }
    }
}

impl Setting {
    /// A text.
    pub fn new(name: &str, purpose: &str, value: Source) -> Self {
        let (name, purpose) = (name.to_owned(), purpose.to_owned());
        Self { name, purpose, kind: ValueKind::Text, default_value: None, allowed: vec![], value }
    }
}

impl Endpoint {
    /// One whose base URL the operator gives.
    pub fn new(name: &str, purpose: &str, base_url: Source) -> Self {
        Self { name: name.to_owned(), purpose: purpose.to_owned(), base_url, default_base_url: None, tls: None }
    }

    /// Where it is if the operator gives no base URL, and allows the host.
    #[must_use]
    pub fn or(mut self, base_url: &str) -> Self {
        self.default_base_url = Some(base_url.to_owned());
        self
    }
}

impl Credential {
    /// One that there must be.
    pub fn new(name: &str, purpose: &str, value: Source) -> Self {
        Self { name: name.to_owned(), purpose: purpose.to_owned(), required: true, value, uses: vec![] }
    }

    /// It may stand in this header.
    #[must_use]
    pub fn in_header(mut self, endpoint: &str, header: &str) -> Self {
        let place = Place::Header(header.to_owned());
        self.uses.push(CredentialUse { endpoint: endpoint.to_owned(), place, path: None });
        self
    }
}

impl Budget {
    /// What the cloud takes of requests to these endpoints, counted together. Without numbers, the runtime keeps its own limits.
    pub fn of(endpoints: &[&str]) -> Self {
        let endpoints = endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect();
        Self { endpoints, per_second: None, burst: None, per_minute: None, per_hour: None }
    }
}

impl Descriptor {
    /// One that asks for nothing; its provider IDs begin with its name.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            revision: "1".to_owned(),
            provider_id_schemes: vec![name.to_owned()],
            files: vec![],
            endpoints: vec![],
            credentials: vec![],
            settings: vec![],
            annotations: vec![],
            budgets: vec![],
            more: vec![],
        }
    }
}
