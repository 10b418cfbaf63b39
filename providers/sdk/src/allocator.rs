//! Memory. The standard library's allocator is 9 KB of every component, this one 2 KB, and as fast.

use rlsf::{GlobalTlsf, GlobalTlsfOptions};

#[global_allocator]
static ALLOCATOR: GlobalTlsf<Small> = GlobalTlsf::new();

struct Small;

impl GlobalTlsfOptions for Small {
    const ENABLE_REALLOCATION: bool = false;
    /// Without it, what is larger than a page of WebAssembly would have memory of its own.
    const COALESCE_POOLS: bool = true;
}
