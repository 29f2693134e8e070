//! Small files that would take much: memory, time, or stack. Each runs in a process whose address space and processor time
//! are limited, and ends with an answer or a named limit.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

/// Address space of one command: a gigabyte for its data, and half of one for code, stacks and arenas of the allocator.
const KILOBYTES: u64 = 3 << 19;
/// Processor seconds of one command, in a build that is hardly optimized.
const SECONDS: u64 = 120;

/// Runs `kiln` on the text of an object, limited.
fn kiln(text: &str, arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("object.bpf"), text).expect("a file");
    run(folder.path(), arguments)
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let limits = format!("ulimit -v {KILOBYTES} && ulimit -t {SECONDS} && exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limits, "sh", env!("CARGO_BIN_EXE_kiln")]).args(arguments).current_dir(folder);
    command.output().expect("sh runs")
}

fn ends_with(output: &Output, code: i32, expected: &str) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let shown: String = text.chars().take(2000).collect();
    assert_eq!(output.status.code(), Some(code), "{}: {shown}", output.status);
    assert!(text.contains(expected), "no {expected:?} in {shown}");
}

/// Programs that share one subprogram, which stores all over its frame.
fn shared(programs: usize, slots: usize) -> String {
    let mut text = String::new();
    for program in 0..programs {
        let _ = writeln!(text, "; program xdp name p{program}\n  call big\n  exit");
    }
    text.push_str("; function big static\n  r0 = 1\n");
    for slot in 0..slots - 2 {
        let _ = match slot % 3 {
            0 => writeln!(text, "  *(u64 *)(r10 - {}) = r0", 8 + 8 * (slot / 3 % 60)),
            _ => writeln!(text, "  r0 += {}", slot % 7),
        };
    }
    text + "  exit\n"
}

/// Facts of what programs share are kept once, and verifying them ends with the budget.
#[test]
fn two_hundred_programs_that_share_a_subprogram() {
    let text = shared(200, 20_000);
    let begun = std::time::Instant::now();
    let arguments = ["optimize", "object.bpf", "-o", "out.bpf", "--budget", "2", "--offline"];
    ends_with(&kiln(&text, &arguments), 0, "rewrites in");
    println!("{:.1} s", begun.elapsed().as_secs_f64());
    // The sandbox has no budget. Facts of each program by itself, some 5 KB an instruction, would not fit here either.
    ends_with(&kiln(&shared(40, 20_000), &["sandbox", "object.bpf", "-o", "out.bpf", "--offline"]), 0, "big");
}

/// Every program reaches all that come after it.
fn chain(length: usize) -> String {
    let mut text = String::new();
    for number in 1..=length {
        let _ = writeln!(text, "; program xdp name f{number}\n  r0 = 0");
        if number < length {
            let _ = writeln!(text, "  call f{}", number + 1);
        }
        text.push_str("  exit\n");
    }
    text
}

#[test]
fn a_chain_of_three_thousand_programs() {
    let text = chain(3000);
    ends_with(&kiln(&text, &["dump", "object.bpf"]), 1, "limit reached: the programs have more than a million");
    ends_with(&kiln(&text, &["dump", "object.bpf", "--program", "f2", "--format", "json"]), 0, "call f3000");
}

/// Calls that go deeper than any loader allows take neither stack nor, where every program reaches all the others, time.
#[test]
fn chains_of_calls_are_estimated_as_far_as_they_load() {
    let mut text = "; program xdp\n  call f1\n  exit\n".to_owned();
    let length = 60_000;
    for number in 1..=length {
        let _ = writeln!(text, "; function f{number} static\n  r0 = 0");
        if number < length {
            let _ = writeln!(text, "  call f{}", number + 1);
        }
        text.push_str("  exit\n");
    }
    let arguments = ["optimize", "object.bpf", "-o", "out.bpf", "--budget", "2", "--offline"];
    for text in [text, chain(3000)] {
        // Too large for the kernel, where there is time to see it.
        let ended = kiln(&text, &arguments);
        let code = ended.status.code().filter(|code| *code == 1).unwrap_or(0);
        ends_with(&ended, code, "rewrites in");
    }
}

