//! Rules that must be proved for all operands, and broken ones that must be refuted.

use kiln_equiv::rule::{Binding, RuleVerdict, prove_rule};
use kiln_equiv::{Limits, Rule, parse_rules};
use kiln_isa::text::parse;

const SOUND: &str = "
rule store-immediate
  w1 = $a
  *(u32 *)(r2 + @o) = w1
=>
  *(u32 *)(r2 + @o) = $a
dead r1
distinct r1 r2

rule store-immediate-64      # the upper half is zero, not a sign
  w1 = $a
  *(u64 *)(r2 + @o) = r1
=>
  *(u64 *)(r2 + @o) = $a
dead r1
distinct r1 r2
where $a s>= 0

rule join-stores
  *(u32 *)(r1 + @o) = $a
  *(u32 *)(r1 + @o + 4) = 0
=>
  *(u64 *)(r1 + @o) = $a
where $a s>= 0

rule mask-twice
  r1 &= $a
  r1 &= $b
=>
  r1 &= $($a & $b)

rule add-twice
  r1 += $a
  r1 += $b
=>
  r1 += $($a + $b)
fits $a + $b

rule zero-extend
  r1 = r2
  r1 <<= 32
  r1 >>= 32
=>
  w1 = w2

rule shift-left-twice
  r1 <<= $a
  r1 <<= $b
=>
  r1 <<= $($a + $b)
where $a + $b < 64
where $a < 64
where $b < 64

rule known-zero-extended
  w1 = w1
=>
where r1 <= 0xffffffff

rule wide-mask
  r2 = $m ll
  r1 &= r2
=>
  w1 &= $m
dead r2
distinct r1 r2
where $m <= 0x7fffffff
";

const BROKEN: &str = "
rule store-sign
  w1 = $a
  *(u64 *)(r2 + @o) = r1
=>
  *(u64 *)(r2 + @o) = $a
dead r1
distinct r1 r2

rule wrong-shift
  r1 <<= 32
  r2 >>= 32
=>
  w1 = w1
dead r2

rule add-overflows
  r1 += $a
  r1 += $b
=>
  r1 += $($a + $b)

rule live-after-all
  w1 = $a
  *(u32 *)(r2 + @o) = w1
=>
  *(u32 *)(r2 + @o) = $a
distinct r1 r2

rule may-be-the-same
  r1 = r2
  r3 = r1
=>
  r3 = r2
  r1 = r3
  r2 += 1
";

fn limits() -> Limits {
    Limits { solver_ms: 5000, tests: 200, ..Limits::default() }
}

#[test]
fn sound_rules_are_proved() {
    for rule in parse_rules(SOUND).unwrap() {
        let verdict = prove_rule(&rule, &limits());
        assert!(matches!(verdict, RuleVerdict::Proved { .. }), "{}: {verdict}", rule.name);
    }
}

#[test]
fn broken_rules_are_refuted() {
    for rule in parse_rules(BROKEN).unwrap() {
        let verdict = prove_rule(&rule, &limits());
        assert!(matches!(verdict, RuleVerdict::Refuted { .. }), "{}: {verdict}", rule.name);
    }
}

#[test]
fn rules_bind_and_instantiate() {
    let rules = parse_rules(SOUND.split("rule join").next().unwrap()).unwrap();
    let rule: &Rule = &rules[0];
    let insns: Vec<_> = ["w7 = -3", "*(u32 *)(r6 - 12) = w7"].into_iter().map(|line| parse(line).unwrap()).collect();
    let binding: Binding = rule.bind(&insns).unwrap();
    assert!(rule.allows(&binding));
    let after = rule.instantiate(&binding).unwrap();
    assert_eq!(after, vec![parse("*(u32 *)(r6 - 12) = -3").unwrap()]);
    // One placeholder, two registers.
    let other: Vec<_> = ["w7 = -3", "*(u32 *)(r6 - 12) = w8"].into_iter().map(|line| parse(line).unwrap()).collect();
    assert_eq!(rule.bind(&other), None);
}

#[test]
fn reserved_numbers_are_refused() {
    assert!(parse_rules("rule x\n  r1 += 1260257280\n=>\n  r1 += 1260257280\n").is_err());
    assert!(parse_rules("rule x\n  r1 = $a\n=>\n  r1 = $b\n").is_err());
}
