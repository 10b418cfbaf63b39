//! Words of the API that have a meaning here.

ccm_sdk::words! {
    /// Type of a load balancer.
    pub(crate) enum Kind {
        /// Ends connections, speaks HTTP and TLS.
        Regional = "REGIONAL",
        /// Passes packets through, whose destination stays the load balancer.
        Network = "REGIONAL_NETWORK"
    }

    /// Who can reach a load balancer.
    pub(crate) enum Network { External = "EXTERNAL", Internal = "INTERNAL" }

    /// Which addresses a load balancer has.
    pub(crate) enum Stack { Ipv4 = "IPV4", Dual = "DUALSTACK" }

    /// What a port of a load balancer speaks.
    pub(crate) enum Protocol { Tcp = "tcp", Http = "http", Https = "https", Http2 = "http2" }

    /// What a health check speaks.
    pub(crate) enum HealthProtocol { Tcp = "tcp", Http = "http", Https = "https" }

    /// Sizes with names.
    pub(crate) enum Size { Small = "lb-small", Medium = "lb-medium", Large = "lb-large" }

    /// Which node gets the next connection.
    pub(crate) enum Algorithm { RoundRobin = "round_robin", LeastConnections = "least_connections" }

    /// Who a client comes back to.
    pub(crate) enum Sticky { Cookies = "cookies", None = "none" }
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
