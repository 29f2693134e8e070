//! The schemes behind the rules hold for all operands; schemes that lack their conditions do not.

use kiln_equiv::rule::{RuleVerdict, prove_rule};
use kiln_equiv::{Limits, Method, parse_rules};
use kiln_superopt::RuleSet;
use kiln_superopt::rules::data::SHIPPED;

/// What careless rules claim.
const TRAPS: &str = include_str!("../src/rules/data/traps.rules");

fn limits() -> Limits {
    Limits { solver_steps: 12_500_000, tests: 200, ..Limits::default() }
}

/// Every rule of every shipped file, and the page that lists them.
#[test]
fn shipped_rules_hold_for_all_operands() {
    let page = include_str!("../../../../docs/reference/rules.md");
    let mut listed = page.lines().filter_map(|line| line.strip_prefix("| `"));
    for (file, text) in SHIPPED {
        for rule in parse_rules(text).unwrap() {
            let verdict = prove_rule(&rule, &limits());
            let RuleVerdict::Proved { cases, method } = verdict else { panic!("{file}: {}: {verdict}", rule.name) };
            let how = if matches!(method, Method::Smt { .. }) { "solver" } else { "normal form" };
            let row = format!("{}` | {file} | {how} | {cases} |", rule.name);
            let own = listed.next().unwrap_or_default();
            assert!(
                own.starts_with(&row),
                "docs/reference/rules.md has `{own}`, not `{row}`: print it again, its end says how"
            );
        }
    }
    assert_eq!(listed.next(), None);
    assert!(RuleSet::shipped().rules().len() >= 17);
}

#[test]
fn traps_are_refuted() {
    for rule in parse_rules(TRAPS).unwrap() {
        let verdict = prove_rule(&rule, &limits());
        assert!(matches!(verdict, RuleVerdict::Refuted { .. }), "{}: {verdict}", rule.name);
    }
}
