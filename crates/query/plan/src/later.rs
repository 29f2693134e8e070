//! What tracepoints have only since a release, so that a release can be judged without its types.
//!
//! The types of a kernel say which tracepoints it has, and with how many arguments. This table has the differences
//! between the releases that Kiln describes, as far as built-in tables read them. Its rows are the signatures of
//! the `__traceiter_` functions of distribution kernels 5.15 to 6.8, and of the types of 6.1, 6.12 and 6.18.

use kiln_platform::KernelVersion;

use crate::table::{Hook, Read, Side, Source, Table};

/// A tracepoint that is newer than the oldest kernel, or got arguments.
struct Later {
    tracepoint: &'static str,
    /// Its arguments before this release; `None` if it did not exist.
    before: Option<u8>,
    since: KernelVersion,
}

const fn row(tracepoint: &'static str, before: Option<u8>, major: u8, minor: u8) -> Later {
    Later { tracepoint, before, since: KernelVersion::new(major, minor) }
}

const LATER: &[Later] = &[
    // `reason`
    row("kfree_skb", Some(2), 5, 17),
    // `prev_state`
    row("sched_switch", Some(3), 5, 18),
    row("contention_begin", None, 5, 19),
    row("contention_end", None, 5, 19),
];

/// The release that brought a tracepoint, or this argument of it, where that is later than the oldest kernel.
pub fn since(tracepoint: &str, argument: Option<u8>) -> Option<KernelVersion> {
    let brought = |row: &&Later| match (row.before, argument) {
        (None, _) => true,
        (Some(before), Some(argument)) => argument >= before,
        (Some(_), None) => false,
    };
    LATER.iter().filter(|row| row.tracepoint == tracepoint).find(brought).map(|row| row.since)
}

/// The sentence for a tracepoint that a kernel lacks, or for this argument of it.
pub fn lacking(tracepoint: &str, argument: Option<u8>) -> String {
    let what = match argument {
        Some(argument) => format!("argument {argument} of the tracepoint `{tracepoint}`"),
        None => format!("the tracepoint `{tracepoint}`"),
    };
    match since(tracepoint, argument) {
        Some(since) => format!("{what}, which this kernel does not have: it is in Linux {since} and later"),
        None => format!("{what}, which this kernel does not have"),
    }
}

/// The table as a kernel of this release has it: columns that it cannot read say why ([`Read::Absent`]).
///
/// # Errors
/// Returns a sentence that names the tracepoint if the release does not have it.
pub fn as_of(table: &Table, release: KernelVersion) -> Result<Table, String> {
    let is_later = |name: &str, argument| since(name, argument).is_some_and(|since| since > release);
    for hook in table.hooks() {
        if let Some(name) = hook.typed()
            && is_later(name, None)
        {
            return Err(format!("table `{}` needs {}", table.name, lacking(name, None)));
        }
    }
    let mut table = table.clone();
    let hooks: Vec<(Side, Hook)> = table.sides().into_iter().map(|(side, hook)| (side, hook.clone())).collect();
    for column in &mut table.columns {
        let Source::Read { at, what } = &mut column.source else { continue };
        let absent = hooks.iter().find_map(|(side, hook)| match (hook.typed(), what.last_argument()) {
            (Some(name), Some(last)) if at.is_at(*side) && is_later(name, Some(last)) => {
                Some(lacking(name, Some(last)))
            }
            _ => None,
        });
        if let Some(why) = absent {
            *what = Read::Absent(why);
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;

    #[test]
    fn a_release_has_what_it_had() {
        let of = |name: &str, release: &str| {
            let table = tables::named(name, None).expect("a table");
            as_of(&table, release.parse().expect("a release"))
        };
        let absent = |table: &Table| -> Vec<String> {
            let is_absent =
                |column: &&crate::table::Column| matches!(column.source, Source::Read { what: Read::Absent(_), .. });
            table.columns.iter().filter(is_absent).map(|column| column.name.clone()).collect()
        };
        let why = of("lock_contention", "5.15").expect_err("no tracepoint");
        assert!(why.contains("`contention_begin`") && why.contains("Linux 5.19 and later"), "{why}");
        assert!(of("lock_contention", "5.19").is_ok());
        assert_eq!(absent(&of("packet_drops", "5.15").expect("a table")), ["reason"]);
        assert_eq!(absent(&of("packet_drops", "5.17").expect("a table")), Vec::<String>::new());
        assert_eq!(absent(&of("sched_switches", "5.15").expect("a table")), ["prev_state"]);
        // Its pairs end at `sched_switch`, by an argument that is older.
        assert_eq!(absent(&of("runq", "5.15").expect("a table")), Vec::<String>::new());
    }
}
