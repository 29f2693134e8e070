//! Words that a shell completes: `kiln completions SHELL` prints a script that asks the command itself.
//!
//! ```text
//!   kiln check prog.o -p <Tab>  ──script──>  KILN_COMPLETE=bash kiln -- kiln check prog.o -p ''
//!                                                 └──> the programs of prog.o
//! ```

use std::path::PathBuf;

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use kiln_driver::kernels::Kernel;
use kiln_driver::{ProgramType, explain, input, lint};

/// The variable by which a script asks for candidates.
pub const VARIABLE: &str = "KILN_COMPLETE";
/// Files of a command line that are looked at for programs.
const MAX_FILES: usize = 16;
/// The last release of a series: 4.20 ended the longest one.
const LAST_MINOR: u8 = 20;

/// The codes of rejections and the rules of the lint, each with its meaning.
pub fn codes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let all = explain::explain(None).unwrap_or_default();
        all.into_iter().map(|row| CompletionCandidate::new(row.code).help(Some(row.meaning.into()))).collect()
    })
}

/// The rules of the lint.
pub fn rules() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        lint::RULES.iter().map(|rule| CompletionCandidate::new(rule.name).help(Some(rule.sentence.into()))).collect()
    })
}

/// What `--kernel` takes.
pub fn kernels() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let releases = (0..10).flat_map(|major| (0..=LAST_MINOR).map(move |minor| format!("{major}.{minor}")));
        let described = releases.filter(|release| release.parse::<Kernel>().is_ok());
        described.chain(["running", "all"].map(str::to_owned)).map(CompletionCandidate::new).collect()
    })
}

/// The types of programs.
pub fn types() -> ArgValueCandidates {
    ArgValueCandidates::new(|| ProgramType::ALL.iter().map(|known| CompletionCandidate::new(known.name())).collect())
}

/// The programs of the objects that the command line names.
pub fn programs() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let words = std::env::args_os().skip(1).map(PathBuf::from);
        // The command's own name is among the words.
        let files = words.filter(|word| word.extension().is_some() && word.is_file()).take(MAX_FILES);
        let objects = files.filter_map(|path| input::open(&path, &[]).ok());
        let mut names: Vec<String> = objects.flat_map(|input| programs_of(&input)).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// The names of an object's programs that can be typed.
fn programs_of(input: &input::Input) -> Vec<String> {
    let names = input.object.programs.iter().map(|program| program.name.clone());
    names.filter(|name| name.chars().all(|letter| letter.is_ascii_graphic())).collect()
}
