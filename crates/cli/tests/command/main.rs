//! The command as its users meet it: flags, files of every kind, exit codes, outputs, interruption.

mod evidence;
#[cfg(unix)]
mod interrupted;
mod kernels;
mod terminal;
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Instant;

use predicates::prelude::*;
use predicates::str::contains;
use world::{Folder, PASS, SOON, corpus_object, document, kiln};

/// Reads a packet that it never looked at the end of.
const UNSAFE: &str = "\
; program xdp
  r2 = *(u32 *)(r1 + 0)
  r0 = *(u8 *)(r2 + 0)
  r0 = 2
  exit
";

/// The first 64 bytes of an ELF object for a machine, its section headers at `section_headers`.
fn elf_header(machine: u16, data: u8, section_headers: u64) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, data, 1, 0]);
    bytes[16..18].copy_from_slice(&1u16.to_le_bytes());
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[40..48].copy_from_slice(&section_headers.to_le_bytes());
    bytes
}

#[test]
fn verdicts_decide_the_exit_code() {
    let folder = Folder::with(&[("pass.bpf", PASS.as_bytes()), ("unsafe.bpf", UNSAFE.as_bytes())]);
    kiln().arg("check").arg(folder.path("pass.bpf")).assert().code(0).stdout(contains("accepted"));
    kiln()
        .arg("check")
        .arg(folder.path("unsafe.bpf"))
        .assert()
        .code(1)
        .stdout(contains("[packet-out-of-bounds]").and(contains("= help: ")).and(contains("*(u8 *)(r2")));
}

#[test]
fn files_that_are_no_objects_are_named_for_what_they_are() {
    const BPF: u16 = 247;
    let folder = Folder::with(&[
        ("empty.o", b""),
        ("text.o", b"hello\n"),
        ("x86.o", &elf_header(62, 1, 64)),
        ("cut.o", &elf_header(BPF, 1, 1 << 20)),
        ("short.o", &elf_header(BPF, 1, 64)[..20]),
        ("nothing.bpf", b""),
        ("bad.bpf", b"; program xdp\n r0 = r77\n exit\n"),
    ]);
    let huge = std::fs::File::create(folder.path("huge.o")).expect("a file");
    huge.set_len(1 << 30).expect("a sparse file");
    for (name, code, said) in [
        ("missing.o", 2, "No such file"),
        (".", 2, "is a folder"),
        ("empty.o", 2, "the file is empty"),
        ("text.o", 2, "not an ELF file"),
        ("x86.o", 2, "compiled for x86, not for BPF"),
        ("cut.o", 2, "the file is cut off"),
        ("short.o", 2, "short.o: "),
        ("huge.o", 2, "1073741824 bytes are more than"),
        ("nothing.bpf", 2, "nothing.bpf"),
        ("bad.bpf", 2, "bad.bpf: "),
    ] {
        for command in ["check", "dump"] {
            if let ("dump", "nothing.bpf") | ("check", ".") = (command, name) {
                // Maps alone can be listed, and so can nothing. A folder stands for its objects.
                continue;
            }
            let begun = Instant::now();
            kiln().arg(command).arg(folder.path(name)).assert().code(code).stdout("").stderr(contains(said));
            assert!(begun.elapsed() < SOON, "{command} {name} took {:?}", begun.elapsed());
        }
    }
}

#[test]
fn big_endian_objects_are_not_supported() {
    let mut bytes = elf_header(0, 2, 0);
    bytes[18..20].copy_from_slice(&247u16.to_be_bytes());
    let folder = Folder::with(&[("big-endian.o", &bytes)]);
    kiln()
        .arg("check")
        .arg(folder.path("big-endian.o"))
        .assert()
        .code(predicate::in_iter([2, 3]))
        .stderr(contains("endian"));
}

#[test]
fn usage_errors_exit_with_2_and_suggest_what_was_meant() {
    let folder = Folder::with(&[("pass.bpf", PASS.as_bytes())]);
    let pass = folder.path("pass.bpf");
    kiln().arg("chek").assert().code(2).stderr(contains("'check'"));
    kiln().args(["check", "--frob"]).arg(&pass).assert().code(2).stderr(contains("--frob"));
    kiln().args(["check", "--type", "xpd"]).arg(&pass).assert().code(2).stderr(contains("did you mean xdp?"));
    kiln().args(["check", "--program", "entri"]).arg(&pass).assert().code(2).stderr(contains("there are: "));
    kiln().args(["explain", "possibly-nul"]).assert().code(2).stderr(contains("did you mean possibly-null?"));
    kiln().args(["optimize", "--budget", "-1", "-o", "x"]).arg(&pass).assert().code(2);
}

