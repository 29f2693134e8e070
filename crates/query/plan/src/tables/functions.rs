//! Tables of calls: of a function of a program or library, and of a function of the kernel.

use kiln_program::btf::{Btf, Kind, TypeId};

use super::build::{argument, column, derived, pair, single, with_stacks};
use super::scalar;
use crate::table::{Column, Hook, Moment, Read, Scan, Side, Source, Table};
use crate::value::DataType;

/// What the names of tables of a file's functions begin with.
pub(super) const FILE: &str = "uprobe.";
/// What the names of tables of a file's functions begin with whose rows are whole calls.
pub(super) const RETURNS: &str = "uretprobe.";
/// What the names of tables of the kernel's functions begin with.
pub(super) const KERNEL: &str = "fn.";

/// The table of the calls of a function of a file, `FILE:FUNCTION`, when they begin.
pub(super) fn of_file(target: &str) -> Option<Table> {
    let hook = hook_of(target, Moment::Call)?;
    let table =
        single(&format!("{FILE}{target}"), "a function of a program or library is called", hook, passed(Side::Exit));
    Some(with_stacks(table))
}

/// The table of the calls of a function of a file, `FILE:FUNCTION`, when they return.
pub(super) fn returns_of_file(target: &str) -> Option<Table> {
    let scan = Scan::Pair {
        enter: hook_of(target, Moment::Call)?,
        exit: hook_of(target, Moment::Return)?,
        keys: [Read::Tid, Read::Tid],
        counts: [None, None],
        // A function that calls itself begins again: the inner call is the row.
        endless: true,
    };
    let mut own = passed(Side::Enter);
    own.push(column("ret", DataType::Int, Side::Exit, register("ax"), "what it returns, if that has 64 bits"));
    let about = "a function of a program or library was called and returned; of calls inside each other, the innermost";
    let mut table = pair(&format!("{RETURNS}{target}"), about, scan, "latency_ns", own);
    let result = table.column("ret")?;
    table.columns.push(derived("ret_int", DataType::Int, Source::Int(result), "what it returns, if that is an `int`"));
    Some(with_stacks(table))
}

/// A function of a file: `FILE:FUNCTION`.
fn hook_of(target: &str, at: Moment) -> Option<Hook> {
    let (file, function) = target.rsplit_once(':').filter(|(file, name)| file.starts_with('/') && !name.is_empty())?;
    Some(Hook::Function { file: file.to_owned(), function: function.to_owned(), at })
}

/// A register of a program where a probe stops it.
fn register(name: &str) -> Read {
    Read::Field { structure: "pt_regs".to_owned(), name: name.to_owned() }
}

/// What a function is given, which is known where it begins.
fn passed(at: Side) -> Vec<Column> {
    let argument = |(index, name): (usize, &str)| {
        let about = format!("argument {index}, if it is an integer or an address");
        column(&format!("arg{index}"), DataType::Uint, at, register(name), &about)
    };
    let mut own: Vec<Column> = ["di", "si", "dx", "cx", "r8", "r9"].into_iter().enumerate().map(argument).collect();
    let text = Read::UserText(Box::new(register("di")));
    own.push(column("text0", DataType::Text, at, text, "argument 0 as text; empty if it is no address of text"));
    own
}

/// The table of the calls of a function of the kernel, with its parameters and its result, as the kernel's types name
/// them. `None` if they have no such function, or one with a number of arguments that varies.
pub(super) fn of_kernel(function: &str, types: &Btf) -> Option<Table> {
    let id = types.find(function, |kind| matches!(kind, Kind::Function { .. }))?;
    let Kind::Function { prototype, .. } = *types.kind(id) else { return None };
    let Kind::Prototype { result, .. } = *types.kind(types.resolve(prototype)?) else { return None };
    let mut own: Vec<Column> = Vec::new();
    let mut place = 0;
    for parameter in types.parameters(prototype) {
        let bytes = types.size_of(types.resolve(parameter.type_id)?)?;
        let name = types.text(parameter.name);
        if !name.is_empty() {
            own.extend(number(&column_of(name, function), parameter.type_id, place, Side::Both, "a parameter", types));
        }
        // A structure takes as many places as it has eight bytes.
        place = place.checked_add(u8::try_from(bytes.div_ceil(8)).ok()?)?;
    }
    own.extend(number("ret", result, place, Side::Exit, "what it returns", types));
    let hook = |at: Moment| Hook::Kernel { function: function.to_owned(), at };
    let scan = Scan::Pair {
        enter: hook(Moment::Call),
        exit: hook(Moment::Return),
        // Each processor has an idle thread of its own, and all of these have the number 0.
        keys: [Read::Task, Read::Task],
        counts: [None, None],
        // A function that calls itself begins again: the inner call is the row.
        endless: true,
    };
    let about = "a function of the kernel was called and returned; of calls inside each other, the innermost";
    let table = pair(&format!("{KERNEL}{function}"), about, scan, "latency_ns", own);
    Some(with_stacks(table))
}

/// The column of a parameter or a result that is a number or an address.
fn number(name: &str, id: TypeId, place: u8, at: Side, what: &str, types: &Btf) -> Option<Column> {
    let kind = scalar(types, id)?;
    let is_address = matches!(types.kind(types.resolve(id)?), Kind::Pointer { .. });
    let data_type = if kind.signed { DataType::Int } else { DataType::Uint };
    let (read, about) = match is_address {
        true => (Read::Address(place), format!("{what}: an address")),
        false => (argument(place, kind), what.to_owned()),
    };
    Some(column(name, data_type, at, read, &about))
}

/// Columns that every table of a kernel function has.
const TAKEN: &[&str] = &[
    "ts",
    "end_ts",
    "pid",
    "tid",
    "comm",
    "uid",
    "cgroup_id",
    "cpu",
    "latency_ns",
    "ret",
    "kstack_id",
    "kstack",
    "ustack_id",
    "ustack",
];

/// The name of a parameter's column: that of a common column has the function's name before it.
fn column_of(parameter: &str, function: &str) -> String {
    let taken = TAKEN.iter().any(|name| name.eq_ignore_ascii_case(parameter));
    if taken { format!("{function}_{parameter}") } else { parameter.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_do_not_hide_common_columns() {
        assert_eq!(column_of("count", "vfs_read"), "count");
        assert_eq!(column_of("pid", "find_get_pid"), "find_get_pid_pid");
        let table = of_file("/lib/x:f").map(|table| pair("t", "", table.scan, "latency_ns", Vec::new()));
        let common = with_stacks(table.expect("a table"));
        assert!(common.columns.iter().all(|column| TAKEN.contains(&&*column.name)), "{common:?}");
    }
}
