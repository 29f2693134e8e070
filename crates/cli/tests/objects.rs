//! Objects of unusual shapes, assembled here: what is read of them, what is refused, and for what reason.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use std::path::PathBuf;
use std::process::Command as Process;

use predicates::prelude::*;
use predicates::str::contains;
use world::{compile, in_json, kiln, places};

/// An object made of one source by clang; removed with its folder.
struct Made {
    folder: tempfile::TempDir,
}

impl Made {
    /// Compiles `source`, which is of clang's language `language`; `None`, with a message, if clang is not installed.
    fn by_clang(language: &str, source: &str) -> Option<Made> {
        let made = Made { folder: tempfile::tempdir().expect("a temporary folder") };
        let input = made.folder.path().join("source");
        std::fs::write(&input, source).expect("a file");
        compile(&input, &made.path(), &["-x", language]).then_some(made)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("made.o")
    }
}

/// The programs of the one object of a document.
fn programs(document: &serde_json::Value) -> &Vec<serde_json::Value> {
    document["objects"][0]["programs"].as_array().expect("programs")
}

const PACKET: &str = "ffffffffffff0202020202020800450000140000000040110000010203040506070800000000";

/// What C needs to know of maps and helpers.
const HEADER: &str = "\
typedef unsigned int u32;
struct xdp_md { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex; };
struct skb { u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority, ingress_ifindex,
    ifindex, tc_index, cb[5]; };
