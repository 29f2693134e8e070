//! `kiln check --lint`: code that the verifier accepts and that is doubtful all the same.
//!
//! ```text
//!   warning[unchecked-result]: the result of bpf_map_update_elem is not looked at: a map that is full takes no new entry
//!     --> count.c:21:2
//!      |
//!   21 |     bpf_map_update_elem(&counters, &key, &one, BPF_ANY);
//!      |     ^^^^^^^^^^^^^^^^^^^ here
//! ```
//!
//! Each [`Rule`] is a row of [`RULES`]: a name, a sentence, why it matters, and the mistake in C with its mended form.
//! Rules read an accepted program and the verifier's facts about it. A source line that has `kiln: allow(NAME)` in a
//! comment is left alone.

mod calls;
mod flow;
mod linted;
mod memory;
mod rules;

use std::collections::BTreeSet;

use kiln_program::{InsnId, Program};
use kiln_verifier::{Assumptions, Prepared};
use serde::{Deserialize, Serialize};

use crate::input::{self, Input};
use crate::show::place::Place;
use crate::show::shown::Shown;
use crate::show::word::{self, Word};
use kiln_program::Error;

pub use linted::Rule;
use linted::{Check, Found, Linted, Only};
pub use rules::RULES;

/// A warning, as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name.
    #[serde(deserialize_with = "word::read")]
    pub rule: Word,
    /// Whether it counts in the exit code.
    pub denied: bool,
    /// The program; `None` for what is about the whole object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Shown>,
    /// What is doubtful, with names and numbers.
    pub message: Shown,
    /// What to do instead.
    pub help: Shown,
    /// Where; `None` for what has no place in the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// Which rules are wanted.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Whether any are.
    pub on: bool,
    /// Rules whose warnings count in the exit code.
    pub denied: Vec<String>,
    /// Rules that are left out.
    pub allowed: Vec<String>,
}

/// The name that stands for every rule.
pub const ALL: &str = "all";

impl Selection {
    /// Makes a selection of rules by name, or of [`ALL`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name that no rule has, with the nearest.
    pub fn new(on: bool, denied: &[String], allowed: &[String]) -> Result<Selection, Error> {
        for name in denied.iter().chain(allowed) {
            if name != ALL && rule(name).is_none() {
                let near = input::closest(name, RULES.iter().map(|rule| rule.name));
                let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
                return Err(Error::InvalidInput(format!("{name:?} is no rule of the lint{hint}")));
            }
        }
        Ok(Selection { on: on || !denied.is_empty(), denied: denied.to_vec(), allowed: allowed.to_vec() })
    }

    fn wants(&self, rule: &Rule) -> bool {
        !names(&self.allowed, rule)
    }
}

fn names(list: &[String], rule: &Rule) -> bool {
    list.iter().any(|name| name == rule.name || name == ALL)
}

/// The rule of a name.
pub fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name)
}

/// The warnings about an object's programs, in the order of the rules' places. What programs share is said once.
/// Programs that are not accepted have none.
pub fn lint(input: &Input, programs: &[&Program], selection: &Selection) -> Vec<Finding> {
    let object = &input.object;
    let options = kiln_verifier::Options { assumptions: Assumptions::AnyLoad, ..input.verifier_options() };
    let prepared = Prepared::new(object, &options);
    let mut found_in: Vec<(&Program, &Rule, Found)> = Vec::new();
    // Instructions where a rule that must hold in every program does not.
    let mut refuted: BTreeSet<(&'static str, InsnId)> = BTreeSet::new();
    let wanted = || RULES.iter().filter(|rule| selection.wants(rule));
    for program in programs.iter().filter(|program| program.program_type.is_some()) {
        let plain = || prepared.verify(program, &input.verifier_options());
        let Ok(verified) = prepared.verify(program, &options).or_else(|_| plain()) else { continue };
        let linted = Linted::new(object, program, &verified.facts);
        let mut own: Vec<(&Rule, Found)> = Vec::new();
        for rule in wanted() {
            let Check::Program(check) = rule.check else { continue };
            let mut found = check(&linted);
            match rule.only {
                Only::All => {}
                Only::InEveryProgram => {
                    let here: BTreeSet<_> = found.iter().filter_map(|found| found.at).collect();
                    let others = linted.nodes().filter(|(at, _)| !here.contains(at));
                    refuted.extend(others.map(|(_, node)| (rule.name, node.id)));
                }
                Only::AsCompiled if found.is_empty() => {}
                Only::AsCompiled => {
                    if let Ok(plain) = plain() {
                        let reached = |(function, at): (usize, usize)| {
                            plain.facts.reached(object.functions[function].nodes[at].id)
                        };
                        found.retain(|found| found.at.is_none_or(reached));
                    }
                }
            }
            own.extend(found.into_iter().map(|found| (rule, found)));
        }
        own.sort_by_key(|(_, found)| found.at);
        found_in.extend(own.into_iter().map(|(rule, found)| (*program, rule, found)));
    }
    let mut findings = placed(input, selection, found_in, &refuted);
    for rule in wanted() {
        if let Check::Object(check) = rule.check {
            findings.extend(check(object).into_iter().filter_map(|found| finding(selection, rule, found, None, None)));
        }
    }
    findings
}

/// What was found, with its places: each instruction once, each line once, and nothing that another program refutes.
fn placed(
    input: &Input,
    selection: &Selection,
    found_in: Vec<(&Program, &Rule, Found)>,
    refuted: &BTreeSet<(&'static str, InsnId)>,
) -> Vec<Finding> {
    let object = &input.object;
    let mut said = BTreeSet::new();
    let mut instructions: BTreeSet<(&'static str, InsnId)> = BTreeSet::new();
    let mut findings = Vec::new();
    for (program, rule, found) in found_in {
        let Some((function, at)) = found.at else { continue };
        let function = &object.functions[function];
        let key = (rule.name, function.nodes[at].id);
        if refuted.contains(&key) || !instructions.insert(key) {
            continue;
        }
        let place = Place::at(object, function, at);
        // Inlined and unrolled code has the same line several times.
        let line = place.line.map(|line| (place.file.clone().map(|file| file.exact().to_owned()), line));
        if line.is_none() || said.insert((rule.name, line, found.message.clone())) {
            findings.extend(finding(selection, rule, found, Some(program), Some(place)));
        }
    }
    findings
}

/// A finding, unless its source line allows it.
fn finding(
    selection: &Selection,
    rule: &Rule,
    found: Found,
    program: Option<&Program>,
    place: Option<Place>,
) -> Option<Finding> {
    let source = place.as_ref().and_then(|place| place.source.as_ref()).map_or("", Shown::exact);
    let allows = format!("kiln: allow({})", rule.name);
    (!source.contains(&allows)).then(|| Finding {
        rule: rule.name,
        denied: names(&selection.denied, rule),
        program: program.map(|program| program.name.as_str().into()),
        message: found.message.as_str().into(),
        help: found.help.as_deref().unwrap_or(rule.fix).into(),
        place,
    })
}
