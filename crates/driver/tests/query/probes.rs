//! Static probes (USDT) and parameters by name, of a program that is compiled here: what it calls and with what is known.

use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_driver::query::{Session, Split};

use super::may_load;
use super::tables::in_every_split;

/// How often the program passes its probe.
const ROUNDS: i64 = 60;

/// Compiles `probed.c`. `None` without a compiler, or without `sys/sdt.h` (systemtap-sdt-dev).
fn compiled(folder: &Path, name: &str, flags: &[&str]) -> Option<PathBuf> {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: registers are known of x86-64");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/query/probed/probed.c");
    let program = folder.join(name);
    let mut gcc = Command::new("gcc");
    let output = gcc.args(flags).arg("-o").arg(&program).arg(&source).output();
    let output = output.map_err(|error| println!("skipped: gcc: {error}")).ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("sys/sdt.h: No such file") {
        println!("skipped: no sys/sdt.h (systemtap-sdt-dev)");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(program)
}

/// Each kind of program in which the probe's arguments are elsewhere: in memory, in registers, in a library's code.
const KINDS: [(&str, &[&str]); 4] = [
    ("memory", &["-O0", "-g"]),
    ("registers", &["-O2", "-g"]),
    ("fixed", &["-O1", "-g", "-no-pie", "-gdwarf-4"]),
    ("counted", &["-O2", "-g", "-DCOUNTED"]),
];

fn has_uprobes() -> bool {
    may_load() && Path::new("/sys/bus/event_source/devices/uprobe/type").exists()
}

/// The exit code of the program.
fn ran(program: &Path) -> Option<i32> {
    Command::new(program).arg(ROUNDS.to_string()).status().expect("it runs").code()
}

/// What the probe is passed, round by round.
fn passed() -> Vec<Vec<String>> {
    let round = |number: i64| {
        let is_odd = number % 2 != 0;
        let byte = (250 + number) as u8;
        let name = ["one", "two", "three"][number as usize % 3];
        let large = (1i64 << 40) + number;
        let element = [-300, -1, 0, 300][number as usize % 4];
        let [own, byte, large, last] = match is_odd {
            true => [number, byte.into(), large, 7],
            false => [-number, byte.wrapping_add(1).into(), large * 2, -9],
        };
        vec![
            own.to_string(),
            byte.to_string(),
            name.to_owned(),
            large.to_string(),
            element.to_string(),
            last.to_string(),
        ]
    };
    (0..ROUNDS).map(round).collect()
}

#[test]
fn static_probes_have_their_arguments() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, flags) in KINDS {
        let Some(program) = compiled(folder.path(), name, flags) else { return };
        if !has_uprobes() {
            return;
        }
        let table = format!("usdt.'{}:own:passed'", program.display());
        let columns = "arg0, arg1, text2, arg3, arg4, arg5";
        let of = format!("SELECT {columns} FROM {table} WHERE comm = '{name}' AND arg1 >= 0");
        let work = || assert_eq!(ran(&program), Some(0), "its counter says that it is watched");
        in_every_split(&of, &work, &|split, rows| assert_eq!(rows, passed(), "{name}, {split:?}"));
        let groups = format!(
            "SELECT text2, count(*), sum(arg0), max(arg5) FROM {table} WHERE arg5 <> 8 GROUP BY text2 ORDER BY text2"
        );
        in_every_split(&groups, &work, &|split, rows| {
            let third =
                |first: i64| (first..ROUNDS).step_by(3).map(|at| if at % 2 == 0 { -at } else { at }).sum::<i64>();
            let row = |name: &str, first| [name, "20", &third(first).to_string(), "7"].map(str::to_owned).to_vec();
            assert_eq!(rows, [row("one", 0), row("three", 2), row("two", 1)], "{name}, {split:?}");
        });
        // Nobody watches any more.
        assert_eq!(ran(&program), Some(if name == "counted" { 3 } else { 0 }));
    }
}

