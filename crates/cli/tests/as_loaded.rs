//! What commands say of an object as it would be loaded: one verdict, whichever command it comes from.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;

const HEAD: &str = "#define SEC(name) __attribute__((section(name), used))\n\
    #define CORE __attribute__((preserve_access_index))\n\
    char _license[] SEC(\"license\") = \"GPL\";\n\
    struct task_struct___other { int no_such_field; } CORE;\n";

/// Accepted where `no_such_field` is not there, which only a kernel's types say.
const WITHOUT_FIELD: &str = "SEC(\"socket\") int fits(char *skb)\n{\n\
    \tstruct task_struct___other *task = 0;\n\
    \tif (__builtin_preserve_field_info(task->no_such_field, 2))\n\
    \t\treturn *(volatile int *)(skb + 4096);\n\treturn 0;\n}\n";

/// Compiles a source; `None`, with a message, if clang is not installed.
fn compiled(folder: &Path, source: &str) -> Option<PathBuf> {
    let (path, object) = (folder.join("made.c"), folder.join("made.o"));
    std::fs::write(&path, source).expect("a file");
    world::compile(&path, &object, &[]).then_some(object)
}

/// What a command prints on standard output, and its exit code.
fn kiln(object: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    let output = command.arg(arguments[0]).arg(object).args(&arguments[1..]).output().expect("kiln runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

#[test]
fn facts_and_costs_are_of_what_is_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(object) = compiled(folder.path(), &format!("{HEAD}{WITHOUT_FIELD}")) else { return };
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skipped: the running kernel has no BTF");
        return;
    }
    let (checked, code) = kiln(&object, &["check", "--format", "json"]);
    assert_eq!(code, Some(0), "{checked}");
    let (facts, _) = kiln(&object, &["dump", "--facts"]);
    assert!(!facts.contains("no facts") && facts.contains("r1=ctx"), "{facts}");
    let checked: serde_json::Value = serde_json::from_str(&checked).expect("JSON");
    let out = folder.path().join("out.o");
    let (optimized, _) =
        kiln(&object, &["optimize", "-o", out.to_str().expect("a path"), "--budget", "2", "--format", "json"]);
    let optimized: serde_json::Value = serde_json::from_str(&optimized).expect("JSON");
    let verdict = &checked["objects"][0]["programs"][0]["verdict"];
    assert_eq!(&optimized["objects"][0]["programs"][0]["before"], verdict, "{optimized}");
    let (repaired, code) = kiln(&object, &["repair", "-o", out.to_str().expect("a path"), "--offline"]);
    assert!(code == Some(0) && repaired.contains("fits: accepted as it is"), "{repaired}");
    let (measured, _) = kiln(&object, &["bench", "--offline", "--budget", "1", "--samples", "1", "--repeat", "1"]);
    assert!(!measured.contains("rejected"), "{measured}");
    let (ran, code) = kiln(&object, &["run", "--in", "jit", "--packet", &"00".repeat(64)]);
    assert_eq!(code, Some(0), "{ran}");
}

#[test]
fn bench_says_of_a_rejection_what_fits_on_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = format!("{HEAD}SEC(\"socket\") int bad(char *skb) {{ return *(volatile int *)(skb + 4096); }}\n");
    let Some(object) = compiled(folder.path(), &source) else { return };
    let few = ["bench", "--offline", "--budget", "1", "--samples", "1", "--repeat", "1"];
    let (text, _) = kiln(&object, &few);
    assert!(text.contains("bad is rejected: error[bad-context-access]") && !text.contains("\\n"), "{text}");
}

#[test]
fn what_libbpf_does_not_open_is_not_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = format!(
        "{HEAD}SEC(\"xdp\") static int p(void *c) {{ return 2; }}\nSEC(\"xdp\") int q(void *c) {{ return 2; }}\n"
    );
    let Some(object) = compiled(folder.path(), &source) else { return };
    let (text, code) = kiln(&object, &["check"]);
    assert_eq!((text.matches("libbpf does not open the object: p is static").count(), code), (2, Some(2)), "{text}");
}