#[test]
fn packets_are_checked_before_anything_runs() {
    let folder =
        Folder::with(&[("pass.bpf", PASS.as_bytes()), ("trace.bpf", b"; program tracepoint\n  r0 = 0\n  exit\n")]);
    let pass = folder.path("pass.bpf");
    let run = |packet: &str| {
        let mut command = kiln();
        command.arg("run").arg(&pass).args(["--packet", packet]);
        command
    };
    run("abc").assert().code(2).stderr(contains("end within a byte"));
    run("zz").assert().code(2).stderr(contains("is no hexadecimal digit"));
    run("ab cd").assert().code(2).stderr(contains("2 bytes; 14"));
    run(&"00".repeat(64)).assert().code(0).stdout(contains("returned 2 (XDP_PASS)"));
    run(&"00".repeat(64)).args(["--in", "interpreter"]).assert().code(0).stdout(contains("returned 2 (XDP_PASS)"));
    let trace = folder.path("trace.bpf");
    kiln().arg("run").arg(&trace).assert().code(0).stdout(contains("returned 0"));
    kiln().arg("run").arg(&trace).args(["--packet", "00"]).assert().code(2).stderr(contains("take no packet"));
}

#[test]
fn a_budget_that_runs_out_is_an_error_that_says_so() {
    let folder = Folder::with(&[("pass.bpf", PASS.as_bytes())]);
    let mut command = kiln();
    command.arg("run").arg(folder.path("pass.bpf")).args(["--packet", &"00".repeat(64), "--insn-budget", "2"]);
    command.args(["--in", "interpreter"]).assert().code(1).stderr(contains("limit reached"));
}

#[test]
fn every_command_prints_one_json_document() {
    let folder = Folder::with(&[("pass.bpf", PASS.as_bytes()), ("unsafe.bpf", UNSAFE.as_bytes())]);
    let pass = folder.path("pass.bpf").display().to_string();
    let output = folder.path("out.bpf").display().to_string();
    let json = |arguments: &[&str]| document(kiln().args(arguments).args(["--format", "json"]));
    assert_eq!(json(&["check", &pass])["objects"][0]["programs"][0]["verdict"]["verdict"], "accepted");
    let rejected = json(&["check", &folder.path("unsafe.bpf").display().to_string()]);
    assert_eq!(rejected["objects"][0]["programs"][0]["verdict"]["code"], "packet-out-of-bounds");
    let optimized = json(&["optimize", &pass, "-o", &output, "--offline"]);
    let optimized = &optimized["objects"][0];
    assert!(optimized["programs"][0]["slots_after"].as_u64() < optimized["programs"][0]["slots_before"].as_u64());
    assert_eq!(json(&["run", &pass, "--packet", &"00".repeat(64)])["action"], "XDP_PASS");
    let bench = json(&["bench", &pass, "--offline", "--repeat", "100", "--samples", "2"]);
    // The times are net of an empty program's, which a program of a few instructions may not exceed.
    assert!(bench[0]["vm"]["before"]["median_ns"].as_f64() >= Some(0.0), "{bench}");
    assert!(bench[0]["vm"]["around_ns"].as_f64() > Some(0.0), "{bench}");
    let run = json(&["run", &pass, "--packet", &"00".repeat(64), "--repeat", "100"]);
    assert!(run["around_ns"].as_f64() > Some(0.0), "{run}");
    let dump = json(&["dump", &pass, "--facts"]);
    let instructions = &dump[0]["functions"][0]["instructions"];
    assert_eq!(instructions[2]["slot"], 2);
    assert_eq!(instructions[2]["text"], "r0 += r1");
    assert_eq!(instructions[2]["facts"], "r0=0x1 live r0");
    assert!(json(&["doctor", "--dev"]).as_array().is_some_and(|findings| findings.len() > 20));
    assert!(json(&["explain"]).as_array().is_some_and(|reasons| reasons.len() > 20));
}

