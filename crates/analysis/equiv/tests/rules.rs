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
    Limits { solver_steps: 12_500_000, tests: 200, ..Limits::default() }
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
fn placeholders_are_whole_fields() {
    for line in [
        "r1 = -$a",
        "r1 = 1$a",
        "r$a = 1",
        "r$a += $b",
        "r1 += $a + $a",
        "r1 = *(u32 *)(r2 + $a)",
        "r1 += @o",
        "*(u32 *)(r2 - @o) = 1",
        "*(u$a *)(r2 + 0) = 1",
        "r1 = $($a + 1)",
        "call $a",
        "r1 = r$a",
    ] {
        assert!(parse_rules(&format!("rule x\n  {line}\n=>\n  r1 = r1\n")).is_err(), "{line}");
    }
    assert!(parse_rules("rule x\n  r1 = $a\n=>\n  r1 = $b\n").is_err());
}

/// Any number may be a literal: none is taken for a placeholder.
#[test]
fn literals_bind_only_themselves() {
    let rules = parse_rules("rule x\n  r1 += 1260257280\n  r1 += $a\n=>\n  r1 += $(1260257280 + $a)\n").unwrap();
    let insns = |first: &str| [parse(first).unwrap(), parse("r1 += 1").unwrap()];
    let binding = rules[0].bind(&insns("r1 += 1260257280")).unwrap();
    assert_eq!(binding.immediates[0], Some(1));
    assert_eq!(rules[0].instantiate(&binding).unwrap(), vec![parse("r1 += 1260257281").unwrap()]);
    assert_eq!(rules[0].bind(&insns("r1 += 5")), None);
}

#[test]
fn rules_are_printed_as_they_are_read() {
    let more = "
rule branch
  r1 += $a
  if r1 == $b goto out
=>
  if r1 == $($b - $a) goto out
dead r1
fits $b - $a

rule narrow
  r1 += $a
  w1 = w1
=>
  r1 += $a
narrow r1
where $a != -1
where r1 <= 0xff
";
    for rule in parse_rules(SOUND).unwrap().into_iter().chain(parse_rules(more).unwrap()) {
        let again = parse_rules(&rule.to_string()).unwrap_or_else(|error| panic!("{error}:\n{rule}"));
        assert_eq!(again, [rule]);
    }
}

const MORE: &str = "
rule compared-difference
  r1 += $a
  if r1 == $b goto out
=>
  if r1 == $($b - $a) goto out
dead r1
fits $b - $a

rule defined
  r1 <<= $a
  r1 &= $b
=>
  r1 <<= $a
where $b == -1 << $a
where $a < 32

rule lower-half
  r1 += $a
  w1 = w1
=>
  r1 += $a
narrow r1

rule byte
  r1 &= 0xff
=>
where r1 <= 0xff
";

#[test]
fn branches_definitions_and_narrow_results() {
    for rule in parse_rules(MORE).unwrap() {
        let verdict = prove_rule(&rule, &limits());
        assert!(matches!(verdict, RuleVerdict::Proved { .. }), "{}: {verdict}", rule.name);
        assert!(!kiln_equiv::rule::rule_queries(&rule).unwrap().is_empty());
    }
    for broken in ["narrow r1", "where r1 <= 0xff"] {
        let weaker = parse_rules(&MORE.replace(broken, "")).unwrap();
        let refuted = |rule| matches!(prove_rule(rule, &limits()), RuleVerdict::Refuted { .. });
        assert_eq!(weaker.iter().filter(|rule| refuted(rule)).count(), 1, "without {broken}");
    }
}

#[test]
// long: the pieces of rules are a list
fn hostile_text_is_refused_or_read() {
    let deep =
        |open: &str| format!("rule x\n  r1 += $a\n=>\n  r1 += $({}$a{})\n", open.repeat(50_000), ")".repeat(50_000));
    for open in ["(", "-", "~", "-("] {
        assert!(parse_rules(&deep(open)).is_err());
    }
    let long = format!("rule x\n  r1 += $a\n=>\n  r1 += $($a{})\n", " + 1".repeat(50_000));
    assert!(parse_rules(&long).unwrap_err().to_string().contains("too long"));

    // Pieces of rules in any order: read or refused, proved or not, but never a panic.
    let pieces = [
        "rule",
        "rule x",
        "r1",
        "r2",
        "r10",
        "w1",
        "=",
        "+=",
        "<<=",
        "&=",
        "$a",
        "$b",
        "$",
        "@o",
        "@o + 4",
        "@o + 999",
        "$(",
        ")",
        "(",
        "$a + $b",
        "-1",
        "0x4b1e0000",
        "99999999999999999999",
        "ll",
        "*(u32 *)(",
        "*(u64 *)(r2 + @o)",
        "=>",
        "dead",
        "narrow",
        "distinct",
        "where",
        "fits",
        "==",
        "<",
        "s>=",
        "if r1 == $a",
        "goto out",
        "goto",
        "#",
        "be16",
        "r77",
        "\u{e9}",
        "~",
        "exit",
        "call 1",
    ];
    let mut random = kiln_equiv::concrete::Random::new(11);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut text = String::from("rule x\n  r1 += $a\n");
        for _ in 0..random.below(14) {
            text.push_str(pieces[random.below(pieces.len() as u64) as usize]);
            text.push_str(["\n", " ", "\n=>\n", "\nwhere "][random.below(4) as usize]);
        }
        if let Ok(rules) = parse_rules(&text) {
            read += 1;
            for rule in &rules {
                let _ = rule.to_string();
                if read % 50 == 0 {
                    let _ = prove_rule(rule, &Limits { solver_steps: 25_000, tests: 8, ..Limits::default() });
                }
            }
        }
    }
    assert!(read > 100, "{read}");
}

#[test]
fn too_many_cases_are_not_gone_through() {
    let sums: String = (2..9).map(|reg| format!("  r1 += r{reg}\n")).collect();
    let text = format!("rule x\n{sums}  r1 <<= $a\n=>\n{sums}  r1 <<= $a\nwhere $a < 64\n");
    let verdict = prove_rule(&parse_rules(&text).unwrap()[0], &limits());
    assert!(matches!(verdict, RuleVerdict::Unknown(_)), "{verdict}");
}
