//! `kiln explain`: what a reason of a rejection means, what usually helps, and an example.

use kiln_verifier::Reason;
use serde::Serialize;

use crate::commands::examples;
use crate::error::Error;
use crate::input;

/// A reason, explained.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    /// Its code, as verdicts name it.
    pub code: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What usually helps.
    pub fix: &'static str,
    /// A program that is rejected for it, if a small one can be.
    pub rejected: Option<String>,
    /// The same program, accepted.
    pub mended: Option<String>,
    /// A program in C that is rejected for it, if people meet it there.
    pub rejected_c: Option<String>,
    /// The same program, accepted.
    pub mended_c: Option<String>,
}

/// Explains the reason with a code, or all reasons.
///
/// # Errors
/// [`Error::InvalidInput`] if there is no such reason, with the nearest code.
pub fn explain(code: Option<&str>) -> Result<Vec<Explained>, Error> {
    let found: Vec<Explained> =
        Reason::ALL.iter().filter(|reason| code.is_none_or(|code| reason.code() == code)).map(explained).collect();
    match code {
        Some(code) if found.is_empty() => {
            let near = input::closest(code, Reason::ALL.iter().map(|reason| reason.code()));
            let hint = near.map_or("kiln explain lists them all".to_owned(), |near| format!("did you mean {near}?"));
            Err(Error::InvalidInput(format!("{code:?} is no reason of a rejection; {hint}")))
        }
        _ => Ok(found),
    }
}

fn explained(reason: &Reason) -> Explained {
    let example = examples::of(reason.code()).map(|example| example.texts());
    let (rejected, mended) = example.map_or((None, None), |(rejected, mended)| (Some(rejected), mended));
    let example = examples::in_c(reason.code()).map(|example| example.texts());
    let (rejected_c, mended_c) = example.map_or((None, None), |(rejected, mended)| (Some(rejected), mended));
    let (code, meaning, fix) = (reason.code(), reason.meaning().trim(), reason.fix());
    Explained { code, meaning, fix, rejected, mended, rejected_c, mended_c }
}
