//! The schemes behind the rules hold for all operands; schemes that lack their conditions do not.

use kiln_equiv::rule::{RuleVerdict, prove_rule};
use kiln_equiv::{Limits, Method, parse_rules};
use kiln_superopt::RuleSet;
use kiln_superopt::rules::data::SHIPPED;

/// What careless rules claim.
const TRAPS: &str = "
# A known miscompilation of a rule-based tool: the zero extension is lost.
rule store-sign
  w1 = $a
  *(u64 *)(r2 + @o) = r1
=>
  *(u64 *)(r2 + @o) = $a
dead r1
distinct r1 r2

# Another: the shifts are of two registers.
rule other-register
  r1 <<= 32
  r2 >>= 32
=>
  w1 = w1
dead r2

rule signed-pair
  r1 <<= 32
  r1 s>>= 32
=>
  w1 = w1

rule narrowed-shift
  r1 >>= 8
  w1 = w1
=>
  w1 >>= 8

rule narrowed-division
  r1 /= r2
  w1 = w1
=>
  w1 /= w2

rule sum-overflows
  r1 += $a
  r1 += $b
=>
  r1 += $($a + $b)

rule copy-still-read
  r1 = r2
  r2 += 1
  r3 = r1
=>
  r2 += 1
  r3 = r2
dead r1
distinct r1 r2 r3

rule bytes-in-the-wrong-order
  w1 = *(u8 *)(r2 + @o)
  w3 = *(u8 *)(r2 + @o + 1)
  r3 <<= 8
  r3 |= r1
=>
  w3 = *(u16 *)(r2 + @o)
  r3 = be16 r3
dead r1
distinct r1 r2 r3
";

fn limits() -> Limits {
    Limits { solver_ms: 5000, tests: 200, ..Limits::default() }
}

/// Every rule of every shipped file, and the page that lists them.
#[test]
fn shipped_rules_hold_for_all_operands() {
    let page = include_str!("../../../../docs/rules.md");
    let mut listed = page.lines().filter_map(|line| line.strip_prefix("| `"));
    for (file, text) in SHIPPED {
        for rule in parse_rules(text).unwrap() {
            let verdict = prove_rule(&rule, &limits());
            let RuleVerdict::Proved { cases, method } = verdict else { panic!("{file}: {}: {verdict}", rule.name) };
            let how = if matches!(method, Method::Smt { .. }) { "solver" } else { "normal form" };
            let row = format!("{}` | {file} | {how} | {cases} |", rule.name);
            let own = listed.next().unwrap_or_default();
            assert!(own.starts_with(&row), "docs/rules.md has `{own}`, not `{row}`: print it again, its end says how");
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
