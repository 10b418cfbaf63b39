//! The status page: what the process knows of itself, as one HTML page for people.
//!
//! | | |
//! |---|---|
//! | facts | none of its own: [`Status`] is filled with what `/readyz`, `/providerz`, `/metrics` and the memories of the controllers say |
//! | size | at most [`MAX_PAGE`] bytes: each list shows its first [`ROWS`] entries and says how many more there are |
//! | markup | every text is escaped by the template crate; the one text that is not is the style sheet, a file of this crate |
//! | scripts | none, and [`POLICY`] lets a browser load and run nothing but that style sheet |
//!
//! It does not ask anybody, and knows nothing of HTTP beyond the headers that belong to the page: [`HEADERS`].

mod figures;
mod headers;
mod page;
mod sections;
mod status;
mod would_write;

pub use figures::Figures;
pub use headers::{HEADERS, POLICY};
pub use page::{MAX_PAGE, ROWS};
pub use status::{DryRun, Held, PendingWrite, Provider, Refused, Rows, Status, Trouble, Unmanaged};
