//! Replays the certificate of every object with a second solver.

use std::fmt::Write as _;
use std::time::Duration;

use kiln_driver::optimize::Outcome;
use kiln_driver::verify_evidence::{self, Fault, Recheck};
use kiln_driver::{Error, Object, evidence};
use serde::Serialize;

use kiln_test::corpus::CorpusObject;

/// The solver that is not Kiln's own.
const SOLVER: &str = "cvc5";
/// Time for one query.
const LIMIT: Duration = Duration::from_secs(60);

/// The result for one object's evidence.
#[derive(Clone, Debug, Serialize)]
pub struct Rechecked {
    /// The corpus it is from.
    pub group: String,
    /// The object's path in the corpora.
    pub object: String,
    /// Rewrites that the functions' certificates stand for.
    pub rewrites: usize,
    /// Bytes of the folder of evidence.
    pub evidence_bytes: u64,
    /// What the second solver said; or why it could not be asked.
    pub answer: Result<Recheck, String>,
}

/// Writes an object's evidence and has the second solver go over it.
pub fn recheck(entry: &CorpusObject, before: &Object, outcome: &Outcome) -> Rechecked {
    let mut evidence_bytes = 0;
    let answer = ask(before, outcome, &mut evidence_bytes).map_err(|error| error.to_string());
    Rechecked {
        group: entry.group.clone(),
        object: entry.path.display().to_string(),
        rewrites: outcome.evidence.len(),
        evidence_bytes,
        answer,
    }
}

fn ask(before: &Object, outcome: &Outcome, bytes: &mut u64) -> Result<Recheck, Error> {
    let folder = tempfile::tempdir().map_err(|error| Error::InvalidInput(error.to_string()))?;
    evidence::write(folder.path(), before, &outcome.object, &outcome.proofs, [&[], &[]])?;
    let files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
    *bytes = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let mut options = verify_evidence::Options::default();
    options.solver = Some(SOLVER.to_owned());
    options.timeout = LIMIT;
    let answer = verify_evidence::verify(folder.path(), &options, &|_, _| true)?;
    if !answer.is_proved() {
        // What is not proved is looked at.
        eprintln!("{}: kept in {}", before.name, folder.keep().display());
    }
    Ok(answer)
}

impl Rechecked {
    /// What is not proved and why, of one kind.
    fn problems(&self, fault: Fault) -> Vec<String> {
        let name = self.object.rsplit('/').next().unwrap_or(&self.object);
        match &self.answer {
            Ok(answer) => {
                let own = answer.problems.iter().filter(|problem| problem.fault == fault);
                own.map(|problem| {
                    let function = problem.function.clone().unwrap_or_else(|| "the whole".into());
                    format!("`{name}`: {function}: {}", problem.detail)
                })
                .collect()
            }
            Err(why) if fault == Fault::Broken => vec![format!("`{name}`: {why}")],
            Err(_) => Vec::new(),
        }
    }

    /// In one line, for whoever waits.
    pub fn line(&self) -> String {
        match &self.answer {
            Ok(answer) => format!("{} of {} functions proved again", answer.proved, answer.functions),
            Err(why) => why.clone(),
        }
    }
}

/// Whether something is refuted or cannot be checked.
pub fn is_refuted(all: &[Rechecked]) -> bool {
    all.iter().any(|one| [Fault::Refuted, Fault::Broken].iter().any(|fault| !one.problems(*fault).is_empty()))
}

/// The table, a row a group, and by name what is not proved.
pub fn write(text: &mut String, all: &[Rechecked]) {
    let Some(solver) = all.iter().find_map(|one| Some(&one.answer.as_ref().ok()?.solver)) else { return };
    let _ = writeln!(
        text,
        "Every certificate, replayed with {solver}, which optimizing does not use (at most {} s a query):\n\n\
         | group | objects | rewrites | functions | queries | functions proved | not decided | refuted | broken | bytes |\n\
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
            own.iter().map(|one| one.rewrites).sum::<usize>(),
            told(|answer| answer.functions),
            told(|answer| answer.queries),
            told(|answer| answer.proved),
            told(|answer| answer.count(Fault::Undecided)),
            told(|answer| answer.count(Fault::Refuted)),
            own.iter().map(|one| one.problems(Fault::Broken).len()).sum::<usize>(),
            own.iter().map(|one| one.evidence_bytes).sum::<u64>(),
        );
    };
    for group in &groups {
        row(group, &all.iter().filter(|one| one.group == *group).collect::<Vec<_>>());
    }
    if groups.len() > 1 {
        row("all", &all.iter().collect::<Vec<_>>());
    }
    text.push('\n');
    for (title, kind) in [("Not decided", Fault::Undecided), ("Refuted", Fault::Refuted), ("Broken", Fault::Broken)] {
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
    use kiln_driver::verify_evidence::{Problem, Scope};

    use super::*;

    fn rechecked(fault: Fault) -> Rechecked {
        let answer = Recheck {
            solver: "a solver".to_owned(),
            functions: 3,
            proved: 2,
            pairs: 4,
            identical: 1,
            queries: 5,
            milliseconds: 6,
            scope: Scope::ListingsOnly,
            compared: Vec::new(),
            bound: std::collections::BTreeMap::new(),
            not_bound: Vec::new(),
            problems: vec![Problem { function: Some("main".into()), fault, detail: "why".into() }],
            assumed_from_verifier: 0,
            assumptions: Vec::new(),
        };
        let object = "g/a.o".to_owned();
        Rechecked { group: "g".to_owned(), object, rewrites: 7, evidence_bytes: 100, answer: Ok(answer) }
    }

    #[test]
    fn what_is_not_proved_is_named_and_counted() {
        let counts = [(Fault::Undecided, "1 | 0 | 0", false), (Fault::Refuted, "0 | 1 | 0", true)];
        for (fault, expected, refuted) in counts.into_iter().chain([(Fault::Broken, "0 | 0 | 1", true)]) {
            let (all, mut text) = ([rechecked(fault)], String::new());
            write(&mut text, &all);
            assert!(text.contains(&format!("| g | 1 | 7 | 3 | 5 | 2 | {expected} | 100 |")), "{text}");
            assert!(text.contains("- `a.o`: main: why"), "{text}");
            assert_eq!(is_refuted(&all), refuted);
        }
    }

    #[test]
    fn what_cannot_be_asked_is_a_fault() {
        let none = Rechecked { answer: Err("no solver".to_owned()), ..rechecked(Fault::Refuted) };
        assert!(is_refuted(&[none]));
    }
}
