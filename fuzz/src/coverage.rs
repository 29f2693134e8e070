//! Statistics of generated programs: their fragments, and the laws and rules that they triggered.
//!
//! Generated programs do not test a law that they never trigger, so a run of target `optimize` ends with the list.

use std::collections::BTreeMap;
use std::sync::Mutex;

use kiln_superopt::laws::LAWS;
use kiln_superopt::rules::RULES;

use crate::composed;

/// How often something was seen, by its kind and name.
static SEEN: Mutex<BTreeMap<(&str, String), u64>> = Mutex::new(BTreeMap::new());

/// What is counted, and all names of each kind.
type Kind = (&'static str, fn() -> Vec<&'static str>);

const KINDS: [Kind; 4] = [
    ("work", || vec!["optimizer runs", "changed", "kernel runs"]),
    ("fragments", || composed::fragments().collect()),
    ("laws", || LAWS.iter().map(|law| law.name).collect()),
    ("rules", || RULES.iter().map(|rule| rule.name).collect()),
];

/// Counts one more of a kind.
pub fn count(kind: &'static str, name: &str) {
    count_many(kind, name, 1);
}

/// Counts some more of a kind.
pub fn count_many(kind: &'static str, name: &str, more: u64) {
    *SEEN.lock().expect("counting does not panic").entry((kind, name.to_owned())).or_default() += more;
}

/// One line per kind: how often each was seen, the rarest first, and which never. Empty if nothing was counted.
pub fn report() -> String {
    let seen = SEEN.lock().expect("counting does not panic");
    let line = |(kind, all): Kind| {
        let mut counts: Vec<(u64, &str)> =
            all().into_iter().map(|name| (seen.get(&(kind, name.to_owned())).copied().unwrap_or(0), name)).collect();
        counts.sort_unstable();
        let (never, some): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(count, _)| *count == 0);
        let words = |list: Vec<(u64, &str)>| {
            let words = list.into_iter().map(|(count, name)| match count {
                0 => name.to_owned(),
                _ => format!("{name} {count}"),
            });
            words.collect::<Vec<_>>().join(", ")
        };
        format!("     {kind}: {}; never: {}\n", words(some), words(never))
    };
    if seen.is_empty() { String::new() } else { KINDS.into_iter().map(line).collect() }
}