#[test]
fn parameters_have_their_names() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, flags) in KINDS {
        let Some(program) = compiled(folder.path(), name, flags) else { return };
        if !has_uprobes() {
            return;
        }
        let wanted = |number: i64| {
            let sign = if number % 2 != 0 { -5 } else { 5 };
            let title = ["one", "two", "three"][number as usize % 3];
            let count = 0x8000_0000 + number;
            vec![(-number).to_string(), title.to_owned(), count.to_string(), sign.to_string()]
        };
        let of = |kind: &str, columns: &str| {
            format!("SELECT {columns} FROM {kind}.'{}:named' WHERE comm = '{name}' AND low <= 0", program.display())
        };
        let work = || assert_eq!(ran(&program), Some(if name == "counted" { 3 } else { 0 }));
        in_every_split(&of("uprobe", "low, title, count, sign"), &work, &|split, rows| {
            assert_eq!(rows, (0..ROUNDS).map(wanted).collect::<Vec<_>>(), "{name}, {split:?}");
        });
        let result = |number: i64| {
            let row = wanted(number);
            let first = i64::from(row[1].as_bytes()[0]);
            let numbers: Vec<i64> = [0, 2, 3].iter().map(|at| row[*at].parse().expect("a number")).collect();
            vec![row[1].clone(), (numbers.iter().sum::<i64>() + first).to_string()]
        };
        in_every_split(&of("uretprobe", "title, ret"), &work, &|split, rows| {
            assert_eq!(rows, (0..ROUNDS).map(result).collect::<Vec<_>>(), "{name}, {split:?}");
        });
    }
    // Without debug information there are the registers only.
    let Some(plain) = compiled(folder.path(), "plain", &["-O1"]) else { return };
    let of = |column: &str| Session::new(&format!("SELECT {column} FROM uprobe.'{}:named'", plain.display()));
    match (of("arg0"), of("low")) {
        (Err(kiln_driver::Error::Unsupported(why)), _) => println!("skipped: {why}"),
        (known, unknown) => assert!(known.is_ok() && unknown.is_err()),
    }
}

#[test]
fn probes_that_are_not_there_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled(folder.path(), "said", &["-O2"]) else { return };
    let file = program.display().to_string();
    for (table, wanted) in [
        (format!("{file}:own:past"), "it has no static probe `own:past`; it has `own:never`, `own:passed`"),
        ("/usr/bin/gcc:own:passed".to_owned(), "no static probe `own:passed`"),
        ("/no/such/file:own:passed".to_owned(), "/no/such/file"),
        (format!("{file}:passed"), "is no static probe of a file"),
        ("own:passed".to_owned(), "is no static probe of a file"),
        ("/dev/zero:own:passed".to_owned(), "it is no file"),
    ] {
        match Session::new(&format!("SELECT * FROM usdt.'{table}'")) {
            Ok(_) => panic!("{table}: there is none"),
            Err(kiln_driver::Error::Unsupported(why)) => return println!("skipped: {why}"),
            Err(error) => assert!(error.to_string().contains(wanted), "{table}: {error}"),
        }
    }
    let listed = kiln_driver::tables::describe_tables(Some(&format!("usdt.{file}"))).expect("it has probes");
    let arguments = listed.iter().map(|table| {
        let types = table.columns.iter().map(|column| column.data_type);
        (table.name.exact().rsplit(':').next(), types.collect::<Vec<_>>())
    });
    let passed = vec!["i64", "u64", "u64", "i64", "i64", "i64"];
    assert_eq!(arguments.collect::<Vec<_>>(), [(Some("never"), vec!["i64"]), (Some("passed"), passed)]);
    let none = kiln_driver::tables::describe_tables(Some("usdt./usr/bin/env")).expect_err("it has none");
    assert!(none.to_string().contains("it has no static probes"), "{none}");
    let all = Session::new(&format!("SELECT * FROM usdt.'{file}:own:passed'")).expect("it is there");
    let splits = Split::of(all.query());
    assert!(splits.contains(&Split::Mvsf), "{splits:?}");
}
