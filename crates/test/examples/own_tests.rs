//! Compares Kiln with a kernel on that kernel's own tests, after `scripts/other-kernel 7.3 --own` asked it.
//!
//! ```text
//!   KILN_CORPUS_DIR=target/kernels/7.3/own cargo run -p kiln-test --example own_tests -- 7.3
//!
//!   only kernel  iters.o:iter_tricky reject wrong-argument-type | accept | the author: must load
//!   | kernel | objects | ...
//! ```
//!
//! Prints every program on which they differ, those that were not asked where Kiln and the author differ, and Kiln's
//! verdicts on what authors say must load, and must not. Writes the row into `docs/measurements/agreement.md`.

use std::path::Path;

use kiln_test::agreement::recorded::OtherKernel;
use kiln_test::agreement::{Column, Compared, Says, own, report};
use kiln_test::corpus;
use kiln_test::verdicts::Verdicts;

fn print(one: &Compared) {
    let author = one.expected.as_ref().map_or("", |expected| if expected.success { "must load" } else { "must not" });
    let accepted = one.kiln == Says::Accept;
    let differs = one.expected.as_ref().is_some_and(|expected| expected.success != accepted);
    let shown = match one.column() {
        Column::BothAccept | Column::BothReject => false,
        Column::NotAsked => differs,
        _ => true,
    };
    if shown {
        println!("{}\t{}\t{:?}\t{:?}\t{author}", one.column().name(), one.name, one.kiln, one.kernel);
    }
}

fn main() {
    let series = std::env::args().nth(1).expect("own_tests SERIES [gcc]");
    let with_gcc = std::env::args().nth(2).is_some_and(|word| word == "gcc");
    let kernel = OtherKernel::of_own_tests(&series, with_gcc).expect("scripts/other-kernel SERIES --own was run");
    let own = own::compare(&corpus::objects(), &kernel);
    own.compared.iter().for_each(print);
    own.unreadable.iter().for_each(|why| println!("unreadable\t{why}"));
    for must_load in [true, false] {
        let of = |one: &&Compared| one.expected.as_ref().is_some_and(|expected| expected.success == must_load);
        let count = |says: fn(&Says) -> bool| own.compared.iter().filter(of).filter(|one| says(&one.kiln)).count();
        let [all, accepted] = [count(|_| true), count(|says| *says == Says::Accept)];
        let unsupported = count(|says| matches!(says, Says::Nothing(_)));
        let author = if must_load { "must load" } else { "must not" };
        println!("{author} by its author\t{all} programs, {accepted} accepted, {unsupported} unsupported");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let verdicts = Verdicts::read(&root.join("tests/verdicts.toml")).expect("tests/verdicts.toml");
    let compiler = if with_gcc { own::GCC } else { "" };
    let (series, row) = (series + compiler, own.row(&(kernel.release + compiler)));
    let path = root.join("docs/measurements/agreement.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let section = report::section(&page, own::HEADING);
    let written = own::put(section, &series, &row, &own.differences(&series, &verdicts));
    std::fs::write(&path, report::with_section(&page, own::HEADING, &written)).expect("the page can be written");
    println!("{row}");
}
