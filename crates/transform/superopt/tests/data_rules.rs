//! Rules as data, matched over dataflow: each example is rewritten by data alone, without the rules in code.

use std::sync::Arc;

use kiln_equiv::concrete::Random;
use kiln_equiv::rule::Binding;
use kiln_equiv::{Tester, Window};
use kiln_isa::{Insn, Reg, RegSet};
use kiln_program::Object;
use kiln_program::text::{listing, parse};
use kiln_superopt::rules::RULES;
use kiln_superopt::rules::data::DataRule;
use kiln_superopt::{Options, RuleSet, optimize};
use kiln_verifier::StackSet;

const RULES_HERE: &str = "
rule zero-extended-copy
  r1 = r2
  r1 <<= 32
  r1 >>= 32
=>
  w1 = w2

rule stored-constant
  r1 = $a
  *(u32 *)(r2 + @o) = w1
=>
  r1 = $a
  *(u32 *)(r2 + @o) = $a
distinct r1 r2

rule byte
  r1 &= 0xff
=>
where r1 <= 0xff

rule lower-half
  w1 = w1
=>
narrow r1

rule compared-difference
  r1 += $a
  if r1 == $b goto out
=>
  if r1 == $($b - $a) goto out
dead r1
fits $b - $a

rule products
  r1 *= $a
  r1 *= $b
=>
  r1 *= $($a * $b)
fits $a * $b
";

fn optimized(body: &str) -> (Vec<String>, Vec<String>) {
    let object = parse(&format!("; program xdp\n{body}")).unwrap_or_else(|error| panic!("{error}\n{body}"));
    let options = Options {
        rules: Arc::new(RuleSet::parse(RULES_HERE).unwrap()),
        // Registers stay what they are, so that a rule's use shows.
        without: RULES
            .iter()
            .map(|rule| rule.name)
            .chain(["shared-register", "exchanged-operands"])
            .map(str::to_owned)
            .collect(),
        search: 0,
        ..Options::default()
    };
    let rewrite = optimize(&object, &options, &mut ());
    assert!(rewrite.skipped.is_empty(), "not verified: {:?}", rewrite.skipped);
    let text = listing(&rewrite.object);
    let code = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(';'));
    let used = rewrite.evidence.iter().map(|one| one.because.name().to_owned()).collect();
    (code.map(str::to_owned).collect(), used)
}

#[track_caller]
fn becomes(body: &str, expected: &str, rule: &str) {
    let (lines, used) = optimized(body);
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, expected);
    assert!(used.iter().any(|name| name == rule), "{used:?}");
}

/// No rule as data is applied.
#[track_caller]
fn stays(body: &str) {
    let (lines, used) = optimized(body);
    let ours = used.iter().find(|name| RULES_HERE.contains(&format!("rule {name}\n")));
    assert_eq!(ours, None, "{lines:#?}");
}

#[test]
fn other_instructions_may_stand_between() {
    becomes(
        "r6 = *(u32 *)(r1 + 0xc)
         r6 += 0x5
         r7 = r6
         r6 += 0x1
         r7 <<= 0x20
         r8 = *(u32 *)(r1 + 0x10)
         r7 >>= 0x20
         r0 = r7
         r0 += r6
         r0 += r8
         exit",
        "w6 = *(u32 *)(r1 + 0xc)
         r6 += 0x5
         w7 = w6
         r6 += 0x1
         w8 = *(u32 *)(r1 + 0x10)
         r0 = r7
         r0 += r6
         r0 += r8
         exit",
        "zero-extended-copy",
    );
}

#[test]
fn what_reads_between_keeps_it() {
    // The unshifted copy is read, or shifted by another register's twin.
    stays(
        "r6 = *(u32 *)(r1 + 0xc)
         r7 = r6
         r7 <<= 0x20
         r8 = r7
         r7 >>= 0x20
         r0 = r7
         r0 += r8
         exit",
    );
    stays(
        "r6 = *(u32 *)(r1 + 0xc)
         r7 = r6
         r8 = r6
         r7 <<= 0x20
         r8 >>= 0x20
         r0 = r7
         r0 += r8
         exit",
    );
}

