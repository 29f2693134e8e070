//! Thirty data structures as textbooks have them (`tests/heaps/textbook`): plain pointers and loops, `malloc`, nothing of Kiln's.
//! Each compiles, loads in the kernel, and gives the answers that the same source gives natively.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::world::{World, compile, compile_native, root, stay_on_one_cpu, word};

const FOLDER: &str = "tests/heaps/textbook";
const STRUCTURES: usize = 30;
const ORDERS: usize = 300;
const SUPPLY_BYTES: usize = 4 << 20;
const XDP_DROP: u32 = 1;

/// An order in a packet: what to do (0: ask, 1: put in, 2: take out), a key, a value.
fn orders() -> Vec<[u32; 3]> {
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        ((random >> 11) % below) as u32
    };
    (0..ORDERS).map(|_| [[1, 1, 1, 0, 2][next(5) as usize], 1 + next(90), next(10_000)]).collect()
}

fn natively(source: &str, orders: &[[u32; 3]]) -> Vec<u64> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile_native(source, folder.path(), &[]);
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
    let bytes: Vec<u8> = orders.iter().flatten().flat_map(|field| field.to_le_bytes()).collect();
    child.stdin.take().expect("a pipe").write_all(&bytes).expect("it reads");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{source}: natively");
    output.stdout.chunks_exact(8).map(|answer| word(answer, 0)).collect()
}

/// The one structure to run, if not all.
fn chosen() -> Option<String> {
    std::env::var("KILN_TEXTBOOK").ok()
}

fn sources() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join(FOLDER)).expect("the folder");
    let paths = folder.map(|entry| entry.expect("an entry").path());
    let mut sources: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "c")).collect();
    sources.sort();
    let chosen = chosen();
    sources
        .retain(|path| chosen.as_ref().is_none_or(|name| path.file_stem().is_some_and(|stem| stem == name.as_str())));
    assert!(chosen.is_some() || sources.len() == STRUCTURES, "{} structures", sources.len());
    sources
}

#[test]
fn textbook_structures_load_and_answer() {
    stay_on_one_cpu();
    let orders = orders();
    let mut failed = Vec::new();
    for path in sources() {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let source = format!("{FOLDER}/{name}.c");
        let run = || {
            let Some(extension) = compile(&source, Duration::from_secs(10)) else { return };
            let expected = natively(&source, &orders);
            assert_eq!(expected.len(), orders.len(), "{name}: answers");
            for (place, world) in World::all(&extension, &["textbook"]) {
                assert!(world.supply(SUPPLY_BYTES), "{name}: it has a heap");
                for (step, (order, expected)) in orders.iter().zip(&expected).enumerate() {
                    let mut packet = vec![0; 64];
                    for (at, field) in order.iter().enumerate() {
                        packet[4 * at..4 * at + 4].copy_from_slice(&field.to_le_bytes());
                    }
                    let (returned, packet) = world.run("textbook", &packet);
                    assert_eq!(returned, XDP_DROP, "{name}, {place}, step {step}");
                    let answer = word(&packet, 16);
                    assert_eq!(answer, *expected, "{name}, {place}, step {step}: {order:?}");
                }
            }
        };
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
