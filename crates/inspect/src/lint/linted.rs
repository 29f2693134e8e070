//! What rules are, and what they read.

use kiln_program::{Cfg, Function, Node, Object, Program};
use kiln_verifier::Facts;

/// A rule of the lint.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, such as `unchecked-result`: stable.
    pub name: &'static str,
    /// What it finds, in one sentence.
    pub sentence: &'static str,
    /// Why that is doubtful.
    pub why: &'static str,
    /// What to do instead.
    pub fix: &'static str,
    /// A page of the kernel's documentation, or a manual page, about what the rule is about.
    pub about: &'static str,
    /// A program in C that it warns about.
    pub doubtful: &'static str,
    /// The same program, mended.
    pub mended: &'static str,
    pub(super) check: Check,
    pub(super) only: Only,
}

/// Which of its findings a rule keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Only {
    /// All.
    All,
    /// Those that are true in every program that reaches the instruction: functions may be shared.
    InEveryProgram,
    /// Those that are reached with the constants that the object has: what `const volatile bool debug` excludes is not
    /// meant to stay.
    AsCompiled,
}

/// What a rule reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// An accepted program.
    Program(fn(&Linted<'_>) -> Vec<Found>),
    /// The whole object.
    Object(fn(&Object) -> Vec<Found>),
}

/// A doubtful place.
pub(super) struct Found {
    /// The function and the position in it; `None` for what has no place in the code.
    pub(super) at: Option<(usize, usize)>,
    pub(super) message: String,
    /// What to do, where the rule's own advice can be more exact.
    pub(super) help: Option<String>,
}

/// An accepted program, as rules read it.
pub(super) struct Linted<'a> {
    pub(super) object: &'a Object,
    pub(super) facts: &'a Facts,
    /// The entry and what it calls, each with its index in the object and its blocks.
    pub(super) functions: Vec<(usize, &'a Function, Cfg)>,
}

impl<'a> Linted<'a> {
    pub(super) fn new(object: &'a Object, program: &'a Program, facts: &'a Facts) -> Linted<'a> {
        let functions = object.reachable_functions(program.entry).into_iter().map(|id| {
            let function = object.function(id);
            (id.index(), function, Cfg::new(function))
        });
        Linted { object, facts, functions: functions.collect() }
    }

    /// The instructions that some path reaches, with their places.
    pub(super) fn nodes(&self) -> impl Iterator<Item = ((usize, usize), &'a Node)> + '_ {
        let reached = |(_, node): &((usize, usize), &Node)| self.facts.reached(node.id);
        let of_function = |(index, function, _): &(usize, &'a Function, Cfg)| {
            let index = *index;
            function.nodes.iter().enumerate().map(move |(at, node)| ((index, at), node))
        };
        self.functions.iter().flat_map(of_function).filter(reached)
    }
}