/// Values of the configuration and maps that no program names: an object, what Kiln says of it, nothing if it loads.
#[test]
fn what_libbpf_does_not_load_is_not_accepted() {
    let extern_of = |declaration: &str, uses: &str| {
        format!("extern {declaration} SEC(\".kconfig\");\nSEC(\"xdp\") int p(void *c) {{ return {uses}; }}\n")
    };
    let map = |members: &str| {
        format!("struct {{ {members} }} bad SEC(\".maps\");\nSEC(\"xdp\") int p(void *c) {{ return 2; }}\n")
    };
    let cases = [
        (extern_of("int CONFIG_HZ", "CONFIG_HZ"), ""),
        (extern_of("_Bool CONFIG_HZ", "CONFIG_HZ"), "CONFIG_HZ is "),
        (extern_of("int CONFIG_BPF", "CONFIG_BPF"), "CONFIG_BPF is y"),
        (extern_of("int CONFIG_NO_SUCH", "CONFIG_NO_SUCH"), "this kernel's configuration has no CONFIG_NO_SUCH"),
        (extern_of("int CONFIG_NO_SUCH __attribute__((weak))", "CONFIG_NO_SUCH"), ""),
        (extern_of("int NO_PREFIX __attribute__((weak))", "NO_PREFIX"), "no NO_PREFIX"),
        (extern_of("int LINUX_NO_SUCH", "LINUX_NO_SUCH"), "no LINUX_NO_SUCH"),
        (extern_of("_Bool LINUX_HAS_BPF_COOKIE", "LINUX_HAS_BPF_COOKIE"), ""),
        (extern_of("short LINUX_KERNEL_VERSION", "LINUX_KERNEL_VERSION"), "LINUX_KERNEL_VERSION is "),
        (map("int (*type)[2]; int (*max_entries)[1]; int *key; int *value;"), ""),
        (map("int (*type)[2]; int (*max_entries)[1]; long *key; int *value;"), "the kernel makes no map bad: a key"),
        (map("int (*type)[1]; int (*map_flags)[1 << 20]; int (*max_entries)[1]; int *key; int *value;"), "map_flags"),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for (body, said) in cases {
        let Some(object) = compiled(folder.path(), &format!("{HEAD}{body}")) else { return };
        if kiln_linux::available().is_err() || !Path::new("/proc/config.gz").exists() {
            eprintln!("skipped: no kernel whose configuration is known");
            return;
        }
        let (text, code) = kiln(&object, &["check"]);
        let expected = if said.is_empty() { "accepted p" } else { "invalid p: libbpf does not load the object: " };
        assert!(text.contains(expected) && text.contains(said), "{body}{text}");
        assert_eq!(code, Some(if said.is_empty() { 0 } else { 2 }), "{body}");
        let bytes = std::fs::read(&object).expect("the object");
        let opened = kiln_linux::ObjectFile::open("made.o", &bytes).expect("libbpf opens it");
        assert_eq!(opened.load().is_ok(), said.is_empty(), "{body}");
    }
}

/// A kernel without `CONFIG_KALLSYMS_ALL` has types of variables, and not their addresses.
#[test]
fn a_variable_needs_an_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = format!(
        "{HEAD}extern const int __preempt_count SEC(\".ksyms\");\nstatic int *(*here)(const void *) = (void *)154;\n\
         SEC(\"raw_tp/sys_enter\") int p(void *c) {{ return *here(&__preempt_count); }}\n"
    );
    let Some(object) = compiled(folder.path(), &source) else { return };
    if let Err(reason) = kiln_driver::require_kernel() {
        eprintln!("skipped: {reason}");
        return;
    }
    let (text, _) = kiln(&object, &["check", "--with-kernel"]);
    let (own, theirs) = (text.contains("accepted p"), text.contains("the kernel: accepted"));
    assert!(own == theirs && !text.contains("disagreement:"), "{text}");
}

