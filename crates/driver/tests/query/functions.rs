//! Functions of the kernel as tables. The running kernel may lack what they need: `scripts/under-kernel 6.12` runs a test
//! in one that has it.

use std::io::Read as _;

use kiln_driver::query::live::Nothing;
use kiln_driver::query::{Settings, plan};
use kiln_plan::table::{Hook, Moment};

use super::tables::in_every_split;
use super::{may_load, own_thread, session};

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
