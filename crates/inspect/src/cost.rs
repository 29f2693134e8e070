//! `kiln check --profile`: which lines the processed instructions went to, and what multiplies them.
//!
//! ```text
//!   82314 of 1000000 instructions processed (8.2 %)
//!    share  processed  visits  forks  states  line
//!    61.0%      50212    6276      0       3  parse.c:42   for (i = 0; i < 64; i++)
//!
//!   the loop at parse.c:42 to 47 turned 6276 times: 80.1 % of all
//! ```
//!
//! `--flame-graph FILE` writes the same by call chain.

use std::collections::BTreeMap;

use kiln_program::clean;
use kiln_verifier::cost::{Cost as Counts, Spot};
use serde::{Deserialize, Serialize};

use crate::show::shown::Shown;

/// What verifying a program cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// Instructions processed.
    pub processed_insns: u64,
    /// Instructions that may be processed.
    pub limit: u64,
    /// Source lines (instructions, where there are none), most expensive first.
    pub lines: Vec<LineCost>,
    /// Functions, most expensive first, without what they call.
    pub functions: Vec<FunctionCost>,
    /// What multiplies: loops and branches, in words.
    pub hints: Vec<Shown>,
    /// Stacks of the flame graph, `outer;line;inner;line`, with the instructions processed there.
    #[serde(skip)]
    pub folded: Vec<(String, u64)>,
}

/// What one line cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LineCost {
    /// The function it is in.
    pub function: Shown,
    /// The file, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Shown>,
    /// The line in the file; the instruction's slot in the function, where there is no file.
    pub line: usize,
    /// What it says.
    #[serde(default, skip_serializing_if = "Shown::is_empty")]
    pub source: Shown,
    /// Instructions processed on it.
    pub processed_insns: u64,
    /// How often its most visited instruction was processed.
    pub visits: u64,
    /// How often its branches went both ways.
    pub forks: u64,
    /// States kept on it.
    pub states: u64,
}

/// What one function cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FunctionCost {
    /// The function.
    pub function: Shown,
    /// Instructions processed in it.
    pub processed_insns: u64,
}

/// Text as the name of a frame: a semicolon would end it, and XML has no place for control characters.
pub fn frame(text: &str) -> String {
    clean(text.trim()).replace(';', ",")
}

/// Hints given.
const MOST_HINTS: usize = 4;

impl Cost {
    /// From the verifier's counts.
    pub fn new(counts: &Counts) -> Cost {
        let mut lines: BTreeMap<(String, Option<String>, usize), LineCost> = BTreeMap::new();
        let mut functions: BTreeMap<&str, u64> = BTreeMap::new();
        for cost in &counts.instructions {
            let spot = &cost.spot;
            *functions.entry(&spot.function).or_default() += cost.visits;
            let (file, line) = place(spot);
            let entry = lines.entry((spot.function.clone(), file.clone(), line)).or_insert_with(|| LineCost {
                function: spot.function.as_str().into(),
                file: file.map(Shown::from),
                line,
                source: spot.line.as_ref().map_or(Shown::default(), |line| line.text.trim().into()),
                processed_insns: 0,
                visits: 0,
                forks: 0,
                states: 0,
            });
            entry.processed_insns += cost.visits;
            entry.visits = entry.visits.max(cost.visits);
            entry.forks += cost.forks;
            entry.states += cost.states;
        }
        let mut lines: Vec<LineCost> = lines.into_values().collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.processed_insns));
        let mut functions: Vec<FunctionCost> = functions
            .into_iter()
            .map(|(function, processed_insns)| FunctionCost { function: function.into(), processed_insns })
            .collect();
        functions.sort_by_key(|function| std::cmp::Reverse(function.processed_insns));
        let hints = hints(counts, &lines);
        let folded = counts.chains.iter().map(|(chain, count)| (folded(chain), *count)).collect();
        let Counts { processed_insns, limit, .. } = *counts;
        Cost { processed_insns, limit, lines, functions, hints: Shown::all(hints), folded }
    }

    /// The share of the limit, in per cent.
    pub fn share(&self) -> f64 {
        100.0 * self.processed_insns as f64 / self.limit.max(1) as f64
    }
}

impl LineCost {
    /// `parse.c:42`, or `main@7` where there is no source.
    pub fn place(&self) -> Shown {
        match &self.file {
            Some(file) => format!("{}:{}", short(file.exact()), self.line).into(),
            None => format!("{}@{}", self.function.exact(), self.line).into(),
        }
    }
}

fn place(spot: &Spot) -> (Option<String>, usize) {
    match &spot.line {
        Some(line) => (Some(line.file.clone()), line.line as usize),
        None => (None, spot.slot as usize),
    }
}

fn place_text(spot: &Spot) -> String {
    match place(spot) {
        (Some(file), line) => format!("{}:{line}", short(&file)),
        (None, position) => format!("{}@{position}", spot.function),
    }
}

fn short(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// `main;a.c:12 parse(x),;parse;a.c:40 if (y)`: each function with the line that is processed in it.
fn folded(chain: &[Spot]) -> String {
    let frames = chain.iter().flat_map(|spot| {
        let line = match &spot.line {
            Some(line) => format!("{} {}", place_text(spot), line.text.trim()),
            // In brackets: a frame that ends in a number would be read as a second count.
            None => format!("(slot {})", spot.slot),
        };
        [frame(&spot.function), frame(&line)]
    });
    frames.collect::<Vec<_>>().join(";")
}

/// Loops that take a tenth or more, and branches that go both ways often.
fn hints(counts: &Counts, lines: &[LineCost]) -> Vec<String> {
    let all = counts.processed_insns.max(1);
    let percent = |part: u64| 100.0 * part as f64 / all as f64;
    let mut hints = Vec::new();
    let mut said: Vec<String> = Vec::new();
    for cost in counts.loops.iter().filter(|cost| cost.processed_insns * 10 >= all && cost.turns > 2) {
        let (from, to) = (place_text(&cost.head), place_text(&cost.back));
        let span = if from == to { from } else { format!("{from} to {to}") };
        // A loop may jump back in several places of one line. The first takes the most.
        if said.contains(&span) {
            continue;
        }
        said.push(span.clone());
        hints.push(format!(
            "the loop at {span} turns {} times and takes {:.1} % of all; a lower bound, or bpf_loop (its body is then \
             verified once), makes it cheaper",
            cost.turns,
            percent(cost.processed_insns)
        ));
    }
    hints.truncate(MOST_HINTS - 1);
    let mut forking: Vec<&LineCost> = lines.iter().filter(|line| line.forks > 8).collect();
    forking.sort_by_key(|line| std::cmp::Reverse(line.forks));
    for line in forking.into_iter().take(MOST_HINTS - hints.len()) {
        hints.push(format!(
            "the branch at {} goes both ways {} times, and what follows is walked for each where the states differ",
            line.place(),
            line.forks
        ));
    }
    hints
}
