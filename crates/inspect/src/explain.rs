//! `kiln explain`: what a reason of a rejection or a rule of the lint means, what usually helps, and an example; what
//! the log of a kernel's verifier says.

pub mod examples;
mod kernel_messages;
pub mod log;
mod registers;

use kiln_verifier::Reason;
use serde::Serialize;

use crate::input;
use crate::lint::{RULES, Rule};
use examples::Example;
use kiln_program::Error;

/// A reason or a rule, explained.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// Its code, as verdicts and warnings name it.
    pub code: &'static str,
    /// `rejection` or `lint`.
    pub kind: &'static str,
    /// What it means.
    pub meaning: String,
    /// What usually helps.
    pub fix: &'static str,
    /// A program that is rejected for it, if a small one can be.
    pub rejected: Option<String>,
    /// The same program, accepted.
    pub mended: Option<String>,
    /// A program in C that is rejected for it, or warned about, if people meet it there.
    pub rejected_c: Option<String>,
    /// The same program, accepted.
    pub mended_c: Option<String>,
    /// Other programs in C that are rejected for it.
    pub more_c: Vec<InC>,
}

/// A program in C that is rejected, and the same program mended.
#[derive(Clone, Debug, Serialize)]
pub struct InC {
    /// Rejected.
    pub rejected: String,
    /// Accepted.
    pub mended: Option<String>,
}

/// Explains the reason or rule with a code, or all of them.
///
/// # Errors
/// [`Error::InvalidInput`] if there is no such code, with the nearest one.
pub fn explain(code: Option<&str>) -> Result<Vec<Explained>, Error> {
    let all = Reason::ALL.iter().map(explained).chain(RULES.iter().map(explained_rule));
    let found: Vec<Explained> = all.filter(|row| code.is_none_or(|code| row.code == code)).collect();
    match code {
        Some(code) if found.is_empty() => {
            let near = input::closest(code, codes());
            let hint = near.map_or("kiln explain lists them all".to_owned(), |near| format!("did you mean {near}?"));
            Err(Error::InvalidInput(format!("{code:?} is no reason of a rejection and no rule of the lint; {hint}")))
        }
        _ => Ok(found),
    }
}

fn codes() -> impl Iterator<Item = &'static str> {
    Reason::ALL.iter().map(|reason| reason.code()).chain(RULES.iter().map(|rule| rule.name))
}

fn explained_rule(rule: &Rule) -> Explained {
    let (doubtful, mended) = Example { code: rule.name, rejected: rule.doubtful, mended: Some(rule.mended) }.texts();
    Explained {
        code: rule.name,
        kind: "lint",
        meaning: format!("{} {}", rule.sentence, rule.why),
        fix: rule.fix,
        rejected: None,
        mended: None,
        rejected_c: Some(doubtful),
        mended_c: mended,
        more_c: Vec::new(),
    }
}

fn explained(reason: &Reason) -> Explained {
    let example = examples::of(reason.code()).map(|example| example.texts());
    let (rejected, mended) = example.map_or((None, None), |(rejected, mended)| (Some(rejected), mended));
    let mut in_c = examples::in_c(reason.code()).map(|example| example.texts());
    let (rejected_c, mended_c) = in_c.next().map_or((None, None), |(rejected, mended)| (Some(rejected), mended));
    let more_c = in_c.map(|(rejected, mended)| InC { rejected, mended }).collect();
    let (code, meaning, fix) = (reason.code(), reason.meaning().trim().to_owned(), reason.fix());
    Explained { code, kind: "rejection", meaning, fix, rejected, mended, rejected_c, mended_c, more_c }
}
