//! What tables are made of: columns, what they read, and rows of one hook or of two.

use crate::expr::{BinaryOp, Expr};
use crate::table::{Column, Hook, PATH_BYTES, Read, Scalar, Scan, Side, Source, Table};
use crate::value::{DataType, Value};

pub(super) fn column(name: &str, data_type: DataType, at: Side, what: Read, about: &str) -> Column {
    Column {
        name: name.to_owned(),
        data_type,
        about: about.to_owned(),
        source: Source::Read { at, what },
        listed: true,
    }
}

/// A column that is made of others.
pub(super) fn derived(name: &str, data_type: DataType, source: Source, about: &str) -> Column {
    Column { name: name.to_owned(), data_type, about: about.to_owned(), source, listed: true }
}

/// A number that `SELECT *` leaves out.
pub(super) fn unlisted(name: &str, at: Side, what: Read, about: &str) -> Column {
    Column { listed: false, ..column(name, DataType::Uint, at, what, about) }
}

/// Reads columns only where pairs begin, or only where they end.
pub(super) fn only_at(side: Side, table: &mut Table, names: &[&str]) {
    for name in names {
        let at = table.column(name).expect("the table has it");
        if let Source::Read { at, .. } = &mut table.columns[at].source {
            *at = side;
        }
    }
}

/// A condition on a column: it compares it with a number.
pub(super) fn compares(table: &Table, column: &str, op: BinaryOp, value: u64) -> Expr {
    let column = table.column(column).expect("the table has it");
    Expr::binary(op, Expr::Column(column), Expr::Literal(Value::Uint(value)))
}

pub(super) fn argument(index: u8, kind: Scalar) -> Read {
    Read::Argument { index, path: Vec::new(), kind }
}

pub(super) fn member(index: u8, path: &[(&str, &str)]) -> Read {
    let path = path.iter().map(|(structure, member)| ((*structure).to_owned(), (*member).to_owned())).collect();
    Read::Argument { index, path, kind: Scalar::unsigned(8) }
}

/// Text in user memory, of a path's length.
pub(super) fn user_text(address: Read) -> Read {
    Read::UserText { address: Box::new(address), bytes: PATH_BYTES }
}

pub(super) fn typed(name: &str) -> Hook {
    Hook::Typed(name.to_owned())
}

/// The running thread, in every table. The process and the thread of a pair are the same at its beginning and end; what
/// can change in between is read at one of them.
fn who(changing: Side) -> Vec<Column> {
    vec![
        column("pid", DataType::Uint, Side::Both, Read::Pid, "process (thread group)"),
        column("tid", DataType::Uint, Side::Both, Read::Tid, "thread"),
        column("comm", DataType::Text, changing, Read::Command, "the thread's name"),
        column("uid", DataType::Uint, changing, Read::Uid, "user"),
        column("cgroup_id", DataType::Uint, changing, Read::CgroupId, "cgroup (version 2)"),
        column("cpu", DataType::Uint, Side::Exit, Read::Cpu, "processor"),
    ]
}

/// Adds the stacks of the running thread, where rows are complete or, of pairs, where they begin if it runs there.
pub(super) fn with_stacks(mut table: Table) -> Table {
    let process = table.column("pid").map(|at| &table.columns[at].source);
    let runs_there = !matches!(process, Some(Source::Read { at: Side::Exit, .. }));
    let at = if table.is_pair() && runs_there { Side::Enter } else { Side::Exit };
    for (name, user, about) in [
        ("kstack", false, "the kernel's functions, from the outermost to the innermost; folded, for flame graphs"),
        ("ustack", true, "the program's functions, from the outermost to the innermost; folded, for flame graphs"),
    ] {
        let number = column(&format!("{name}_id"), DataType::Int, at, Read::Stack { user }, "the stack's number");
        table.columns.push(Column { listed: false, ..number });
        let source = Source::Stack(table.columns.len() - 1);
        let column =
            Column { name: name.to_owned(), data_type: DataType::Text, about: about.to_owned(), source, listed: false };
        table.columns.push(column);
    }
    table
}

/// A table of one hook a row.
pub(super) fn single(name: &str, about: &str, hook: Hook, own: Vec<Column>) -> Table {
    let mut columns = vec![column("ts", DataType::Time, Side::Exit, Read::Time, "when it happened")];
    columns.extend(who(Side::Exit));
    columns.extend(own);
    let scan = Scan::Single(hook);
    Table { name: name.to_owned(), about: about.to_owned(), scan, columns, only: None, interrupts: false }
}

/// A table whose rows interrupts make.
pub(super) fn in_interrupts(table: Table) -> Table {
    Table { interrupts: true, ..table }
}

/// A table of pairs, with the time between both as `duration`.
pub(super) fn pair(name: &str, about: &str, scan: Scan, duration: &str, own: Vec<Column>) -> Table {
    let mut columns = vec![
        column("ts", DataType::Time, Side::Enter, Read::Time, "when it began"),
        column("end_ts", DataType::Time, Side::Exit, Read::Time, "when it ended"),
    ];
    columns.extend(who(Side::Enter));
    columns.extend(own);
    let about_duration = "from beginning to end, in nanoseconds";
    columns.push(derived(duration, DataType::Uint, Source::Difference([1, 0]), about_duration));
    Table { name: name.to_owned(), about: about.to_owned(), scan, columns, only: None, interrupts: false }
}
