//! Functions as tables: of programs and libraries, and of the kernel. The running kernel may lack what the latter need:
//! `scripts/under-kernel 6.12` runs a test in one that has it.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use kiln_driver::query::budget::{Sample, plan_within};
use kiln_driver::query::live::{self, Nothing, Watch};
use kiln_driver::query::{Limits, Row, Session, Settings, Split, Value, plan};
use kiln_plan::table::{Hook, Moment};

use super::tables::in_every_split;
use super::{may_load, own_thread, run, session};

/// A number of bytes that nothing else in this thread asks for.
const ASKED: usize = 777;

#[test]
fn parameters_and_results_have_columns() {
    let Some(session) = session("SELECT * FROM fn.vfs_read") else { return };
    let names: Vec<String> = session.query().outputs.iter().map(|output| output.name.clone()).collect();
    for name in ["file", "buf", "count", "pos", "ret", "latency_ns", "comm"] {
        assert!(names.iter().any(|own| own == name), "{name}: {names:?}");
    }
    let sql = "SELECT kstack, max(count), min(ret) FROM fn.vfs_read WHERE comm <> 'x' AND ret < 0 GROUP BY kstack";
    let plan =
        plan::plan(&super::session(sql).expect("it has types"), &Settings::default(), None).expect("it has a plan");
    for step in &plan.steps {
        assert_eq!(step.refused, None, "{:?}", step.split);
    }
    let unknown = kiln_driver::query::Session::new("SELECT * FROM fn.vfs_reed").err().expect("there is none");
    assert!(unknown.to_string().contains("the kernel's types have no function `vfs_reed`"), "{unknown}");
}

#[test]
fn calls_of_a_kernel_function_are_rows() {
    if !may_load() {
        return;
    }
    if let Err(why) = Nothing::at(&Hook::Kernel { function: "vfs_read".to_owned(), at: Moment::Return }) {
        return println!("skipped: {why}");
    }
    let bytes = std::cell::RefCell::new([0u8; ASKED]);
    let length = std::fs::read("/proc/version").expect("it is read").len().to_string();
    let work = || {
        let mut bytes = bytes.borrow_mut();
        let mut file = std::fs::File::open("/proc/version").expect("it is there");
        while file.read(&mut *bytes).expect("it is read") > 0 {}
        drop(std::fs::File::open("/").expect("it is there").read(&mut *bytes).expect_err("a directory"));
    };
    let own = own_thread();
    let address = (bytes.as_ptr() as usize).to_string();
    let of = |ret: &str| [&*address, "777", ret, "true"].map(str::to_owned).to_vec();
    let sql = format!("SELECT buf, count, ret, latency_ns > 0 FROM fn.vfs_read WHERE tid = {own} AND count = {ASKED}");
    in_every_split(&sql, &work, &|split, rows| {
        assert_eq!(rows, [of(&length), of("0"), of("-21")], "{split:?}");
    });
    let grouped =
        format!("SELECT count, count(*), min(ret) FROM fn.vfs_read WHERE tid = {own} AND count = {ASKED} GROUP BY 1");
    in_every_split(&grouped, &work, &|split, rows| {
        assert_eq!(rows, [["777", "3", "-21"].map(str::to_owned)], "{split:?}");
    });
}

#[test]
fn calls_of_functions_are_seen() {
    let libraries =
        ["/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/aarch64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6"];
    let Some(library) = libraries.into_iter().find(|library| std::path::Path::new(library).exists()) else { return };
    let has_uprobes = std::path::Path::new("/sys/bus/event_source/devices/uprobe/type").exists();
    if !may_load() || !has_uprobes {
        return;
    }
    // Another process looks an address up.
    let sql = format!("SELECT text0, comm FROM uprobe.'{library}:getaddrinfo' WHERE text0 = '127.0.0.77'");
    let work = || {
        let _ = std::process::Command::new("getent").args(["ahosts", "127.0.0.77"]).output();
    };
    for split in [Some(Split::Mvsf), None] {
        let Some((rows, _)) = run(&sql, split, work) else { return };
        assert!(!rows.is_empty(), "getent calls it");
        assert!(rows.iter().all(|row| row.values == [Value::text("127.0.0.77"), Value::text("getent")]), "{rows:?}");
    }
    // How long it took, and what it returned: an address that is none (EAI_NONAME), and one that is.
    let returned = format!(
        "SELECT text0, ret_int, latency_ns FROM uretprobe.'{library}:getaddrinfo' \
         WHERE comm = 'getent' AND text0 IN ('127.0.0.77', '127.0.0.777.invalid') ORDER BY ret_int"
    );
    let both = || {
        work();
        let _ = std::process::Command::new("getent").args(["ahosts", "127.0.0.777.invalid"]).output();
    };
    for split in [Split::Mvsf, Split::Columns, Split::Filter, Split::Pair] {
        let Some((rows, _)) = run(&returned, Some(split), both) else { return };
        let of = |row: &Row| (row.values[0].to_string(), row.values[1].as_integer().expect("it is a number"));
        let [failed, found] = &rows[..] else { panic!("{split:?}: {rows:?}") };
        assert!(of(failed).0.ends_with("invalid") && of(failed).1 < 0, "{split:?}: {rows:?}");
        assert_eq!(of(found), ("127.0.0.77".to_owned(), 0), "{split:?}");
        let takes = |row: &Row| row.values[2].bits().is_some_and(|ns| (1_000..60_000_000_000).contains(&ns));
        assert!(rows.iter().all(takes), "{split:?}: {rows:?}");
    }
    let seen = session(&sql).expect("it is a query");
    let (_, forecast) = plan_within(&seen, &Settings::default(), None, Some(1.0), Sample::All).expect("it is planned");
    assert_eq!(forecast.map(|forecast| forecast.rates.len()), Some(1), "calls are counted first");
    let missing = Session::new(&format!("SELECT pid FROM uprobe.'{library}:no_such_function'")).expect("it is a query");
    let plan = plan::plan(&missing, &Settings::default(), None).expect("it can be planned");
    let watch = Watch {
        duration: Some(Duration::from_millis(1)),
        stop: &|| false,
        interrupt: Arc::default(),
        limits: Limits::default(),
        measure: false,
        max_overhead: None,
        status: None,
    };
    let error = live::run(&missing, plan, &watch, &mut |_, _| {}, &mut |_| true).expect_err("there is none");
    assert!(error.to_string().contains("no function `no_such_function`"), "{error}");
}
