//! `kiln sandbox` and the kernel's verdict on its result: what it accepts is written, and what it refuses is not.

use std::path::Path;
use std::process::{Command, Output};

/// A loop without a bound, that clang does not remove.
const LOOP: &str = r#"while (x != 24) { x = (x * 5 + 1) & 255; asm volatile("" : "+r"(x)); }"#;

const HEADER: &str = r#"
typedef unsigned long long u64;
#define SEC(name) __attribute__((section(name), used))
#define KSYM __attribute__((section(".ksyms")))
char _license[] SEC("license") = "GPL";
"#;

/// Compiles and sandboxes `name`.c in a folder; `None` where that cannot be tried here.
fn sandboxed(folder: &Path, name: &str, source: &str) -> Option<Output> {
    if let Err(why) = kiln_driver::require_kernel() {
        eprintln!("skipped: {why}");
        return None;
    }
    std::fs::write(folder.join(format!("{name}.c")), format!("{HEADER}{}", source.replace("LOOP", LOOP)))
        .expect("a file");
    let object = format!("{name}.o");
    let flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-c", &format!("{name}.c"), "-o", &object];
    let Ok(compiled) = Command::new("clang-19").args(flags).current_dir(folder).output() else {
        eprintln!("skipped: no clang-19");
        return None;
    };
    assert!(compiled.status.success(), "{compiled:?}");
    let mut kiln = Command::new(env!("CARGO_BIN_EXE_kiln"));
    Some(kiln.args(["sandbox", &object, "-o", "result.o"]).current_dir(folder).output().expect("kiln runs"))
}

/// A program without guards could be loaded beside sandboxed ones.
#[test]
fn no_program_is_left_out() {
    let arguments = ["sandbox", "a.o", "-p", "one", "-o", "b.o"];
    let output = Command::new(env!("CARGO_BIN_EXE_kiln")).args(arguments).output().expect("kiln runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("unexpected argument '-p'"), "{text}");
}

/// Kiln knows the helper; a kernel without error injection gives it to nobody.
#[test]
fn a_refused_result_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = r#"
static long (*override_return)(void *, u64) = (void *)58;
SEC("kprobe/never_attached") int refused(void *ctx)
{
    u64 x = 7;
    LOOP
    override_return(ctx, x);
    return 0;
}
"#;
    std::fs::write(folder.path().join("result.o"), "an older result").expect("a file");
    let Some(output) = sandboxed(folder.path(), "refused", source) else { return };
    if output.status.success() {
        eprintln!("skipped: this kernel takes bpf_override_return");
        return;
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("the kernel refuses the sandboxed program"), "{text}");
    assert!(text.contains("(after refused.c:") && text.contains("nothing was written"), "{text}");
    assert_eq!(std::fs::read_to_string(folder.path().join("result.o")).expect("the file"), "an older result");
}

/// The callback of a work queue runs later, and may return 0 only.
#[test]
fn the_callback_of_a_work_queue() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = r#"
struct bpf_wq { u64 opaque[2]; };
struct item { struct bpf_wq work; u64 number; };
struct {
    int (*type)[2];
    int (*max_entries)[2];
    int *key;
    struct item *value;
} items SEC(".maps");
static void *(*map_lookup)(void *, const void *) = (void *)1;
extern int bpf_wq_init(struct bpf_wq *, void *, unsigned) KSYM;
extern int bpf_wq_start(struct bpf_wq *, unsigned) KSYM;
extern int bpf_wq_set_callback_impl(struct bpf_wq *, int (*)(void *, int *, void *), unsigned, void *) KSYM;
static int later(void *map, int *key, void *value)
{
    struct item *item = value;
    u64 x = item->number;
    LOOP
    item->number = x;
    return 0;
}
SEC("tc") int start(void *ctx)
{
    int key = 0;
    struct item *item = map_lookup(&items, &key);
    if (!item || bpf_wq_init(&item->work, &items, 0) || bpf_wq_set_callback_impl(&item->work, later, 0, 0))
        return 0;
    bpf_wq_start(&item->work, 0);
    return 0;
}
"#;
    let Some(output) = sandboxed(folder.path(), "later", source) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let points = text.lines().find(|line| line.trim_start().starts_with("later")).expect("a row of the callback");
    assert_eq!(points.split_whitespace().nth(4), Some("1"), "{text}");
    assert!(text.contains("start: accepted by the kernel"), "{text}");
}

/// What runs when a program throws cannot be cancelled: a loop in it is refused, with its line.
#[test]
fn a_loop_in_an_exception_callback() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = r#"
extern void bpf_throw(u64) KSYM;
struct __sk_buff { unsigned len, type, mark; };
__attribute__((noinline)) int thrown(u64 cookie)
{
    u64 x = cookie & 255;
    LOOP
    return x;
}
SEC("tc") __attribute__((btf_decl_tag("exception_callback:thrown"))) int throws(struct __sk_buff *ctx)
{
    if (ctx->len == 77)
        bpf_throw(3);
    return 0;
}
"#;
    let Some(output) = sandboxed(folder.path(), "throws", source) else { return };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("of thrown") && text.contains("throws.c:"), "{text}");
    assert!(!folder.path().join("result.o").exists());
}