#[test]
fn errors_are_json_documents_too() {
    let missing = document(kiln().args(["check", "/nonexistent.o", "--format", "json"]));
    assert_eq!(missing["objects"][0]["error"]["kind"], "invalid-input");
    assert_eq!(missing["objects"][0]["error"]["exit_code"], 2);
    let missing = document(kiln().args(["dump", "/nonexistent.o", "--format", "json"]));
    assert_eq!(missing["error"]["kind"], "invalid-input");
    assert_eq!(missing["error"]["exit_code"], 2);
    let usage = document(kiln().args(["chek", "--format", "json"]));
    assert_eq!(usage["error"]["kind"], "usage");
}

/// A full device is not bad input: the failed call is named, with its `errno`.
#[test]
fn failed_system_calls_say_which() {
    const ENOSPC: i32 = 28;
    let folder = Folder::with(&[("pass.bpf", PASS.as_bytes())]);
    let full = document(kiln().arg("optimize").arg(folder.path("pass.bpf")).args([
        "-o",
        "/dev/full",
        "--offline",
        "--format",
        "json",
    ]));
    assert_eq!(full["error"]["kind"], "os", "{full}");
    assert_eq!(full["error"]["errno"], ENOSPC, "{full}");
    assert_eq!(full["error"]["exit_code"], 3, "{full}");
    for argument in ["explain", "--help", "--version"] {
        let out = std::fs::File::create("/dev/full").expect("a device");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_kiln")).arg(argument).stdout(out).output();
        let output = output.expect("kiln runs");
        assert_eq!(output.status.code(), Some(3), "{argument}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("standard output: No space left"), "{output:?}");
    }
    let mut cc = kiln();
    cc.env("KILN_CLANG", "/nonexistent/clang").args(["cc", "--", "-c", "a.c"]);
    cc.assert().code(3).stderr(contains("/nonexistent/clang: No such file").and(contains("install clang")));
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_work() {
    let folder = Folder::with(&[("pass.bpf", PASS.as_bytes())]);
    let optimize = |output: PathBuf| {
        let mut command = kiln();
        command.arg("optimize").arg(folder.path("pass.bpf")).arg("-o").arg(output).arg("--offline");
        command
    };
    optimize(folder.path("no/such/out.bpf")).assert().code(2).stderr(contains("there is no such folder"));
    optimize(folder.path(".")).assert().code(2).stderr(contains("is a folder"));
    optimize(folder.path("out.o")).assert().code(2).stderr(contains("name a file that ends in .bpf"));
    optimize("/proc/out.bpf".into()).assert().code(2).stderr(contains("cannot write into /proc"));
    assert_eq!(folder.names(), ["pass.bpf"]);
    optimize("/dev/null".into()).assert().code(0);
    assert!(!Path::new("/dev/null").is_file(), "a device was replaced by a file");
}

#[test]
fn an_object_goes_to_standard_output_alone() {
    let folder = Folder::with(&[("pass.bpf", PASS.as_bytes())]);
    let optimize = |output: &str, more: &[&str]| {
        let mut command = kiln();
        command.arg("optimize").arg(folder.path("pass.bpf")).args(["-o", output, "--offline"]).args(more);
        command.current_dir(folder.path(""));
        command.assert()
    };
    let first = |byte: &str| predicates::str::starts_with(byte.to_owned());
    optimize("-", &[]).code(0).stdout(first(";").and(contains("rewrites in").not()));
    optimize("-", &["--format", "json"]).code(2).stderr(contains("cannot both go to standard output"));
    optimize("out.bpf", &["--report", "./out.bpf"]).code(2).stderr(contains("are one file"));
    assert_eq!(folder.names(), ["pass.bpf"]);
}

#[cfg(unix)]
#[test]
fn the_input_can_be_replaced_and_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::with(&[("pass.bpf", PASS.as_bytes())]);
    let (pass, link) = (folder.path("pass.bpf"), folder.path("link.bpf"));
    std::fs::set_permissions(&pass, std::fs::Permissions::from_mode(0o640)).expect("a mode");
    std::os::unix::fs::symlink(&pass, &link).expect("a link");
    kiln().arg("optimize").arg(&pass).arg("-o").arg(&link).arg("--offline").assert().code(0);
    assert!(std::fs::read_to_string(&pass).expect("a file").len() != PASS.len(), "not replaced");
    assert_eq!(std::fs::metadata(&pass).expect("a file").permissions().mode() & 0o777, 0o640);
    assert!(std::fs::symlink_metadata(&link).expect("a link").is_symlink(), "the link was replaced");
    assert_eq!(folder.names(), ["link.bpf", "pass.bpf"]);
    kiln().arg("check").arg(&pass).assert().code(0);
}

#[test]
fn no_colours_where_there_is_no_terminal() {
    let folder = Folder::with(&[("unsafe.bpf", UNSAFE.as_bytes())]);
    let plain = || contains("\x1b").not();
    kiln().arg("check").arg(folder.path("unsafe.bpf")).assert().stdout(plain()).stderr(plain());
    kiln().arg("check").arg("/nonexistent.o").assert().stdout(plain()).stderr(plain());
    kiln()
        .env("CLICOLOR_FORCE", "1")
        .arg("check")
        .arg(folder.path("unsafe.bpf"))
        .assert()
        .stdout(contains("\x1b[1m\x1b[91merror[packet-out-of-bounds]"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    // Long enough to fill any pipe.
    let mut text = "; program xdp\n  r0 = 0\n".to_owned();
    text.push_str(&"  r0 += 1\n".repeat(20_000));
    text.push_str("  exit\n");
    let folder = Folder::with(&[("long.bpf", text.as_bytes())]);
    let mut child = Process::new(env!("CARGO_BIN_EXE_kiln"))
        .arg("dump")
        .arg(folder.path("long.bpf"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kiln starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("kiln ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn version_help_and_completions() {
    kiln().arg("--version").assert().code(0).stdout(contains(concat!("kiln ", env!("CARGO_PKG_VERSION"))));
    for command in ["check", "optimize", "run", "bench", "dump"] {
        kiln().args([command, "--help"]).assert().code(0).stdout(contains("Examples:"));
    }
    for shell in ["bash", "zsh", "fish"] {
        kiln().args(["completions", shell]).assert().code(0).stdout(contains("KILN_COMPLETE"));
    }
}

#[test]
fn core_relocations_and_source_are_named() {
    let Some(object) = corpus_object("samples-6.1/xdp_router_ipv4.o") else { return };
    kiln().arg("dump").arg(&object).assert().code(0).stdout(
        contains("CO-RE field_byte_offset of struct xdp_md.data_end")
            .and(contains("CO-RE field_byte_offset of struct net_device.ifindex"))
            .and(contains("; xdp_router_ipv4.bpf.c:"))
            .and(contains("call map_lookup_elem"))
            .and(contains("map[lpm_map]")),
    );
    let dump =
        document(kiln().arg("dump").arg(&object).args(["--program", "xdp_router_ipv4_prog", "--format", "json"]));
    let instructions = dump[0]["functions"][0]["instructions"].as_array().expect("instructions");
    let map = instructions.iter().find(|line| line["reference"]["kind"] == "map").expect("a map");
    assert_eq!(map["reference"]["name"], "rx_cnt", "{map}");
    assert!(map["line"].as_u64() > Some(0), "{map}");
}

#[test]
fn only_the_named_program_is_optimized() {
    let body = "  r1 = 1\n  r0 = 2\n  exit\n";
    let text = format!("; program xdp name one\n{body}; program xdp name two\n{body}");
    let folder = Folder::with(&[("two.bpf", text.as_bytes())]);
    let mut command = kiln();
    command.arg("optimize").arg(folder.path("two.bpf")).arg("-o").arg(folder.path("out.bpf"));
    let report = document(command.args(["--offline", "--program", "one", "--format", "json"]));
    let report = &report["objects"][0];
    assert_eq!(report["programs"][0]["slots_after"], 2, "{report}");
    assert_eq!(report["programs"][1]["slots_after"], 3, "{report}");
}

/// A page about the result does not change it, whatever was rewritten: the goal here makes updates atomic.
#[test]
fn a_report_does_not_change_the_object() {
    let test = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/superopt");
    for name in ["counter-atomic-for-size.bpf", "blocks-alike-by-a-constant.bpf", "result-from-a-null-pointer.bpf"] {
        let folder = Folder::with(&[]);
        let optimize = |output: &str, more: &[&str]| {
            let mut command = kiln();
            command.arg("optimize").arg(test.join(name)).arg("-o").arg(folder.path(output));
            command.args(["--goal", "size", "--offline"]).args(more).assert().code(0);
            std::fs::read(folder.path(output)).expect("an object")
        };
        let page = folder.path("page.html");
        let plain = optimize("plain.bpf", &[]);
        let reported = optimize("reported.bpf", &["--report", page.to_str().expect("text")]);
        assert_eq!(String::from_utf8_lossy(&plain), String::from_utf8_lossy(&reported), "{name}");
    }
}
