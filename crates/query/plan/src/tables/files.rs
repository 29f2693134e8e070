//! System calls that read and write, with the file behind the descriptor: `file_reads`, `file_writes`, `http`.

use super::build::{argument, column, derived, unlisted, user_text};
use super::calls::{calls, is_one_of, registers};
use crate::expr::{BinaryOp, Expr};
use crate::table::{Column, Read, Scalar, Side, Source, Table};
use crate::value::{DataType, Value};

/// What the mode of a file says it is (`S_IFMT`), of a regular file and a socket.
const KIND: u64 = 0o170_000;
const REGULAR: u64 = 0o100_000;
const SOCKET: u64 = 0o140_000;

/// System calls whose first argument is the descriptor that is read or written.
const READS: &[&str] = &["read", "pread64", "readv", "preadv", "preadv2"];
const WRITES: &[&str] = &["write", "pwrite64", "writev", "pwritev", "pwritev2"];
/// System calls whose second argument is where what is sent or received begins.
const RECEIVES: &[&str] = &["read", "recvfrom"];
const SENDS: &[&str] = &["write", "sendto"];

fn steps(path: &[&[(&str, &str)]]) -> Vec<Vec<(String, String)>> {
    let step = |step: &&[(&str, &str)]| {
        step.iter().map(|(structure, member)| ((*structure).to_owned(), (*member).to_owned())).collect()
    };
    path.iter().map(step).collect()
}

/// A number behind the file of the descriptor that is a system call's first argument.
fn of_file(path: &[&[(&str, &str)]]) -> Read {
    let descriptors = Read::Behind {
        from: Box::new(Read::Task),
        path: steps(&[&[("task_struct", "files")], &[("files_struct", "fdt")], &[("fdtable", "fd")]]),
    };
    let file = Read::Element(Box::new(descriptors), Box::new(registers("di")));
    Read::Behind { from: Box::new(file), path: steps(path) }
}

const INODE: &[(&str, &str)] = &[("file", "f_inode")];
const ENTRY: &[(&str, &str)] = &[("file", "f_path"), ("path", "dentry")];
const PARENT: &[(&str, &str)] = &[("dentry", "d_parent")];
const NAME: &[(&str, &str)] = &[("dentry", "d_name"), ("qstr", "name")];

fn compares(left: Expr, op: BinaryOp, right: Value) -> Expr {
    Expr::binary(op, left, Expr::Literal(right))
}

/// A table of system calls with the columns of a descriptor, and others.
fn of_calls(name: &str, about: &str, names: &[&str], kind: u64, own: Vec<Column>) -> Table {
    let mode = of_file(&[INODE, &[("inode", "i_mode")]]);
    let mut columns = vec![
        column("fd", DataType::Int, Side::Enter, registers("di"), "the descriptor"),
        column("ret", DataType::Int, Side::Exit, argument(1, Scalar::signed(8)), "how many bytes"),
        unlisted("mode", Side::Exit, mode, "the file's kind and rights"),
    ];
    columns.extend(own);
    let mut table = calls(name, about, columns);
    let at = |name: &str| table.column(name).expect("the table has it");
    let (ret, mode) = (at("ret"), at("mode"));
    let kind_of = compares(Expr::Column(mode), BinaryOp::BitAnd, Value::Uint(KIND));
    table.only = Expr::all([
        is_one_of(&table, names),
        compares(Expr::Column(ret), BinaryOp::GreaterEqual, Value::Int(0)),
        compares(kind_of, BinaryOp::Equal, Value::Uint(kind)),
    ]);
    table
}

fn of_regular_files(name: &str, about: &str, names: &[&str]) -> Table {
    let directory = |above: usize| {
        let path: Vec<_> = [ENTRY].into_iter().chain(std::iter::repeat_n(PARENT, above)).chain([NAME]).collect();
        let what = Read::KernelText { address: Box::new(of_file(&path)), bytes: if above == 0 { 64 } else { 40 } };
        let name = if above == 0 { "name".to_owned() } else { format!("directory{above}") };
        let about =
            if above == 0 { "the file's name, up to 63 bytes of it" } else { "the name of a directory above it" };
        Column { listed: above == 0, ..column(&name, DataType::Text, Side::Exit, what, about) }
    };
    let device = of_file(&[INODE, &[("inode", "i_sb")], &[("super_block", "s_dev")]]);
    let mut own = vec![
        column("bytes", DataType::Uint, Side::Exit, argument(1, Scalar::unsigned(8)), "how many bytes, as `ret` says"),
        column("inode", DataType::Uint, Side::Exit, of_file(&[INODE, &[("inode", "i_ino")]]), "the file's number"),
        unlisted("device_nr", Side::Exit, device, "the device's number, as the kernel has it"),
    ];
    own.extend((0..4).map(directory));
    let mut table = of_calls(name, about, names, REGULAR, own);
    let at = |name: &str| table.column(name).expect("the table has it");
    let path = Source::Path([at("name"), at("directory1"), at("directory2"), at("directory3")]);
    let device = Source::Device(at("device_nr"));
    for (name, source, about) in [
        ("path", path, "the file's path in its file system; `.../` stands for what is above three directories"),
        ("device", device, "the file system's device, major:minor"),
    ] {
        table.columns.push(derived(name, DataType::Text, source, about));
    }
    table
}

pub(super) fn file_reads() -> Table {
    of_regular_files("file_reads", "a system call read from a regular file", READS)
}

pub(super) fn file_writes() -> Table {
    of_regular_files("file_writes", "a system call wrote to a regular file", WRITES)
}

/// First words of requests and answers that are looked for. What follows them is not looked into, but for the first line.
const BEGINNINGS: &[&str] = &["GET ", "POST ", "PUT ", "HEAD ", "DELETE ", "OPTIONS ", "PATCH ", "HTTP/1."];

/// First lines of HTTP/1 messages in plain text, as system calls send and receive them through sockets.
pub(super) fn http() -> Table {
    let text = user_text(registers("si"));
    let own = vec![Column {
        listed: false,
        ..column("bytes", DataType::Text, Side::Exit, text, "the first 127 bytes, or those before a zero")
    }];
    let names: Vec<&str> = RECEIVES.iter().chain(SENDS).copied().collect();
    let about = "a socket sends or receives a message of HTTP/1 in plain text, by read, write, recvfrom or sendto";
    let mut table = of_calls("http", about, &names, SOCKET, own);
    let at = |name: &str| table.column(name).expect("the table has it");
    let bytes = at("bytes");
    let begins = |word: &&str| Expr::Like(Box::new(Expr::Column(bytes)), format!("{word}%"));
    let any = BEGINNINGS.iter().map(begins).reduce(|one, other| Expr::binary(BinaryOp::Or, one, other));
    table.only = Expr::all(table.only.take().into_iter().chain(any));
    let nr = table.column("nr").expect("it has a number");
    table.columns.extend([
        derived("line", DataType::Text, Source::Line(bytes), "the first line, up to 127 bytes of it"),
        derived("call", DataType::Text, Source::SyscallName(nr), "the system call's name"),
    ]);
    table
}