#[test]
fn constants_of_the_facts_bind() {
    // Whichever way it came, r2 is 7: no instruction of this block says so.
    let (lines, used) = optimized(
        "r2 = 0x7
         r3 = *(u32 *)(r1 + 0xc)
         if r3 == 0x0 goto L1
         *(u32 *)(r10 - 0x4) = w2
         r4 = *(u8 *)(r10 - 0x4)
         r4 += r3
         r0 = r4
         exit
       L1:
         r0 = r2
         exit",
    );
    assert!(used.iter().any(|name| name == "stored-constant"), "{used:?} {lines:#?}");
    assert!(lines.iter().any(|line| line == "*(u32 *)(r10 - 0x4) = 0x7"), "{lines:#?}");
}

#[test]
fn conditions_on_values_follow_from_facts() {
    let masked = |size: &str| {
        format!(
            "r6 = *(u32 *)(r1 + 0xc)
             *(u64 *)(r10 - 0x8) = r6
             r0 = *({size} *)(r10 - 0x8)
             r6 += 0x1
             r0 &= 0xff
             r0 += r6
             exit"
        )
    };
    let (_, used) = optimized(&masked("u8"));
    assert!(used.iter().any(|name| name == "byte"), "{used:?}");
    stays(&masked("u16"));
}

#[test]
fn narrow_results_need_narrow_readers() {
    let with = |reader: &str| {
        format!(
            "r6 = *(u32 *)(r1 + 0xc)
             r6 += 0x5
             w6 = w6
             *({reader} *)(r10 - 0x8) = r6
             r0 = *({reader} *)(r10 - 0x8)
             exit"
        )
    };
    let (_, used) = optimized(&with("u32"));
    assert!(used.iter().any(|name| name == "lower-half"), "{used:?}");
    stays(&with("u64"));
}

#[test]
fn a_branch_takes_in_what_was_added() {
    becomes(
        "w6 = *(u32 *)(r1 + 0xc)
         r6 += -0x7
         w0 = 0x2
         if r6 == 0x1 goto L1
         w0 = 0x1
       L1:
         exit",
        "w6 = *(u32 *)(r1 + 0xc)
         w0 = 0x2
         if r6 == 0x8 goto L1
         w0 = 0x1
       L1:
         exit",
        "compared-difference",
    );
    // The sum is read afterwards.
    stays(
        "w6 = *(u32 *)(r1 + 0xc)
         r6 += -0x7
         w0 = 0x2
         if r6 == 0x1 goto L1
         r0 = r6
       L1:
         exit",
    );
}

#[test]
fn immediates_that_do_not_fit_are_no_match() {
    let times = |factor: &str| {
        format!(
            "w0 = *(u32 *)(r1 + 0xc)
             r0 *= 0x10000
             r0 *= {factor}
             exit"
        )
    };
    becomes(&times("0x10"), "w0 = *(u32 *)(r1 + 0xc)\n r0 *= 0x100000\n exit", "products");
    stays(&times("0x10000"));
}

#[test]
fn broken_rule_files_are_refused() {
    let refused = |text: &str| RuleSet::parse(text).unwrap_err().to_string();
    assert!(refused("rule x\n  r1 += $a\n=>\n  r1 += $a\n  r1 += 0\n").contains("longer"));
    assert!(refused("rule x\n=>\n").contains("nothing to match"));
    assert!(refused("rule x\n  r1 += 1\n=>\n  r2 += 1\n").contains("names a register"));
    assert!(refused("rule x\n  r1 += 1\n=>\nrule x\n  r1 += 2\n=>\n").contains("another rule"));
    assert!(refused("rule x\n  if r1 == 1 goto out\n  r1 += 1\n=>\n  r1 += 1\n").contains("branch"));
    assert!(refused("rule x\n  r10 += 1\n=>\n").contains("r10"));
    assert!(refused("r1 += 1\n").contains("line 1"));
}

