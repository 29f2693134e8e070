//! Whether a second solver proves what was optimized: every rewrite of every object, with its evidence in a folder.

use std::fmt::Write as _;
use std::time::Duration;

use kiln_driver::optimize::Outcome;
use kiln_driver::recheck::{self, Outcome as Answer, Recheck};
use kiln_driver::{Error, Object, evidence};
use serde::Serialize;

use crate::corpus::CorpusObject;

/// The solver that is not Kiln's own.
const SOLVER: &str = "cvc5";
/// Time for one query.
const LIMIT: Duration = Duration::from_secs(60);

/// What became of one object's evidence.
#[derive(Clone, Debug, Serialize)]
pub struct Rechecked {
    /// The corpus it is from.
    pub group: String,
    /// The object's path in the corpora.
    pub object: String,
    /// Rewrites that put instructions in the place of others, each with a query of its own.
    pub windows: usize,
    /// Rewrites that are laws, proved by the simulation of the function that they changed.
    pub laws: usize,
    /// What the second solver said; or why it could not be asked.
    pub answer: Result<Recheck, String>,
}

/// Writes an object's evidence and has the second solver go over it.
pub fn recheck(entry: &CorpusObject, before: &Object, outcome: &Outcome) -> Rechecked {
    let laws = outcome.evidence.iter().filter(|one| one.because.is_law()).count();
    Rechecked {
        group: entry.group.clone(),
        object: entry.path.display().to_string(),
        windows: outcome.evidence.len() - laws,
        laws,
        answer: ask(before, outcome).map_err(|error| error.to_string()),
    }
}

fn ask(before: &Object, outcome: &Outcome) -> Result<Recheck, Error> {
    let folder = tempfile::tempdir().map_err(|error| Error::InvalidInput(error.to_string()))?;
    evidence::write(folder.path(), before, &outcome.object, &outcome.evidence)?;
    let options = recheck::Options { solver: Some(SOLVER.to_owned()), timeout: LIMIT, jobs: 1 };
    let answer = recheck::verify(folder.path(), &options, &|_, _| true)?;
    if !answer.is_proved() {
        // What is not proved is looked at.
        eprintln!("{}: kept in {}", before.name, folder.keep().display());
    }
    Ok(answer)
}

impl Rechecked {
    /// What is not proved and why, of one kind.
    fn problems(&self, kind: Kind) -> Vec<String> {
        let name = self.object.rsplit('/').next().unwrap_or(&self.object);
        match &self.answer {
            Ok(answer) => {
                let own = answer.problems.iter().filter(|problem| Kind::of(problem.outcome) == kind);
                own.map(|problem| {
                    let law = problem.name.as_deref().unwrap_or("the whole");
                    let number = problem.rewrite.map_or(String::new(), |number| format!(" {number}"));
                    format!("`{name}`: {law}{number}: {}", problem.detail)
                })
                .collect()
            }
            Err(why) if kind == Kind::Faulty => vec![format!("`{name}`: {why}")],
            Err(_) => Vec::new(),
        }
    }

    /// In one line, for whoever waits.
    pub fn line(&self) -> String {
        match &self.answer {
            Ok(answer) => format!("{} of {} rewrites proved again", answer.proved, answer.rewrites),
            Err(why) => why.clone(),
        }
    }
}

/// What is not proved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Nothing: it is proved.
    Proved,
    /// The solver did not say within the limit.
    Undecided,
    /// The solver sees a difference.
    Refuted,
    /// There is no query, or not the right one.
    Faulty,
}

impl Kind {
    fn of(answer: Answer) -> Kind {
        match answer {
            Answer::Proved => Kind::Proved,
            Answer::Unknown | Answer::TimedOut => Kind::Undecided,
            Answer::Sat => Kind::Refuted,
            Answer::Missing | Answer::Altered | Answer::NoQuery => Kind::Faulty,
        }
    }
}

/// Whether something is refuted or cannot be checked: then an optimization cannot be believed.
pub fn is_refuted(all: &[Rechecked]) -> bool {
    all.iter().any(|one| [Kind::Refuted, Kind::Faulty].iter().any(|kind| !one.problems(*kind).is_empty()))
}

