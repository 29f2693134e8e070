//! System calls: `syscalls`, `file_opens`, and what tables of some of them share.

use super::build::{argument, column, derived, member, pair, typed, user_text};
use crate::expr::{BinaryOp, Expr};
use crate::syscall;
use crate::table::{Column, Counts, Read, Scalar, Scan, Side, Source, Table};
use crate::value::{DataType, Value};

/// What `openat` takes for the working directory.
const AT_FDCWD: i32 = -100;

/// A register of the thread that calls.
pub(super) fn registers(name: &str) -> Read {
    member(0, &[("pt_regs", name)])
}

/// A table of system calls: of their number, `nr`, and other columns. Calls that never return are left out.
pub(super) fn calls(name: &str, about: &str, own: Vec<Column>) -> Table {
    let endings = ["exit", "exit_group"].into_iter().filter_map(|name| i32::try_from(syscall::number(name)?).ok());
    let number = || registers("orig_ax");
    let scan = Scan::Pair {
        enter: typed("sys_enter"),
        exit: typed("sys_exit"),
        keys: [Read::Tid, Read::Tid],
        counts: [Some(Counts { what: number(), values: endings.collect(), are: false }), None],
        endless: false,
    };
    let nr = column("nr", DataType::Int, Side::Enter, number(), "the system call's number");
    pair(name, about, scan, "latency_ns", [nr].into_iter().chain(own).collect())
}

/// Whether an event of such a table is one of these system calls. Not every architecture has each of them.
pub(super) fn is_one_of(table: &Table, names: &[&str]) -> Expr {
    let nr = table.column("nr").expect("it has a number");
    let is = |name: &&str| {
        let number = syscall::number(name)?;
        Some(Expr::binary(BinaryOp::Equal, Expr::Column(nr), Expr::Literal(Value::Int(number))))
    };
    let any = names.iter().filter_map(is).reduce(|one, other| Expr::binary(BinaryOp::Or, one, other));
    any.expect("every architecture has one of them")
}

pub(super) fn syscalls() -> Table {
    let argument_column = |(index, name): (usize, &str)| {
        let about = format!("argument {index}");
        column(&format!("arg{index}"), DataType::Uint, Side::Enter, registers(name), &about)
    };
    let mut own: Vec<Column> =
        ["di", "si", "dx", "r10", "r8", "r9"].into_iter().enumerate().map(argument_column).collect();
    own.push(column("ret", DataType::Int, Side::Exit, argument(1, Scalar::signed(8)), "what it returned"));
    let mut table = calls("syscalls", "a system call that returned", own);
    let nr = table.column("nr").expect("it has a number");
    let name = derived("name", DataType::Text, Source::SyscallName(nr), "the system call's name");
    table.columns.insert(nr + 1, name);
    table
}

/// System calls that open a file by its path: `open`, `openat` and `openat2`.
pub(super) fn file_opens() -> Table {
    // Not every architecture has `open`, whose arguments are one place further ahead.
    let open = syscall::number("open").and_then(|number| i32::try_from(number).ok());
    let argument_of = |of_open: Read, otherwise: &str| match open {
        None => registers(otherwise),
        Some(equals) => Read::Choice {
            by: Box::new(registers("orig_ax")),
            equals,
            then: Box::new(of_open),
            otherwise: Box::new(registers(otherwise)),
        },
    };
    // At the end of the call the kernel has read the path, so its memory is present.
    let path = user_text(argument_of(registers("di"), "si"));
    let (dfd, flags) = (argument_of(Read::Constant(AT_FDCWD.into()), "di"), argument_of(registers("si"), "dx"));
    let own = vec![
        column("path", DataType::Text, Side::Exit, path, "the path, up to 127 bytes of it"),
        column("dfd", DataType::Int, Side::Enter, dfd, "the directory that it is relative to; -100: here"),
        column("flags", DataType::Uint, Side::Enter, flags, "O_* of open and openat; an address for openat2"),
        column("ret", DataType::Int, Side::Exit, argument(1, Scalar::signed(8)), "the descriptor, or -errno"),
    ];
    let mut table = calls("file_opens", "a file was opened, or not", own);
    table.only = Some(is_one_of(&table, &["open", "openat", "openat2"]));
    table
}