/// Straight code: the old window of a rule with random operands, other instructions strewn in, and readers of some
/// registers at the end.
fn random_body(random: &mut Random, rules: &[&DataRule]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (index, reg) in [0, 2, 3, 4, 5, 7, 8, 9].into_iter().enumerate() {
        let at = 0xc + 4 * random.below(2);
        let load = if index % 2 == 0 {
            format!("r{reg} = *(u8 *)(r10 - {})", 1 + random.below(8))
        } else {
            format!("r{reg} = *(u32 *)(r1 + {at})")
        };
        lines.push(load);
    }
    lines.insert(0, "*(u64 *)(r10 - 0x8) = r6".to_owned());
    lines.insert(0, "r6 = *(u32 *)(r1 + 0xc)".to_owned());
    let scalars = [0, 2, 3, 4, 5, 7, 8, 9];
    let any = |random: &mut Random| scalars[random.below(8) as usize];
    for _ in 0..3 {
        let data = rules[random.below(rules.len() as u64) as usize];
        let mut binding = Binding::default();
        for reg in data.rule.registers().iter() {
            binding.registers[reg.index()] = Reg::new(any(random));
        }
        for place in &mut binding.immediates {
            *place =
                Some(i64::from(if random.below(2) == 0 { random.below(64) as i32 } else { random.corner() as i32 }));
        }
        let Some(insns) = data.rule.instantiate_before(&binding) else { continue };
        for insn in insns {
            let noise = [
                format!("r{} += r{}", any(random), any(random)),
                format!("w{} ^= {}", any(random), random.below(100)),
                format!("r{} = r{}", any(random), any(random)),
            ];
            lines.extend(noise.into_iter().take(random.below(3) as usize));
            lines.push(insn.to_string());
        }
    }
    lines.push("r0 += 1".to_owned());
    for reg in [2, 3, 4, 5, 7, 8, 9] {
        match random.below(3) {
            0 => {}
            1 => lines.extend(["r0 *= 0x1f".to_owned(), format!("r0 += r{reg}")]),
            _ => lines.push(format!("w0 ^= w{reg}")),
        }
    }
    lines.push("exit".to_owned());
    lines.join("\n")
}

/// What the rules make of random code does what it did, on concrete inputs.
#[test]
fn shipped_rules_on_random_code() {
    let mut random = Random::new(7);
    let set = RuleSet::shipped();
    // Shifts by more than the width are refused by verifiers, and branches and memory do not fit the harness.
    let straight = |data: &&DataRule| {
        !data.memory && !data.rule.before.iter().any(|pattern| matches!(pattern.insn, Insn::Branch { .. }))
    };
    let rules: Vec<&DataRule> = set.rules().iter().filter(straight).collect();
    let mut used = 0;
    for _ in 0..400 {
        let body = random_body(&mut random, &rules);
        let object = parse(&format!("; program xdp\n{body}")).unwrap_or_else(|error| panic!("{error}\n{body}"));
        let options = Options {
            without: RULES.iter().map(|rule| rule.name.to_owned()).collect(),
            search: 0,
            ..Options::default()
        };
        let rewrite = optimize(&object, &options, &mut ());
        used += rewrite.evidence.iter().filter(|one| set.rule(one.because.name()).is_some()).count();
        let code = |object: &Object| {
            let nodes = &object.functions[0].nodes;
            nodes[..nodes.len() - 1].to_vec()
        };
        let (old, new) = (code(&object), code(&rewrite.object));
        let window = Window {
            before: &old,
            after: &new,
            facts: None,
            live_after: RegSet::of(&[Reg::R0]),
            stack_live_after: StackSet::EMPTY,
            exits: &[],
            object: &object,
        };
        let mut tester = Tester::new(&window, 32).expect("plain code");
        assert!(tester.matches(&new), "{body}\n\n{}\n{:#?}", listing(&rewrite.object), rewrite.evidence);
    }
    assert!(used > 50, "{used}");
}
