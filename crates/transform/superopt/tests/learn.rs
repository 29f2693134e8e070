//! Learning on a small corpus: rules are general, stable, and new only once.

use std::time::Duration;

use kiln_equiv::parse_rules;
use kiln_program::text::parse;
use kiln_superopt::RuleSet;
use kiln_superopt::learn::{Harvest, Learned, Options, RuleFile, harvest, learn, merged};

/// Two programs with shift pairs and stored constants, a product in one of them alone. They are short, so that all their
/// windows are searched to the end whatever the machine.
const PROGRAMS: [&str; 2] = [
    "; program xdp name one
     call ktime_get_ns
     r0 <<= 0x20
     r0 >>= 0x20
     r7 = 0x7
     *(u32 *)(r10 - 0x4) = r7
     exit",
    "; program xdp name two
     call ktime_get_ns
     r6 = r0
     r6 <<= 0x20
     r6 >>= 0x20
     r2 = 0x123
     *(u32 *)(r10 - 0x10) = r2
     r0 = r6
     exit",
];

fn harvested() -> Harvest {
    let mut all = Harvest::default();
    for text in PROGRAMS {
        harvest(&mut all, &parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")), &Default::default());
    }
    all
}

/// Far more time than learning takes.
const ENOUGH: Duration = Duration::from_secs(600);

fn learned(known: &str, jobs: usize) -> Learned {
    let options = Options { budget: ENOUGH, jobs, ..Options::default() };
    learn(harvested(), &parse_rules(known).unwrap(), &options, &mut ())
}

#[test]
fn rules_are_general_stable_and_new_only_once() {
    let first = learned("", 1);
    let text = merged(&RuleFile::default(), &first.rules);
    let has = |lines: &str| text.contains(lines);
    assert!(has("  r1 <<= 0x20\n  r1 >>= 0x20\n=>\n  w1 = w1\n"), "{text}");
    // Constants are placeholders, and so is the base.
    assert!(has("  *(u32 *)(r2 + @o) = w1\n=>\n  r1 = $a\n  *(u32 *)(r2 + @o) = $a\n"), "{text}");
    // Programs are named, files are not.
    assert!(has("# Found in one; 2 programs"), "{text}");

    // The order of threads does not matter. (How many places there are depends on how far the time goes.)
    let rules = |learned: &Learned| learned.rules.iter().map(|one| one.rule.to_string()).collect::<Vec<_>>();
    assert_eq!(rules(&learned("", 2)), rules(&first));

    // What is known is not learned again, and the file stays as it is.
    let file = RuleFile::parse(&text).unwrap();
    let again = learned(&text, 1);
    assert_eq!(merged(&file, &again.rules), text);
    assert!(RuleSet::new(file.rules).is_ok());
}

#[test]
fn no_time_is_no_rules() {
    let options = Options { budget: Duration::ZERO, ..Options::default() };
    let learned = learn(harvested(), &[], &options, &mut ());
    assert!(learned.windows > 0 && learned.rules.is_empty());
}

#[test]
fn files_keep_what_is_theirs() {
    let text = "# A head.\n\n# About b.\nrule b\n  r1 += 0\n=>\n\nrule a   # by hand\n  r1 |= 0\n=>\n";
    let file = RuleFile::parse(text).unwrap();
    assert_eq!(
        merged(&file, &[]),
        "# A head.\n\nrule a   # by hand\n  r1 |= 0\n=>\n\n# About b.\nrule b\n  r1 += 0\n=>\n"
    );
    assert!(RuleFile::parse("rule x\n  r1 += 1\n").unwrap_err().to_string().contains("no `=>`"));
}