#define SEC(name) __attribute__((section(name), used))
static long (*tail_call)(void *, void *, u32) = (void *)12;
static void *(*lookup)(void *, const void *) = (void *)1;
char _license[] SEC(\"license\") = \"GPL\";
";

#[test]
fn tail_calls_lead_to_the_other_programs_of_the_object() {
    let source = format!(
        "{HEADER}
int third(struct xdp_md *ctx), second(struct xdp_md *ctx);
struct {{ int (*type)[3]; int (*max_entries)[4]; int (*key_size)[4]; int (*values[])(struct xdp_md *); }} jumps SEC(\".maps\")
    = {{ .values = {{ [1] = second, [3] = third }} }};
struct {{ int (*type)[2]; int (*max_entries)[1]; u32 *key, *value; }} total SEC(\".maps\");
static void add(u32 part) {{ u32 zero = 0; u32 *sum = lookup(&total, &zero); if (sum) *sum += part; }}
static u32 sum(void) {{ u32 zero = 0; u32 *sum = lookup(&total, &zero); return sum ? *sum : 0; }}
SEC(\"xdp\") int first(struct xdp_md *ctx) {{ add(1); tail_call(ctx, &jumps, 0); add(20); tail_call(ctx, &jumps, 1); return sum(); }}
SEC(\"xdp\") int second(struct xdp_md *ctx) {{ add(300); tail_call(ctx, &jumps, 3); return sum(); }}
SEC(\"xdp\") int third(struct xdp_md *ctx) {{ add(3000); return sum(); }}
SEC(\"xdp\") int unused(struct xdp_md *ctx) {{ return *(volatile int *)(long)ctx->data; }}
"
    );
    let Some(made) = Made::by_clang("c", &source) else { return };
    for place in places() {
        let ran = |program: &str| {
            let mut run = kiln();
            run.arg("run").arg(made.path()).args(["--program", program, "--packet", PACKET, "--in", place]);
            in_json(&mut run)["value"].clone()
        };
        assert_eq!((ran("first"), ran("second"), ran("third")), (3321.into(), 3300.into(), 3000.into()), "{place}");
    }
}

#[test]
fn a_tail_call_into_a_program_that_is_refused_is_refused() {
    let with = |section: &str, body: &str| {
        format!(
            "{HEADER}
int second(struct xdp_md *ctx);
struct {{ int (*type)[3]; int (*max_entries)[1]; int (*key_size)[4]; int (*values[])(struct xdp_md *); }} jumps SEC(\".maps\")
    = {{ .values = {{ [0] = second }} }};
SEC(\"xdp\") int first(struct xdp_md *ctx) {{ tail_call(ctx, &jumps, 0); return 2; }}
SEC(\"{section}\") int second(struct xdp_md *ctx) {{ {body} }}
"
        )
    };
    let unsafe_target = with("xdp", "return *(volatile int *)(long)ctx->data;");
    let other_type = with("tc", "return 0;");
    for (source, said) in [(unsafe_target, "packet-out-of-bounds"), (other_type, "a program of another type")] {
        let Some(made) = Made::by_clang("c", &source) else { return };
        let run = |place: &str| {
            let mut run = kiln();
            run.arg("run").arg(made.path()).args(["--program", "first", "--packet", PACKET, "--in", place]);
            run.assert()
        };
        run("jit").code(1).stderr(contains(said).or(contains("packet")));
        if places().contains(&"kernel") {
            // The system call fails where the map is filled, not in the verifier.
            run("kernel").code(predicate::in_iter([1, 3]));
        }
    }
}

#[test]
fn what_a_program_left_in_its_socket_buffer_is_shown() {
    let source = format!(
        "{HEADER}
SEC(\"tc\") int marks(struct skb *skb) {{ skb->cb[0] = 7; skb->cb[4] = 0xabcd; skb->mark = 5; skb->priority = 3; return 0; }}
SEC(\"socket\") int cb_only(struct skb *skb) {{ skb->cb[1] = skb->len; return 0; }}
"
    );
    let Some(made) = Made::by_clang("c", &source) else { return };
    for place in places() {
        let run = |program: &str| {
            let mut run = kiln();
            run.arg("run").arg(made.path()).args(["--program", program, "--packet", PACKET, "--in", place]);
            run
        };
        let fields = &in_json(&mut run("marks"))["socket_buffer"];
        let wanted = serde_json::json!({"mark": 5, "priority": 3, "cb": [7, 0, 0, 0, 0xabcd], "tstamp": 0});
        assert_eq!(*fields, wanted, "{place}");
        run("marks").assert().stdout(contains("socket buffer: cb 0x7 0x0 0x0 0x0 0xabcd, mark 0x5, priority 0x3\n"));
        let length = PACKET.len() / 2 - 14;
        assert_eq!(in_json(&mut run("cb_only"))["socket_buffer"]["cb"][1], length, "{place}");
    }
}

/// Five programs: two that are good, and three that cannot be read.
const HALF_READABLE: &str = "\
.section xdp/good,\"ax\",@progbits
.globl good
.type good,@function
good: r0 = 2
  exit
.size good, .-good
.section xdp/other,\"ax\",@progbits
.globl other
.type other,@function
other: r0 = 1
  r0 += 1
  exit
.size other, .-other
.section xdp/opcode,\"ax\",@progbits
.globl opcode
.type opcode,@function
opcode: .quad 0x00000000000000ff
  r0 = 0
  exit
.size opcode, .-opcode
.section xdp/symbol,\"ax\",@progbits
.globl symbol
.type symbol,@function
symbol: call defined_nowhere
  exit
.size symbol, .-symbol
.section xdp/end,\"ax\",@progbits
.globl end
.type end,@function
end: r0 = 0
.size end, .-end
";

#[test]
fn what_cannot_be_read_refuses_one_program() {
    let Some(made) = Made::by_clang("assembler", HALF_READABLE) else { return };
    let path = made.path();
    let mut check = kiln();
    check.arg("check").arg(&path);
    check.assert().code(2).stdout(
        contains("accepted good")
            .and(contains("accepted other"))
            .and(contains("invalid opcode: "))
            .and(contains("invalid symbol: ").and(contains("defined_nowhere is defined nowhere")))
            .and(contains("invalid end: ").and(contains("runs past its end"))),
    );
    let verdicts = in_json(kiln().arg("check").arg(&path));
    let verdicts: Vec<_> = programs(&verdicts).iter().map(|one| &one["verdict"]["verdict"]).collect();
    assert_eq!(verdicts, ["accepted", "accepted", "invalid", "invalid", "invalid"]);
    kiln().arg("check").arg(&path).args(["--program", "good"]).assert().code(0);
    kiln().arg("check").arg(&path).args(["--program", "symbol"]).assert().code(2).stderr(contains("defined nowhere"));
    kiln().arg("check").arg(&path).args(["--kernel", "6.1"]).assert().code(2).stdout(contains("not known"));
    kiln().arg("run").arg(&path).args(["--program", "other", "--packet", PACKET]).assert().code(0);
    kiln().arg("dump").arg(&path).assert().code(0).stderr(contains("left out: opcode: "));
    // What can be read is optimized; what cannot stays as it is, byte by byte.
    let smaller = made.folder.path().join("smaller.o");
    kiln().arg("optimize").arg(&path).arg("-o").arg(&smaller).arg("--offline").assert().code(2);
    let again = in_json(kiln().arg("check").arg(&smaller));
    let slots: Vec<_> = programs(&again).iter().map(|one| one["slots"].as_u64()).collect();
    assert_eq!(slots, [2, 2, 3, 2, 1].map(Some));
}

#[test]
fn callers_of_what_cannot_be_read_are_refused_with_it() {
    let source = "\
.text
.type callee,@function
callee: call deeper
  exit
.size callee, .-callee
.type deeper,@function
deeper: .quad 0x00000000000000ff
  exit
.size deeper, .-deeper
.section xdp/caller,\"ax\",@progbits
.globl caller
.type caller,@function
caller: call callee
  exit
.size caller, .-caller
.section xdp/good,\"ax\",@progbits
.globl good
.type good,@function
good: r0 = 1
  r0 += 1
  exit
.size good, .-good
";
    let Some(made) = Made::by_clang("assembler", source) else { return };
    let path = made.path();
    kiln().arg("check").arg(&path).assert().code(2).stdout(
        contains("accepted good").and(contains("invalid caller: ")).and(contains("it needs function deeper: ")),
    );
    // `callee` calls by distance, which would be wrong if code moved.
    let output = made.folder.path().join("out.o");
    let mut optimize = kiln();
    optimize.arg("optimize").arg(&path).arg("-o").arg(&output).arg("--offline");
    optimize.assert().code(3).stderr(contains("cannot be read, and refers to other code or to debug data"));
    assert!(!output.exists());
}

/// Rewriting leaves debug sections out: what cannot be read since it refers to one would mean something else after it.
#[test]
fn what_refers_to_a_debug_section_forbids_rewriting() {
    let source = "\
.section .debug_own,\"\",@progbits
own: .quad 0
.section xdp/debug,\"ax\",@progbits
.globl debug
.type debug,@function
debug: r1 = own ll
  r0 = 0
  exit
.size debug, .-debug
.section xdp/good,\"ax\",@progbits
.globl good
.type good,@function
good: r0 = 1
  r0 += 1
  exit
.size good, .-good
";
    let Some(made) = Made::by_clang("assembler", source) else { return };
    let path = made.path();
    kiln().arg("check").arg(&path).assert().stdout(contains("accepted good").and(contains("debug: ")));
    let output = made.folder.path().join("out.o");
    let mut optimize = kiln();
    optimize.arg("optimize").arg(&path).arg("-o").arg(&output).arg("--offline");
    optimize.assert().code(3).stderr(contains("cannot be read, and refers to"));
    assert!(!output.exists());
}

#[test]
fn functions_in_text_are_programs_where_a_type_says_so() {
    let source = format!(
        "{HEADER}
__attribute__((noinline)) static int inner(u32 x) {{ asm volatile(\"\" : \"+r\"(x)); return x; }}
int entry(struct xdp_md *ctx) {{ return inner(2); }}
"
    );
    let Some(made) = Made::by_clang("c", &source) else { return };
    let path = made.path();
    kiln().arg("check").arg(&path).assert().code(2).stderr(contains("say what they are: --type entry=TYPE"));
    kiln().arg("check").arg(&path).args(["--type", "entri=xdp"]).assert().code(2).stderr(contains("--type entry=TYPE"));
    for (types, names) in [("xdp", vec!["entry"]), ("entry=xdp", vec!["entry"]), ("inner=xdp", vec!["inner"])] {
        let verdicts = in_json(kiln().arg("check").arg(&path).args(["--type", types]));
        let found: Vec<_> = programs(&verdicts).iter().map(|one| &one["program"]).collect();
        assert_eq!(found, names, "{types}");
    }
    let mut run = kiln();
    run.arg("run").arg(&path).args(["--type", "entry=xdp", "--program", "entry", "--packet", PACKET]);
    run.assert().code(0).stdout(contains("returned 2 (XDP_PASS)"));
}

#[test]
fn code_without_symbol_types_is_named_as_such() {
    let source = "\
.section xdp,\"ax\",@progbits
.globl old
old: r0 = 2
  exit
";
    let Some(made) = Made::by_clang("assembler", source) else { return };
    for command in ["check", "run"] {
        let mut command_line = kiln();
        command_line.arg(command).arg(made.path()).args(["--program", "old"]);
        command_line
            .assert()
            .code(2)
            .stderr(contains("symbol old there has no type").and(contains("compile it again")));
    }
    let why = "holds no programs: section xdp holds code";
    kiln().arg("check").arg(made.path()).assert().code(2).stderr(contains(why));
    let output = made.folder.path().join("out.o");
    kiln().arg("optimize").arg(made.path()).arg("-o").arg(&output).assert().code(2).stderr(contains(why));
    assert!(!output.exists());
}

/// A table of `struct_ops` whose programs are elsewhere is no mistake.
#[test]
fn an_object_of_maps_alone_is_read_and_said_to_be_one() {
    let source = "\
#define SEC(name) __attribute__((section(name), used))
struct tcp_congestion_ops { char name[16]; };
SEC(\".struct_ops\") struct tcp_congestion_ops mine = { .name = \"mine\" };
char LICENSE[] SEC(\"license\") = \"GPL\";
";
    let Some(made) = Made::by_clang("c", source) else { return };
    let said = "holds no programs, only maps: mine (struct_ops)";
    let output = made.folder.path().join("out.o");
    kiln().arg("check").arg(made.path()).assert().code(0).stdout(contains(said).and(contains("0 programs")));
    let mut optimize = kiln();
    optimize.arg("optimize").arg(made.path()).arg("-o").arg(&output).arg("--offline");
    optimize.assert().code(0).stdout(contains(said).and(contains("rewrites").not()));
    assert_eq!(std::fs::read(output).ok(), std::fs::read(made.path()).ok());
}

/// Opcode 0x11 stands for nothing.
#[test]
fn an_object_none_of_whose_programs_can_be_read() {
    let source =
        "\t.section xdp,\"ax\",@progbits\n\t.globl p\n\t.type p,@function\np:\n\t.quad 0x11\n\texit\n\t.size p, .-p\n";
    let Some(made) = Made::by_clang("assembler", source) else { return };
    let run = |arguments: &[&str]| {
        let mut command = kiln();
        command.arg(arguments[0]).arg(made.path()).args(&arguments[1..]).current_dir(made.folder.path());
        command.assert()
    };
    for more in [&["check"][..], &["check", "--profile"], &["check", "--kernel", "6.1"], &["check", "--format", "json"]]
    {
        run(more).code(2).stdout(contains("unknown opcode 0x11"));
    }
    run(&["check", "--flame-graph", "graph.svg"]).code(2).stderr(contains("no program could be verified"));
    run(&["sandbox", "-o", "out.o"])
        .code(2)
        .stderr(contains("p cannot be sandboxed").and(contains("unknown opcode 0x11")));
    run(&["optimize", "-o", "out.o", "--offline"]).code(2).stderr(contains("left out: p"));
    run(&["run", "--packet", "00"]).code(2).stderr(contains("choose one program"));
}

/// Code for kernels before 6.1 only, and for kernels with a field that no kernel has. Both would be rejected.
const FOR_OTHER_KERNELS: &str = "
extern int LINUX_KERNEL_VERSION __attribute__((section(\".kconfig\")));
struct task_struct { int pid, kiln_has_no_such_field; } __attribute__((preserve_access_index));
SEC(\"xdp\") int versions(struct xdp_md *ctx)
{
	if (LINUX_KERNEL_VERSION < ((6 << 16) + (1 << 8)))
		return *(volatile int *)(long)ctx->data;
	return 2;
}
SEC(\"xdp\") int fields(struct xdp_md *ctx)
{
	struct task_struct *task = 0;
	if (__builtin_preserve_field_info(task->kiln_has_no_such_field, 2))
		return *(volatile int *)(long)ctx->data;
	return 2;
}
";

#[test]
fn verdicts_are_about_one_kernel_and_say_which() {
    let Some(made) = Made::by_clang("c", &format!("{HEADER}{FOR_OTHER_KERNELS}")) else { return };
    let check = |more: &[&str]| {
        let mut command = kiln();
        command.arg("check").arg(made.path()).args(more);
        command.assert()
    };
    check(&["--kernel", "5.15,6.1", "--program", "versions"]).code(1).stdout(contains("6.1 and up"));
    check(&["--kernel", "6.6", "--program", "versions"]).code(0);
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skipped: the running kernel has no BTF");
        check(&[]).stdout(contains("without a kernel's BTF"));
        return;
    }
    check(&[]).code(0).stdout(contains("as Linux 6.18, BTF of the running kernel"));
    check(&["--btf", "/sys/kernel/btf/vmlinux"]).code(0).stdout(contains("BTF of /sys/kernel/btf/vmlinux"));
    if kiln_driver::require_kernel().is_ok() {
        check(&["--with-kernel"]).code(0).stdout(contains("the kernel: accepted").and(contains("disagreement").not()));
    }
}

/// Types of a kernel: what clang says of these declarations, as `name` in `folder`.
fn types_of_a_kernel(folder: &std::path::Path, name: &str, declarations: &str) -> Option<PathBuf> {
    let made = Made::by_clang("c", declarations)?;
    std::fs::create_dir_all(folder).expect("a folder");
    let path = folder.join(name);
    let section = format!(".BTF={}", path.display());
    let mut copy = Process::new("llvm-objcopy-19");
    match copy.args(["--dump-section", &section]).arg(made.path()).arg(made.folder.path().join("rest.o")).status() {
        Ok(status) => assert!(status.success(), "llvm-objcopy fails"),
        Err(error) => {
            eprintln!("skipped: llvm-objcopy-19: {error}");
            return None;
        }
    }
    Some(path)
}

#[test]
fn a_folder_has_types_for_each_release() {
    let Some(made) = Made::by_clang("c", &format!("{HEADER}{FOR_OTHER_KERNELS}")) else { return };
    let folder = made.folder.path().join("hub/debian/12").join(std::env::consts::ARCH);
    let older = "struct task_struct { int pid; } task;";
    let newer = "struct task_struct { int pid, kiln_has_no_such_field; } task;";
    let Some(older) = types_of_a_kernel(&folder, "5.15.0-1-amd64.btf", older) else { return };
    let Some(newer) = types_of_a_kernel(&folder, "6.1.0-2-amd64.btf", newer) else { return };
    let mut pack = Process::new("tar");
    pack.arg("-C")
        .arg(&folder)
        .arg("-cJf")
        .arg(older.with_extension("btf.tar.xz"))
        .arg(older.file_name().expect("a name"));
    assert!(pack.status().expect("tar runs").success());
    std::fs::remove_file(&older).expect("a file");
    let check = |more: &[&str]| {
        let mut command = kiln();
        command.current_dir(made.folder.path()).args(["check", "made.o", "--program", "fields"]).args(more);
        command
    };
    // The field is there on 6.1 only, and what stands behind the question whether it exists is wrong.
    check(&["--btf", "hub"])
        .assert()
        .code(1)
        .stdout(contains("as Linux 5.15, BTF of hub/debian/12/").and(contains("5.15.0-1-amd64.btf.tar.xz")))
        .stdout(contains("all programs load on: 5.15\n"));
    check(&["--btf", "hub", "--kernel", "5.15"]).assert().code(0);
    check(&["--btf", "hub", "--kernel", "6.6"])
        .assert()
        .code(2)
        .stderr(contains("no types of Linux 6.6; it has 5.15, 6.1"));
    check(&["--btf", "hub", "--with-kernel"]).assert().code(2).stderr(contains("a folder of several"));
    check(&["--btf", &newer.display().to_string()]).assert().code(1).stdout(contains("as Linux 6.18, BTF of "));

    // A project's file names the same, the environment before it, and the command line before that.
    std::fs::write(made.folder.path().join("kiln.toml"), "kernel = [\"6.1\"]\nbtf = \"hub\"\n").expect("a file");
    check(&[]).assert().code(1).stdout(contains("as Linux 6.1 (").and(contains("kiln.toml), BTF of ")));
    check(&[]).env("KILN_KERNEL", "5.15").assert().code(0).stdout(contains("as Linux 5.15 (KILN_KERNEL), BTF of "));
    check(&["--kernel", "6.1"]).env("KILN_KERNEL", "5.15").assert().code(1).stdout(contains("as Linux 6.1, BTF of "));
    check(&[]).env("KILN_KERNEL", "old").assert().code(2).stderr(contains("KILN_KERNEL: \"old\": a release "));
    let found = in_json(&mut check(&[]));
    assert!(found["objects"][0]["named_by"].as_str().is_some_and(|by| by.ends_with("kiln.toml")), "{found}");
    let mut optimize = kiln();
    optimize.current_dir(made.folder.path()).args(["optimize", "made.o", "-o", "out.o", "--offline"]);
    optimize.args(["--program", "versions"]);
    optimize.assert().code(0).stdout(contains("to load on 6.1 (").and(contains("kiln.toml)")));
}

/// What `freplace` programs of these tests stand for.
const REPLACED: &str = "
struct __sk_buff { unsigned int len; };
#define SEC(name) __attribute__((section(name), used))
static long (*bpf_skb_pull_data)(struct __sk_buff *skb, unsigned int len) = (void *)39;
__attribute__((noinline)) int length(struct __sk_buff *skb) { volatile int len = skb->len; return len; }
__attribute__((noinline)) int pull(struct __sk_buff *skb, int bytes) { return bpf_skb_pull_data(skb, bytes); }
static __attribute__((noinline)) int own(struct __sk_buff *skb) { volatile int len = skb->len; return len; }
SEC(\"tc\") int prog(struct __sk_buff *skb) { return length(skb) + pull(skb, 3) + own(skb); }
char _license[] SEC(\"license\") = \"GPL\";
";

/// Each replacement, and what both Kiln and the kernel say of it.
const REPLACEMENTS: &[(&str, &str)] = &[
    ("freplace/length\") int shorter(struct __sk_buff *skb) { return skb->len > 10 ? 7 : -1; }", "accepted"),
    (
        "freplace/pull\") int pulls(struct __sk_buff *skb, int bytes) { return bpf_skb_pull_data(skb, bytes); }",
        "accepted",
    ),
    ("freplace/length\") int pulls(struct __sk_buff *skb) { return bpf_skb_pull_data(skb, 1); }", "moves packet data"),
    (
        "freplace/length\") int reads(struct __sk_buff *skb) { return *(int *)((char *)skb + 4000); }",
        "bad-context-access",
    ),
    (
        "freplace/pull\") int two(struct __sk_buff *skb) { return 1; }",
        "it takes 1 argument, and what it replaces takes 2",
    ),
    ("freplace/pull\") int other(struct __sk_buff *skb, long bytes) { return 1; }", "argument 2 has another type"),
    ("freplace/own\") int own_too(struct __sk_buff *skb) { return 1; }", "own is not a global function"),
    ("freplace/none\") int none(struct __sk_buff *skb) { return 1; }", "has no function none"),
    ("freplace\") int unnamed(struct __sk_buff *skb) { return 1; }", "its section names no function"),
];

#[test]
fn programs_that_replace_functions_are_held_to_those() {
    let Some(target) = Made::by_clang("c", REPLACED) else { return };
    let header = &REPLACED[..REPLACED.find("__attribute__((noinline))").expect("a function")];
    for (text, said) in REPLACEMENTS {
        let source = format!("{header}\nSEC(\"{text}\nchar _license[] SEC(\"license\") = \"GPL\";\n");
        let Some(made) = Made::by_clang("c", &source) else { return };
        kiln().arg("check").arg(made.path()).assert().code(3).stdout(contains("--replaces PROG.o"));
        let mut check = kiln();
        let asked = kiln_driver::require_kernel().is_ok().then_some("--with-kernel");
        check.arg("check").args(asked).arg("--replaces").arg(target.path()).arg(made.path());
        let output = check.output().expect("kiln runs");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said) && !text.contains("disagree"), "{said}: {text}");
    }
}

/// One program that cannot stand for its function takes nothing from the others, and is not looked at without being asked.
#[test]
fn programs_that_replace_functions_are_judged_one_by_one() {
    let Some(target) = Made::by_clang("c", REPLACED) else { return };
    let header = &REPLACED[..REPLACED.find("__attribute__((noinline))").expect("a function")];
    let source = format!(
        "{header}
SEC(\"freplace/length\") int right(struct __sk_buff *skb) {{ return skb->len > 10 ? 7 : -1; }}
SEC(\"freplace/pull\") int wrong(struct __sk_buff *skb) {{ return 1; }}
char _license[] SEC(\"license\") = \"GPL\";
"
    );
    let Some(made) = Made::by_clang("c", &source) else { return };
    let check = |names: &[&str], code: i32| {
        let mut check = kiln();
        check.arg("check").args(names.iter().flat_map(|name| ["-p", name])).arg("--replaces").arg(target.path());
        check.arg(made.path()).assert().code(code)
    };
    let unlike = "it takes 1 argument, and what it replaces takes 2";
    check(&[], 2).stdout(contains("accepted right")).stdout(contains(unlike));
    check(&["right"], 0).stdout(contains("accepted right"));
    check(&["wrong"], 2).stdout(contains(unlike));
    let mut kernels = kiln();
    kernels.args(["check", "--kernel", "6.6,6.18", "--replaces"]).arg(target.path()).arg(made.path());
    kernels.assert().code(2).stdout(contains(unlike));
}
