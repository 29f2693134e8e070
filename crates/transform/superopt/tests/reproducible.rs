//! The same object and options give the same object and evidence: whatever the number of threads, whatever else the
//! machine has to do, in whatever order the parts of an object are done.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kiln_equiv::{Answers, Settled};
use kiln_program::text::{listing, parse};
use kiln_program::{FunctionId, Object};
use kiln_superopt::{Because, Options, Rewrite, optimize};

/// Programs of the filetests in an object.
const PROGRAMS: usize = 6;
/// Objects.
const OBJECTS: usize = 4;

/// Objects of several programs, which are the optimizer's filetests that need no map.
fn objects() -> Vec<Object> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/filetests/superopt");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("filetests").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().filter(|path| path.is_file()).map(|path| std::fs::read_to_string(path).expect("text"));
    let alone = |text: &String| text.matches("; program").count() == 1 && !text.contains("\n; map");
    let texts: Vec<String> = texts.filter(alone).collect();
    let objects = texts.chunks(PROGRAMS).take(OBJECTS).map(|texts| {
        let named = texts.iter().enumerate().map(|(index, text)| {
            let line = text.lines().find(|line| line.starts_with("; program")).expect("it has one");
            text.replace(line, &format!("{line} name program_{index}"))
        });
        let text: String = named.collect();
        parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    });
    objects.collect()
}

/// Time is not to end anything, however slow the machine.
fn options(threads: usize) -> Options {
    Options { budget: Duration::from_secs(3600), threads, ..Options::default() }
}

/// All that must be the same in some functions: not how long it took.
fn written(rewrite: &Rewrite, functions: &BTreeSet<FunctionId>) -> Vec<String> {
    assert!(!rewrite.cut_short);
    let mut text = Vec::new();
    for one in rewrite.evidence.iter().filter(|one| functions.contains(&one.function)) {
        let (name, ids) = (one.because.name(), (&one.before_ids, &one.after_ids));
        let proved_by = match &one.because {
            Because::Law(_) => "",
            Because::Window { proved_by, .. } => proved_by,
        };
        text.push(format!("{name} {proved_by} {:?} {:?} {:?} {ids:?}", one.site, one.before, one.after));
    }
    for id in functions {
        text.push(format!("{:?}", rewrite.object.function(*id).nodes));
    }
    text
}

fn all(object: &Object) -> BTreeSet<FunctionId> {
    (0..object.functions.len() as u32).map(FunctionId).collect()
}

#[test]
fn threads_and_other_work_change_nothing() {
    let (mut objects, over) = (objects(), AtomicBool::new(false));
    assert_eq!(objects.len(), OBJECTS);
    let first: Vec<Rewrite> = objects.iter().map(|object| optimize(object, &options(1), &mut ())).collect();
    let saved = first.iter().zip(&objects).filter(|(rewrite, object)| rewrite.object != **object).count();
    assert_eq!(saved, OBJECTS, "there is something to do in each");
    let same = |object: &Object, rewrite: &Rewrite, again: &Rewrite| {
        assert_eq!(written(again, &all(object)), written(rewrite, &all(object)), "{}", listing(object));
        assert_eq!(again.object, rewrite.object);
        assert_eq!(again.refused, rewrite.refused);
    };
    // In another order, so that a pass which remembers earlier objects is found.
    for (object, rewrite) in objects.iter().zip(&first).rev() {
        same(object, rewrite, &optimize(object, &options(2), &mut ()));
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| while !over.load(Ordering::Relaxed) {});
        }
        for (object, rewrite) in objects.drain(..).zip(&first) {
            same(&object, rewrite, &optimize(&object, &options(4), &mut ()));
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// A program that is long enough for helpers, of blocks with something to do for rules, laws and the solver.
fn long_program() -> Object {
    let block = |index: usize| {
        let (at, next) = (8 * (index % 32 + 1), index + 1);
        format!(
            " r2 = *(u32 *)(r1 + 12)\n r3 = r2\n r3 <<= 32\n r3 >>= 32\n r3 ^= {index}\n r3 &= 255\n \
             *(u64 *)(r10 - {at}) = r3\n r4 = *(u64 *)(r10 - {at})\n r0 += r4\n if r0 > {index} goto L{next}\n \
             r0 += 1\nL{next}:\n"
        )
    };
    let blocks: String = (0..32).map(block).collect();
    parse(&format!("; program xdp name long\n r0 = 0\n{blocks} r0 &= 1\n exit\n")).expect("a program")
}

#[test]
fn helpers_change_nothing() {
    let object = long_program();
    assert!(object.functions[0].nodes.len() >= kiln_equiv::helpers::WORTH_A_HELPER);
    let bounded = |threads| Options { search: 0, ..options(threads) };
    let [alone, helped] = [1, 3].map(|threads| optimize(&object, &bounded(threads), &mut ()));
    assert_ne!(alone.object, object);
    assert_eq!(written(&helped, &all(&object)), written(&alone, &all(&object)));
    assert_eq!(helped.object, alone.object);
    assert_eq!(helped.refused, alone.refused);
}

#[test]
fn a_part_is_what_it_is_alone() {
    for object in objects() {
        let whole = optimize(&object, &options(2), &mut ());
        for program in &object.programs {
            let own: BTreeSet<FunctionId> = object.reachable_functions(program.entry).into_iter().collect();
            let frozen = all(&object).difference(&own).copied().collect();
            let alone = optimize(&object, &Options { frozen, ..options(1) }, &mut ());
            assert_eq!(written(&alone, &own), written(&whole, &own), "{}", program.name);
        }
    }
}

#[test]
fn no_part_takes_the_answers_of_another() {
    const PROGRAM: &str = "
        r0 = *(u32 *)(r1 + 0xc)
        r0 <<= 0x20
        r0 >>= 0x20
        *(u32 *)(r10 - 0x4) = r0
        r0 = *(u32 *)(r10 - 0x4)
        r0 ^= 0x7
        exit";
    let settled = |text: &str| {
        let answers = Arc::new(Answers::default());
        let own = Options { answers: Some(answers.clone()), ..options(1) };
        optimize(&parse(text).expect("a program"), &own, &mut ());
        let settled = answers.take_journal().into_iter().map(|asked| format!("{:?}", asked.settled));
        // Parts take turns, so their questions are not one after the other.
        let mut settled: Vec<String> = settled.collect();
        settled.sort();
        settled
    };
    let one = settled(&format!("; program xdp name one{PROGRAM}"));
    let two = settled(&format!("; program xdp name one{PROGRAM}\n; program xdp name two{PROGRAM}"));
    assert!(one.iter().any(|settled| *settled != format!("{:?}", Settled::Before)));
    let twice: Vec<String> = one.into_iter().flat_map(|settled| [settled.clone(), settled]).collect();
    assert_eq!(two, twice);
}
