//! Tables: their smallest splits are accepted for every kernel that has them, and what a kernel lacks is named.

use kiln_driver::Error;
use kiln_driver::kernels::Kernel;
use kiln_driver::query::plan;
use kiln_driver::tables::{CheckedTable, CheckedTables, check};
use kiln_driver::target::{Choice, Types};
use kiln_plan::expr::Expr;
use kiln_plan::generate::layout;
use kiln_plan::query::{Output, Shape};
use kiln_plan::table::{Read, Scalar, Source};
use kiln_plan::{DataType, Origin, Query, Settings, Split, generate, tables};

/// What all tables together may take.
const LIMIT_MS: u64 = 2000;

/// The tables on these kernels, with the running kernel's types.
fn checked(kernels: &[Kernel], name: Option<&str>, with_kernel: bool) -> Option<Vec<CheckedTables>> {
    let choice = Choice { kernels: kernels.to_vec(), ..Choice::default() };
    match check(name, &choice, &Types::Running, with_kernel) {
        Ok(checked) => Some(checked),
        Err(Error::Unsupported(why)) => {
            println!("skipped: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn table<'a>(kernel: &'a CheckedTables, name: &str) -> &'a CheckedTable {
    kernel.tables.iter().find(|table| table.table == *name).expect("a table")
}

#[test]
fn every_release_has_its_tables_and_the_others_are_named() {
    let Some(kernels) = checked(&[Kernel::All], None, false) else { return };
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.kernel.to_string()).collect();
    assert_eq!(names, ["5.15", "6.1", "6.6", "6.12", "6.18"]);
    for kernel in &kernels {
        for table in &kernel.tables {
            assert_eq!(table.refused, None, "{} on {}", table.table, kernel.kernel);
            // Hooks without and with stacks.
            let programs = table.programs.len();
            assert!(table.lacks.is_some() == (programs == 0) && programs % 2 == 0, "{table:?} on {}", kernel.kernel);
            assert!(table.programs.iter().all(|program| program.processed > 0), "{table:?}");
        }
    }
    let [oldest, second] = [&kernels[0], &kernels[1]];
    let why = table(oldest, "lock_contention").lacks.as_ref().expect("5.15 lacks it").exact();
    assert!(why.contains("`contention_begin`") && why.contains("it is in Linux 5.19 and later"), "{why}");
    let drops = &table(oldest, "packet_drops").columns;
    assert!(drops.len() == 1 && drops[0].name == *"reason", "{drops:?}");
    assert!(drops[0].lacks.exact().ends_with("it is in Linux 5.17 and later"), "{drops:?}");
    assert_eq!(table(oldest, "sched_switches").columns.len(), 1);
    assert!(second.tables.iter().all(|table| table.lacks.is_none() && table.columns.is_empty()), "{second:?}");
    assert_eq!(oldest.there() + 1, second.there());
}

#[test]
fn the_running_kernel_takes_all_tables_in_two_seconds() {
    let loads = kiln_driver::require_kernel().map_err(|why| println!("skipped: {why}")).is_ok();
    let time_ms = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        (time.tv_sec * 1000 + time.tv_nsec / 1_000_000) as u64
    };
    let begun = time_ms();
    let Some(kernels) = checked(&[Kernel::Running], None, loads) else { return };
    let own_ms = time_ms() - begun;
    let kernel = &kernels[0];
    let (micros, kernel_micros) = (kernel.micros, kernel.kernel_micros.unwrap_or_default());
    println!(
        "{} tables: {micros} us for Kiln, {kernel_micros} us for the kernel, {own_ms} ms of one processor",
        kernel.there()
    );
    assert!(kernel.all_accepted(), "{kernel:?}");
    assert!(kernel.there() >= 10, "{kernel:?}");
    assert!(kernel.tables.iter().all(|table| table.lacks.as_ref().is_none_or(|why| why.exact().contains('`'))));
    // Other tests run beside this one, so this is the time of its own thread.
    assert!(own_ms < LIMIT_MS, "{own_ms} ms");
}

#[test]
fn one_table_can_be_checked() {
    let Some(kernels) = checked(&[], Some("tracepoint.sched.sched_switch"), false) else { return };
    assert!(kernels.len() == 1 && kernels[0].kernel == *"running" && kernels[0].all_accepted(), "{kernels:?}");
    let choice = Choice::default();
    let error = check(Some("lock_contentoin"), &choice, &Types::Running, false).expect_err("no such table");
    assert!(error.to_string().contains("there is no table `lock_contentoin`"), "{error}");
}

#[test]
fn columns_of_missing_arguments_are_left_out() {
    let Some(types) = kiln_driver::input::running_kernel_types() else { return println!("skipped: no kernel types") };
    let mut table = tables::named("sched_switches", None).expect("a table");
    let state = table.column("prev_state").expect("a column");
    // No release has so many.
    let Source::Read { what, .. } = &mut table.columns[state].source else { panic!() };
    *what = Read::Argument { index: 9, path: Vec::new(), kind: Scalar::unsigned(4) };
    let missing = layout::missing(&table, &types);
    let [(column, why)] = &missing[..] else { panic!("{missing:?}") };
    assert_eq!(*column, state);
    assert!(why.starts_with("argument 9 of the tracepoint `sched_switch`, which this kernel does not have"), "{why}");
    let generated = plan::mvsf(&table, &types, false).expect("it reads the other columns");
    let read: Vec<Option<usize>> = generated.records[0].slots.iter().map(|slot| slot.column).collect();
    assert!(!read.contains(&Some(state)) && read.contains(&table.column("preempt")), "{read:?}");
    // A query that needs it is told.
    let output = Output { name: "prev_state".to_owned(), expr: Expr::Column(state), data_type: DataType::Uint };
    let query = Query::new(table, Shape::Rows, vec![output]);
    let failure = generate(&query, Split::Mvsf, Origin::Hooks(&types), &Settings::default()).expect_err("it lacks it");
    assert!(failure.to_string().starts_with("column `prev_state` needs argument 9"), "{failure}");
}
