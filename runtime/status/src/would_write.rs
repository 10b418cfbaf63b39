//! The section of a dry run.

use maud::{Markup, html};

use crate::sections::{counted, more, plural, text};
use crate::status::{DryRun, PendingWrite, Rows, Trouble};

pub(crate) fn would_write(
    DryRun { as_of, looking, changes, left_out, writes, unknown }: &DryRun,
    rows: usize,
) -> Markup {
    let notes = writes.all.saturating_sub(*changes);
    html! {
        section #would-write {
            h2 { "Would be written: " (counted(*changes)) }
            @match as_of {
                None => { p .quiet { "Not everything was looked at yet." } }
                Some(as_of) => {
                    @if *changes == 0 { p .good { "none" } }
                    p .quiet {
                        "As of " (text(as_of)) ". Nothing was written."
                        @if notes > 0 { " " (counted(notes)) " of the list are notes of the host to itself." }
                    }
                }
            }
            @if let Some(looking) = looking { p .quiet { "Now " (text(looking)) "." } }
            @if *left_out > 0 {
                p .bad {
                    (counted(*left_out))
                    (plural(*left_out, " write is shown without what it is", " writes are shown without what they are"))
                    ": the list would need too much memory"
                }
            }
            (list(writes, rows))
            @if unknown.all > 0 {
                h3 .bad { "Not known: " (counted(unknown.all)) }
                ul {
                    @for Trouble { name, why, .. } in unknown.first.iter().take(rows) {
                        li { b { (text(name)) } @if let Some(why) = why { p { (text(why)) } } }
                    }
                }
                (more(unknown.all, unknown.first.len().min(rows)))
            }
        }
    }
}

fn list(Rows { all, first }: &Rows<PendingWrite>, rows: usize) -> Markup {
    html! {
        @if *all > 0 {
            ul {
                @for PendingWrite { object, write, since } in first.iter().take(rows) {
                    li { b { (text(object)) } p { code { (text(write)) } } small { "since " (text(since)) } }
                }
            }
            (more(*all, first.len().min(rows)))
            p .quiet {
                "To see all writes for one object, give the flags of this host and --kubeconfig to "
                code { "wasm-ccm plan service NAMESPACE/NAME" } " or " code { "wasm-ccm plan node NAME" }
                "; for routes and the cluster, to " code { "wasm-ccm plan --all" } "."
            }
        }
    }
}
