//! Tables of calls: of a function of a program or library, and of a function of the kernel.

use kiln_program::btf::{Btf, Kind, TypeId};

use super::Missing;
use super::build::{argument, column, derived, pair, single, user_text, with_stacks};
use super::scalar;
use crate::programs::{Known, Parameter};
use crate::table::{Column, Hook, Moment, PATH_BYTES, Read, Scan, Side, Source, Table};
use crate::value::DataType;

/// What the names of tables of a file's functions begin with.
pub(super) const FILE: &str = "uprobe.";
/// What the names of tables of a file's functions begin with whose rows are whole calls.
pub(super) const RETURNS: &str = "uretprobe.";
/// What the names of tables of the kernel's functions begin with.
pub(super) const KERNEL: &str = "fn.";

const HELP: &str = "FROM uprobe.'/usr/lib/x86_64-linux-gnu/libc.so.6:malloc', or uretprobe for its latency and result";
const KERNEL_HELP: &str = "names are those of /proc/kallsyms: FROM fn.vfs_read";

/// The table of the calls of a function of a file, `FILE:FUNCTION`, when they begin.
pub(super) fn of_file(target: &str, known: Known<'_>) -> Result<Table, Missing> {
    let [file, function] = split(FILE, target)?;
    let hook = hook_of(file, function, Moment::Call);
    let about = "a function of a program or library is called";
    let own = passed(Side::Exit, file, function, known);
    Ok(with_stacks(single(&format!("{FILE}{target}"), about, hook, own)))
}

/// The table of the calls of a function of a file, `FILE:FUNCTION`, when they return.
pub(super) fn returns_of_file(target: &str, known: Known<'_>) -> Result<Table, Missing> {
    let [file, function] = split(RETURNS, target)?;
    let scan = Scan::Pair {
        enter: hook_of(file, function, Moment::Call),
        exit: hook_of(file, function, Moment::Return),
        keys: [Read::Tid, Read::Tid],
        counts: [None, None],
        // A function that calls itself begins again: the inner call is the row.
        endless: true,
    };
    let mut own = passed(Side::Enter, file, function, known);
    own.push(column("ret", DataType::Int, Side::Exit, register("ax"), "what it returns, if that has 64 bits"));
    let about = "a function of a program or library was called and returned; of calls inside each other, the innermost";
    let mut table = pair(&format!("{RETURNS}{target}"), about, scan, "latency_ns", own);
    let result = table.columns.iter().position(|column| column.name == "ret").expect("it was added");
    table.columns.push(derived("ret_int", DataType::Int, Source::Int(result), "what it returns, if that is an `int`"));
    Ok(with_stacks(table))
}

/// A file and its function, from `FILE:FUNCTION`.
fn split<'t>(prefix: &str, target: &'t str) -> Result<[&'t str; 2], Missing> {
    let parts = target.rsplit_once(':').filter(|(file, name)| file.starts_with('/') && !name.is_empty());
    let none = || Missing { why: format!("`{prefix}{target}` is no function of a file"), help: HELP };
    parts.map(|(file, function)| [file, function]).ok_or_else(none)
}

fn hook_of(file: &str, function: &str, at: Moment) -> Hook {
    Hook::Function { file: file.to_owned(), function: function.to_owned(), at }
}

/// A register of a program where a probe stops it.
fn register(name: &str) -> Read {
    Read::Field { structure: "pt_regs".to_owned(), name: name.to_owned() }
}

/// Registers of a function's first integers and addresses.
const REGISTERS: [&str; 6] = ["di", "si", "dx", "cx", "r8", "r9"];

/// What a function is given, which is known where it begins.
fn passed(at: Side, file: &str, function: &str, known: Known<'_>) -> Vec<Column> {
    let argument = |(index, name): (usize, &str)| {
        let about = format!("argument {index}, if it is an integer or an address");
        column(&format!("arg{index}"), DataType::Uint, at, register(name), &about)
    };
    let mut own: Vec<Column> = REGISTERS.into_iter().enumerate().map(argument).collect();
    let text = user_text(register("di"));
    own.push(column("text0", DataType::Text, at, text, "argument 0 as text; empty if it is no address of text"));
    let parameters = known.programs.map(|programs| programs.parameters(file, function)).unwrap_or_default();
    own.extend(named(&parameters, function, at));
    own
}

/// The columns of parameters by their names. Of those that are text, [`PATH_BYTES`] are kept all together.
fn named(parameters: &[Parameter], function: &str, at: Side) -> Vec<Column> {
    let texts = parameters.iter().filter(|parameter| parameter.is_text).count().max(1);
    let bytes = PATH_BYTES / texts as u16 / 8 * 8;
    let one = |parameter: &Parameter| {
        let read = Box::new(register(REGISTERS.get(parameter.register)?));
        let (data_type, what) = match parameter.is_text {
            true => (DataType::Text, Read::UserText { address: read, bytes }),
            false if parameter.kind.signed => (DataType::Int, Read::Cut { of: read, skip: 0, kind: parameter.kind }),
            false => (DataType::Uint, Read::Cut { of: read, skip: 0, kind: parameter.kind }),
        };
        Some(column(&column_of(&parameter.name, function), data_type, at, what, "a parameter"))
    };
    parameters.iter().filter_map(one).collect()
}

/// The table of the calls of a function of the kernel, with its parameters and its result, as the kernel's types name
/// them.
pub(super) fn of_kernel(function: &str, known: Known<'_>) -> Result<Table, Missing> {
    let missing = |why: String| Missing { why, help: KERNEL_HELP };
    let types = known.types.ok_or_else(|| missing("tables of kernel functions need the kernel's types".to_owned()))?;
    let lacking = || missing(format!("the kernel's types have no function `{function}`"));
    described(function, types).ok_or_else(lacking)
}

/// `None` if the types have no such function, or one with a number of arguments that varies.
fn described(function: &str, types: &Btf) -> Option<Table> {
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

/// Columns that tables of functions have whatever the parameters are.
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
    "ret_int",
    "arg0",
    "arg1",
    "arg2",
    "arg3",
    "arg4",
    "arg5",
    "text0",
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
        let common = returns_of_file("/lib/x:f", Known::default()).unwrap_or_else(|missing| panic!("{}", missing.why));
        assert!(common.columns.iter().all(|column| TAKEN.contains(&&*column.name)), "{common:?}");
    }
}
