//! The rewrite cache: rules as data, proved offline for all operands, and applied wherever they match.
//!
//! ```text
//!   *.rules       --parse once--> RuleSet --by the last instruction's shape--> matched over dataflow --> Region
//!         ^
//!         +-- kiln learn: what search found, generalized and proved ([`crate::learn`])
//! ```
//!
//! [`matching`] finds where a rule's old window is, whatever stands between its instructions, and proposes the run with
//! the new one. [`crate::windows::region`] then asks for the normal form of the very window it changes, as of any proposal; where
//! that does not settle it, the rule's own proof does, for rules that do not touch memory: there, what else touches it
//! in the same run must be seen too.
//!
//! The default set is the shipped files, [`SHIPPED`]: `schemes.rules` written by hand, `learned.rules` by `kiln learn`.
//! `tests/schemes.rs` proves every rule of both again.

pub(crate) mod gather;
pub mod matching;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use kiln_equiv::rule::{Pattern, shape};
use kiln_equiv::{Rule, RuleError, parse_rules};
use kiln_isa::{Insn, Reg, RegSet};

/// The rule files that come with Kiln, by name.
pub const SHIPPED: [(&str, &str); 2] =
    [("schemes.rules", include_str!("schemes.rules")), ("learned.rules", include_str!("learned.rules"))];

/// A rule ready to be matched.
#[derive(Clone, Debug)]
pub struct DataRule {
    /// The rule.
    pub rule: Rule,
    /// Instructions at the start that both windows share: they stay where they are.
    pub kept: usize,
    /// Whether it touches memory.
    pub memory: bool,
}

/// Rules, found by the shape of the last instruction that they replace.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    rules: Vec<DataRule>,
    by_last: HashMap<Insn, Vec<usize>>,
}

/// Why a rule file is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleSetError {
    /// It does not parse.
    #[error(transparent)]
    Text(#[from] RuleError),
    /// A rule that cannot be applied.
    #[error("rule {name}: {reason}")]
    Rule {
        /// The rule's name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Maximum number of instructions in a rule's window: the cost of matching grows with it.
const LONGEST: usize = 12;
/// Maximum number of rules in a set.
const MOST: usize = 10_000;

impl RuleSet {
    /// The rules that come with Kiln, parsed once.
    pub fn shipped() -> Arc<RuleSet> {
        static SET: LazyLock<Arc<RuleSet>> = LazyLock::new(|| {
            let rules = SHIPPED.iter().flat_map(|(_, text)| parse_rules(text).expect("shipped rules parse"));
            Arc::new(RuleSet::new(rules.collect()).expect("shipped rules can be applied"))
        });
        Arc::clone(&SET)
    }

    /// Rules from text. Nothing is proved here: a text that others wrote must be proved first
    /// ([`kiln_equiv::prove_rule`]).
    ///
    /// # Errors
    /// A [`RuleSetError`] that names the line or the rule.
    pub fn parse(text: &str) -> Result<RuleSet, RuleSetError> {
        RuleSet::new(parse_rules(text)?)
    }

    /// A set of these rules, in this order: where several match, the first is taken.
    ///
    /// # Errors
    /// A [`RuleSetError`] that names the rule.
    pub fn new(rules: Vec<Rule>) -> Result<RuleSet, RuleSetError> {
        let mut set = RuleSet::default();
        for rule in rules {
            let error = |reason| RuleSetError::Rule { name: rule.name.clone(), reason };
            if set.rules.len() >= MOST {
                return Err(error("too many rules"));
            }
            if set.rules.iter().any(|other| other.rule.name == rule.name) {
                return Err(error("there is another rule of this name"));
            }
            let last = fitting(&rule).map_err(error)?;
            set.by_last.entry(last).or_default().push(set.rules.len());
            let kept = rule.before.iter().zip(&rule.after).take_while(|(old, new)| old == new).count();
            let kept = kept.min(rule.before.len() - 1);
            let memory = rule.patterns().any(|pattern| pattern.insn.address().is_some());
            set.rules.push(DataRule { rule, kept, memory });
        }
        Ok(set)
    }

    /// All rules, in order.
    pub fn rules(&self) -> &[DataRule] {
        &self.rules
    }

    /// A rule by its name.
    pub fn rule(&self, name: &str) -> Option<&DataRule> {
        self.rules.iter().find(|data| data.rule.name == name)
    }

    /// Rules whose old window may end with an instruction.
    pub fn ending_with(&self, insn: &Insn) -> impl Iterator<Item = &DataRule> {
        let numbers = shape(insn).and_then(|shape| self.by_last.get(&shape));
        numbers.into_iter().flatten().map(|number| &self.rules[*number])
    }
}

/// The shape of a rule's last instruction, if the rule can be applied.
fn fitting(rule: &Rule) -> Result<Insn, &'static str> {
    let last = &rule.before.last().ok_or("nothing to match")?.insn;
    if rule.before.len() > LONGEST {
        return Err("the old window is too long");
    }
    if rule.after.len() > rule.before.len() {
        return Err("the new window is longer than the old one");
    }
    let branches = |insn: &Insn| matches!(insn, Insn::Branch { .. });
    let early = |patterns: &[Pattern]| patterns.iter().rev().skip(1).any(|pattern| branches(&pattern.insn));
    if early(&rule.before)
        || early(&rule.after)
        || branches(last) != rule.after.last().is_some_and(|pattern| branches(&pattern.insn))
    {
        return Err("a branch may only be the last instruction, of both windows");
    }
    if rule.patterns().any(|pattern| pattern.insn.written() == Some(Reg::R10)) {
        return Err("r10 is read-only");
    }
    let touched = |set: RegSet, Pattern { insn, .. }: &Pattern| {
        set.union(insn.read()).union(insn.written().into_iter().collect())
    };
    let bound = rule.before.iter().fold(RegSet::EMPTY, touched);
    let used = rule.after.iter().fold(RegSet::EMPTY, touched);
    if used.difference(bound).iter().any(|reg| reg != Reg::R10) {
        return Err("the new window names a register that the old one does not");
    }
    shape(last).ok_or("an instruction that rules may not hold")
}