/// The kernel's word on a program whose map it does not make is a refusal, with the map and the error.
#[test]
fn a_map_that_the_kernel_refuses_is_its_verdict() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = format!(
        "{HEAD}struct {{ int (*type)[1]; int (*map_flags)[1 << 20]; int (*max_entries)[1]; int *key; int *value; }}\n\
         bad SEC(\".maps\");\nstatic void *(*lookup)(void *, const void *) = (void *)1;\n\
         SEC(\"xdp\") int p(void *c) {{ int key = 0; return !lookup(&bad, &key); }}\n"
    );
    let Some(object) = compiled(folder.path(), &source) else { return };
    if let Err(reason) = kiln_driver::require_kernel() {
        eprintln!("skipped: {reason}");
        return;
    }
    let (text, code) = kiln(&object, &["check", "--with-kernel"]);
    assert!(text.contains("the kernel: rejected, map 'bad': failed to create: -EINVAL"), "{text}");
    assert_eq!(code, Some(1), "{text}");
}

/// The kernel is asked about many programs at once: also about those beside the ones that it rejects, or cannot load.
#[test]
fn the_kernel_is_asked_about_many_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut source = HEAD.to_owned();
    for at in 0..200 {
        source += &match at % 50 {
            17 => format!("SEC(\"socket\") int p{at}(char *skb) {{ return *(volatile int *)(skb + 4096); }}\n"),
            30 => format!("SEC(\"fentry/no_such_function\") int p{at}(void *c) {{ return 0; }}\n"),
            _ => format!("SEC(\"xdp\") int p{at}(void *c) {{ return {at}; }}\n"),
        };
    }
    let Some(object) = compiled(folder.path(), &source) else { return };
    if let Err(reason) = kiln_driver::require_kernel() {
        eprintln!("skipped: {reason}");
        return;
    }
    let (text, _) = kiln(&object, &["check", "--with-kernel"]);
    let count = |what: &str| text.matches(what).count();
    let said = [count("the kernel: accepted, "), count("the kernel: rejected, "), count("could not be asked")];
    assert_eq!((said, count("disagreement:")), ([192, 4, 4], 0), "{text}");
}

/// libbpf compares what an object declares of the kernel's functions and variables with the kernel's types, and refuses it.
#[test]
fn declarations_that_are_not_the_kernels_are_rejected() {
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        eprintln!("skipped: the running kernel has no BTF");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let symbols = "__attribute__((section(\".ksyms\")))";
    let lock = |takes: &str, gets: &str| {
        format!(
            "{HEAD}extern void bpf_rcu_read_lock({takes}) {symbols};\nextern void bpf_rcu_read_unlock(void) {symbols};\n\
             SEC(\"tc\") int p(void *skb) {{ bpf_rcu_read_lock({gets}); bpf_rcu_read_unlock(); return 0; }}\n"
        )
    };
    let forward = format!(
        "{HEAD}struct __sk_buff; struct bpf_dynptr;\n\
         extern int bpf_dynptr_from_skb(struct __sk_buff *, unsigned long long, struct bpf_dynptr *) {symbols};\n\
         SEC(\"tc\") int p(void *skb) {{ unsigned long long d[2]; bpf_dynptr_from_skb(skb, 0, (void *)d); return 0; }}\n"
    );
    let cases = [
        (lock("void", ""), Some(0), "accepted p"),
        (lock("int, int", "1, 2"), Some(1), "bpf_rcu_read_lock takes 0 arguments, its declaration 2"),
        (forward, Some(1), "bpf_dynptr_from_skb has other types than its declaration"),
    ];
    for (source, expected, words) in cases {
        let Some(object) = compiled(folder.path(), &source) else { return };
        let (text, code) = kiln(&object, &["check"]);
        assert!(code == expected && text.contains(words), "{code:?}: {text}");
    }
}
