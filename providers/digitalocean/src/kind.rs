//! Words of the API that have a meaning here.

macro_rules! words {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $about:literal])* $variant:ident = $text:literal),* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[doc = $about])* $variant),* }

        impl $name {
            /// All of them, for messages.
            pub(crate) const ALL: &[&str] = &[$($text),*];

            pub(crate) fn parse(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }

            pub(crate) const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
    };
}

words! {
    /// Type of a load balancer.
    Kind {
        /// Ends connections, speaks HTTP and TLS.
        Regional = "REGIONAL",
        /// Passes packets through, whose destination stays the load balancer.
        Network = "REGIONAL_NETWORK"
    }
}

words! {
    /// Who can reach a load balancer.
    Network { External = "EXTERNAL", Internal = "INTERNAL" }
}

words! {
    /// Which addresses a load balancer has.
    Stack { Ipv4 = "IPV4", Dual = "DUALSTACK" }
}

words! {
    /// What a port of a load balancer speaks.
    Protocol { Tcp = "tcp", Http = "http", Https = "https", Http2 = "http2" }
}

words! {
    /// What a health check speaks.
    HealthProtocol { Tcp = "tcp", Http = "http", Https = "https" }
}

words! {
    /// Sizes with names.
    Size { Small = "lb-small", Medium = "lb-medium", Large = "lb-large" }
}

impl Size {
    pub(crate) const fn units(self) -> i64 {
        match self {
            Self::Small => 1,
            Self::Medium => 3,
            Self::Large => 6,
        }
    }
}

words! {
    /// Who a client comes back to.
    Sticky { Cookies = "cookies", None = "none" }
}