#[test]
fn a_million_branches() {
    let mut text = "; program xdp\n  r0 = 0\n  r2 = *(u32 *)(r1 + 24)\n".to_owned();
    for number in 0..999_000 {
        let _ = writeln!(text, "  if r2 > {number} goto +0");
    }
    text.push_str("  exit\n");
    // The kernel's verifier would go on until it has processed a million instructions.
    let output = kiln(&text, &["check", "object.bpf"]);
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1 | 3)), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// Code that is laid out backward: what is live in one block is known only after the next one in the text.
#[test]
fn blocks_in_reverse_order() {
    let mut text = "; program xdp\n  r0 = 0\n  goto l0\n".to_owned();
    let count = 100_000;
    for number in (0..count).rev() {
        let next = if number + 1 == count { "out".to_owned() } else { format!("l{}", number + 1) };
        let _ = writeln!(text, "l{number}:\n  r0 += 1\n  goto {next}");
    }
    text.push_str("out:\n  exit\n");
    ends_with(&kiln(&text, &["check", "object.bpf"]), 0, "accepted");
}

#[test]
fn maps_in_maps_in_maps() {
    let mut text = "; map m array_of_maps key 4 value 4 entries 1\n".to_owned();
    (0..40_000).for_each(|_| text.push_str("; inner m array key 4 value 4 entries 1\n"));
    text.push_str("; program xdp\n  r0 = 0\n  exit\n");
    for command in ["check", "dump"] {
        ends_with(&kiln(&text, &[command, "object.bpf"]), 2, "line 3, column 8: the map already has its inner map");
    }
}

/// Names and references in numbers that only linear work gets through.
#[test]
fn many_small_functions() {
    let mut text = String::new();
    for number in 0..20_000 {
        let _ = writeln!(text, "; program xdp name p{number} entry f{number}");
    }
    for number in 0..20_000 {
        let _ = writeln!(text, "; function f{number} global\n  r0 = 0\n  exit");
    }
    ends_with(&kiln(&text, &["check", "object.bpf"]), 0, "accepted p19999");
    ends_with(&kiln(&text, &["dump", "object.bpf"]), 0, "program p19999");
}

/// Line records may say any line: what lies between two of them is not laid out.
#[test]
fn line_numbers_far_apart() {
    let text = "; program xdp\n; line 1:1 \"a.c\" \"first\"\n  r2 = *(u32 *)(r1 + 0)\n\
                ; line 4000000000:1 \"a.c\" \"last\"\n  r0 = *(u8 *)(r2 + 0)\n  exit\n";
    ends_with(&kiln(text, &["check", "object.bpf"]), 1, "a.c:4000000000:1");
}

#[test]
fn rules_that_nest() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("object.bpf"), shared(1, 20)).expect("a file");
    let nested = format!("rule a\n  r0 = {}r1\n=>\n  r0 = r1\n", "(".repeat(1 << 20));
    std::fs::write(folder.path().join("deep.rules"), nested).expect("a file");
    let arguments = ["optimize", "object.bpf", "-o", "out.bpf", "--rules", "deep.rules"];
    ends_with(&run(folder.path(), &arguments), 2, "deep.rules");
}

/// Opening and harvesting count as learning.
#[test]
fn learning_ends_in_time_and_in_memory() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("objects")).expect("a folder");
    for number in 0..3 {
        std::fs::write(folder.path().join(format!("objects/{number}.bpf")), shared(200, 20_000)).expect("a file");
    }
    let output = run(folder.path(), &["learn", "objects", "-o", "new.rules", "--budget", "4", "--jobs", "2"]);
    ends_with(&output, 0, "windows searched");
}

/// The depth of a term is the program's choice: what a loop of the optimizer does with it takes no stack.
#[test]
fn values_that_depend_on_thousands_before() {
    for step in ["  r0 ^= r3\n  r3 *= r0\n", "  r0 &= r3\n  r3 += r0\n", "  r0 = be64 r0\n  r0 += r3\n"] {
        let begin = "; program xdp\n  r0 = *(u32 *)(r1 + 12)\n  r3 = *(u32 *)(r1 + 16)\n  r4 = 1\n  r4 += r0\n";
        let end = "  w0 = w0\n  r4 = r0\n  r0 = r4\n  r0 <<= 32\n  r0 >>= 32\n  exit\n";
        let text = format!("{begin}{}{end}", step.repeat(4000));
        let arguments =
            ["optimize", "object.bpf", "-o", "out.bpf", "--budget", "3", "--offline", "--evidence", "proofs"];
        ends_with(&kiln(&text, &arguments), 0, "rewrites in");
    }
}

/// More memory for maps than the process may have: the failed call and its `errno`, not a crash.
#[test]
fn memory_that_the_system_refuses() {
    let maps = ["a", "b"].map(|name| format!("; map {name} array key 4 value 1048576 entries 900\n"));
    let text = format!("{}; program xdp\n  r1 = map[a]\n  r1 = map[b]\n  r0 = 2\n  exit\n", maps.concat());
    let run = ["run", "object.bpf", "--packet", "00000000000000000000000000000000", "--format", "json"];
    ends_with(&kiln(&text, &run), 3, "\"errno\": 12");
}