/// The table, a row a group, and by name what is not proved.
pub fn write(text: &mut String, all: &[Rechecked]) {
    let Some(solver) = all.iter().find_map(|one| Some(&one.answer.as_ref().ok()?.solver)) else { return };
    let _ = writeln!(
        text,
        "Every rewrite, proved again by {solver}, which optimizing does not use (at most {} s a query):\n\n\
         | group | objects | rewrites | windows | laws | queries | rewrites proved | not decided | refuted | faulty |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
        LIMIT.as_secs()
    );
    let mut groups: Vec<&str> = all.iter().map(|one| one.group.as_str()).collect();
    groups.dedup();
    let mut row = |name: &str, own: &[&Rechecked]| {
        let told = |count: fn(&Recheck) -> usize| -> usize {
            own.iter().filter_map(|one| one.answer.as_ref().ok()).map(count).sum()
        };
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            own.len(),
            own.iter().map(|one| one.windows + one.laws).sum::<usize>(),
            own.iter().map(|one| one.windows).sum::<usize>(),
            own.iter().map(|one| one.laws).sum::<usize>(),
            told(|answer| answer.queries),
            told(|answer| answer.proved),
            told(|answer| answer.unknown + answer.timed_out),
            told(|answer| answer.sat),
            own.iter().map(|one| one.problems(Kind::Faulty).len()).sum::<usize>(),
        );
    };
    for group in &groups {
        row(group, &all.iter().filter(|one| one.group == *group).collect::<Vec<_>>());
    }
    if groups.len() > 1 {
        row("all", &all.iter().collect::<Vec<_>>());
    }
    text.push('\n');
    for (title, kind) in [("Not decided", Kind::Undecided), ("Refuted", Kind::Refuted), ("Faulty", Kind::Faulty)] {
        let lines: Vec<String> = all.iter().flat_map(|one| one.problems(kind)).collect();
        if !lines.is_empty() {
            let _ = writeln!(text, "{title} ({}):\n", lines.len());
            text.extend(lines.iter().map(|line| format!("- {line}\n")));
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_driver::recheck::Problem;

    use super::*;

    fn rechecked(outcome: Answer) -> Rechecked {
        let problem = Problem {
            rewrite: Some(7),
            name: Some("dead-store".to_owned()),
            query: None,
            outcome,
            detail: "why".to_owned(),
        };
        let answer = Recheck {
            solver: "a solver".to_owned(),
            rewrites: 3,
            proved: 2,
            sat: usize::from(outcome == Answer::Sat),
            unknown: 0,
            timed_out: usize::from(outcome == Answer::TimedOut),
            missing: 0,
            altered: 0,
            without_query: usize::from(outcome == Answer::NoQuery),
            queries: 5,
            median_ms: 1.0,
            p95_ms: 1.0,
            problems: vec![problem],
        };
        Rechecked { group: "g".to_owned(), object: "g/a.o".to_owned(), windows: 2, laws: 1, answer: Ok(answer) }
    }

    #[test]
    fn what_is_not_proved_is_named_and_counted() {
        let counts = [(Answer::TimedOut, "1 | 0 | 0", false), (Answer::Sat, "0 | 1 | 0", true)];
        for (outcome, expected, refuted) in counts.into_iter().chain([(Answer::NoQuery, "0 | 0 | 1", true)]) {
            let (all, mut text) = ([rechecked(outcome)], String::new());
            write(&mut text, &all);
            assert!(text.contains(&format!("| g | 1 | 3 | 2 | 1 | 5 | 2 | {expected} |")), "{text}");
            assert!(text.contains("- `a.o`: dead-store 7: why"), "{text}");
            assert_eq!(is_refuted(&all), refuted);
        }
    }

    #[test]
    fn what_cannot_be_asked_is_a_fault() {
        let none = Rechecked { answer: Err("no solver".to_owned()), ..rechecked(Answer::Sat) };
        assert!(is_refuted(&[none]));
    }
}
