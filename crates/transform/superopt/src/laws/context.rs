//! What a law's step is given, what it returns, and what a row of the table of laws says.

use kiln_isa::table::IsaVersion;
use kiln_program::{Function, FunctionId, InsnId, Node, Object};
use kiln_verifier::Facts;
use serde::{Serialize, Serializer};

use crate::cost::Goal;
use crate::flow::calls::Calls;

/// What a step of a law works on: one function.
pub struct Context<'a> {
    /// The object, for new ids and for what the function refers to. A step changes `function`, nothing else in here.
    pub object: &'a mut Object,
    /// Which function.
    pub id: FunctionId,
    /// A copy of the object's function, which takes its place if the step returns changes.
    pub function: &'a mut Function,
    /// What the object's calls read.
    pub calls: &'a Calls,
    /// Facts that are true of the function, where the verifier gave some.
    pub facts: Option<&'a Facts>,
    /// Instructions that may be used.
    pub isa: IsaVersion,
    /// What is to become better.
    pub goal: Goal,
    /// Instructions at which the law must not be used.
    pub banned: &'a dyn Fn(InsnId) -> bool,
    /// The same for another law, by its name, where the step makes changes that other laws justify.
    pub banned_by: &'a dyn Fn(&str, InsnId) -> bool,
    /// Maximum number of changes, for steps that make several.
    pub most: usize,
}

impl<'a> Context<'a> {
    /// The facts.
    ///
    /// # Panics
    /// If there are none: only laws whose row says `needs_facts` may ask.
    pub fn known(&self) -> &'a Facts {
        self.facts.expect("the law's row says that it needs facts")
    }
}

/// What a step did at one place.
#[derive(Clone, Debug)]
pub struct Change {
    /// The first instruction concerned, as it was.
    pub at: InsnId,
    /// The law, where it is not the one whose step this is.
    pub law: Option<&'static str>,
    /// Nodes that went or changed, as they were.
    pub before: Vec<Node>,
    /// What stands there now.
    pub after: Vec<Node>,
}

impl Change {
    /// A change of `before[0]` and maybe more.
    pub fn new(before: Vec<Node>, after: Vec<Node>) -> Change {
        Change::at(before[0].id, before, after)
    }

    /// A change that some instruction was the reason for.
    pub fn at(at: InsnId, before: Vec<Node>, after: Vec<Node>) -> Change {
        Change { at, law: None, before, after }
    }

    /// Says that another law justifies the change than the one whose step made it.
    #[must_use]
    pub fn by(self, law: &'static str) -> Change {
        Change { law: Some(law), ..self }
    }
}

/// A law.
pub struct LawRow {
    /// Its name in evidence, reports and options. Evidence that was written years ago has it: it does not change.
    pub name: &'static str,
    /// What it says.
    pub statement: &'static str,
    /// Whether it is left out where the verifier gave no facts.
    pub needs_facts: bool,
    /// What looks for places to use it, in the order in which it is tried. A law without a step is used by others' steps.
    pub steps: &'static [Step],
}

/// One way to use a law.
pub struct Step {
    /// When it is tried in a round.
    pub stage: Stage,
    /// How often.
    pub times: Times,
    /// Whether it looks at facts, where there are some, though its law does not need them.
    pub uses_facts: bool,
    /// Changes the function and returns how, or leaves it alone and returns nothing.
    pub run: fn(Context<'_>) -> Vec<Change>,
}

impl Step {
    /// The step, which looks at facts where there are some.
    pub const fn using_facts(self) -> Step {
        Step { uses_facts: true, ..self }
    }
}

/// A part of a round. Within it, steps are tried in the order of the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Before windows are rewritten.
    BeforeWindows,
    /// After windows, before diamonds.
    Values,
    /// After diamonds, before the graph is straightened.
    Stores,
    /// All steps of this stage together, until none finds more.
    Graph,
    /// At the end.
    Last,
}

/// How often a step is run in one go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    /// Once: it makes all its changes, or none of them where one is banned.
    Once,
    /// Until it finds nothing, or has made as many changes as it may.
    Repeat,
}

/// Runs a step once.
pub const fn once(stage: Stage, run: fn(Context<'_>) -> Vec<Change>) -> Step {
    Step { stage, times: Times::Once, uses_facts: false, run }
}

/// Runs a step until it finds no more.
pub const fn repeat(stage: Stage, run: fn(Context<'_>) -> Vec<Change>) -> Step {
    Step { stage, times: Times::Repeat, uses_facts: false, run }
}

/// A law, as evidence names it: its rewrites are justified by control flow or liveness, and proved by simulation (but
/// `atomic-update` is trusted without `--evidence`).
#[derive(Clone, Copy)]
pub struct Law(&'static LawRow);

impl Law {
    /// The law of a row.
    pub(crate) const fn of(row: &'static LawRow) -> Law {
        Law(row)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// What it says.
    pub const fn statement(self) -> &'static str {
        self.0.statement
    }
}

impl std::fmt::Debug for Law {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

impl Serialize for Law {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
