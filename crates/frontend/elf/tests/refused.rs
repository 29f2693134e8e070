//! Objects that libbpf does not open: Kiln says so, too, and the installed libbpf agrees about each.

mod support;

use kiln_linux::ObjectFile;

const HEAD: &str = r#"
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define __array(name, value) typeof(value) *name[]
char _license[] SEC("license") = "GPL";
struct array { __uint(type, 2); __uint(max_entries, 1); __type(key, int); __type(value, int); };
static void *(*lookup)(void *, const void *) = (void *)1;
"#;

/// A body in C, and what Kiln says of it; nothing for what libbpf opens.
const CASES: &[(&str, &str)] = &[
    ("SEC(\"xdp\") int p(void *c) { return 2; }", ""),
    ("SEC(\"xdp\") __attribute__((weak)) int p(void *c) { return 2; }", ""),
    ("struct array a SEC(\".maps\"), b SEC(\".maps\"); SEC(\"xdp\") int p(void *c) { return 2; }", ""),
    ("SEC(\"xdp\") static int p(void *c) { return 2; }", "p is static and in section xdp"),
    (
        "SEC(\"xdp\") static __attribute__((noinline)) int s(void *c) { asm volatile(\"\"); return 2; }
         SEC(\"xdp\") int p(void *c) { return s(c); }",
        "s is static and in section xdp",
    ),
    (
        "SEC(\"xdp\") __attribute__((noinline)) int s(void *c) { asm volatile(\"\"); return 2; }
         SEC(\"xdp\") int p(void *c) { return s(c); }",
        "p refers to s, which is in section xdp",
    ),
    (
        "struct { __uint(type, 33); __uint(map_flags, 1024); __uint(max_entries, 10); } a SEC(\".maps\"), b SEC(\".maps\");
         SEC(\"xdp\") int p(void *c) { return 2; }",
        "maps a and b are both arenas",
    ),
    (
        "struct { __uint(type, 33); __uint(map_flags, 1024); __uint(max_entries, 1); } a SEC(\".maps\");
         __attribute__((address_space(1))) int big[4096] = {1};
         SEC(\"syscall\") int p(void *c) { return big[3]; }",
        "arena a has 4096 bytes, and its variables need 16384",
    ),
    (
        "static struct array m SEC(\".maps\");
         SEC(\"xdp\") int p(void *c) { int k = 0; return !!lookup(&m, &k); }",
        "map m is static",
    ),
    (
        "struct { __uint(type, 2); __uint(max_entries, 1); __type(key, int); __type(value, int); __uint(pinning, 2); }
         m SEC(\".maps\"); SEC(\"xdp\") int p(void *c) { return 2; }",
        "the pinning of map m is 2",
    ),
    (
        "struct { __uint(type, 1); __uint(max_entries, 1); __type(key, int); __array(values, struct array); }
         m SEC(\".maps\"); SEC(\"xdp\") int p(void *c) { return 2; }",
        "map m has values",
    ),
    (
        "struct array i SEC(\".maps\");
         struct { __uint(type, 13); __uint(max_entries, 1); __type(key, long); __array(values, struct array); }
         m SEC(\".maps\") = { .values = { &i } }; SEC(\"xdp\") int p(void *c) { return 2; }",
        "map m has initial values and keys of 8 bytes",
    ),
    (
        "__attribute__((noinline)) int s(void *c) { asm volatile(\"\"); return 2; }
         struct { __uint(type, 3); __uint(max_entries, 1); __uint(key_size, 4); __array(values, int (void *)); }
         m SEC(\".maps\") = { .values = { (void *)s } }; SEC(\"xdp\") int p(void *c) { return s(c); }",
        "map m holds s, which is no program",
    ),
    (
        "struct value { int a; }; extern struct value x SEC(\".kconfig\");
         SEC(\"xdp\") int p(void *c) { return x.a; }",
        "x in .kconfig is neither",
    ),
    (
        "struct tcp_congestion_ops { int (*ssthresh)(void *); }; SEC(\"xdp\") int p(void *c) { return 2; }
         SEC(\".struct_ops\") struct tcp_congestion_ops o = { .ssthresh = p };",
        "p in o is no struct_ops program",
    ),
];

#[test]
fn what_libbpf_does_not_open_is_refused() {
    let mut wrong = Vec::new();
    for (at, (body, said)) in CASES.iter().enumerate() {
        let Some(bytes) = support::compiled_text(&format!("refused-{at}"), &format!("{HEAD}{body}\n")) else { return };
        let elf = kiln_elf::read("p.o", &bytes).unwrap();
        let own = elf.refusal().unwrap_or_default();
        if !own.contains(said) || own.is_empty() != said.is_empty() {
            wrong.push(format!("{body}\n  Kiln: {own:?}, not {said:?}"));
        }
        if kiln_linux::available().is_ok() {
            let theirs = ObjectFile::open("p.o", &bytes).err().map(|failure| failure.messages);
            if theirs.is_some() == said.is_empty() {
                wrong.push(format!("{body}\n  libbpf: {theirs:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// These are opened by libbpf, and `bpf(2)` refuses the names.
#[test]
fn names_that_the_kernel_does_not_take() {
    let program = "SEC(\"xdp\") int p(void *c) __asm__(\"a$b\"); SEC(\"xdp\") int p(void *c) { return 2; }";
    let map = "struct array m$x SEC(\".maps\"); SEC(\"xdp\") int p(void *c) { int k = 0; return !!lookup(&m$x, &k); }";
    let late = "SEC(\"xdp\") int p(void *c) __asm__(\"fifteen_letters$\"); SEC(\"xdp\") int p(void *c) { return 2; }";
    for (at, (body, name)) in [(program, "a$b"), (map, "m$x"), (late, "")].into_iter().enumerate() {
        let Some(bytes) = support::compiled_text(&format!("named-{at}"), &format!("{HEAD}{body}\n")) else { return };
        let elf = kiln_elf::read("p.o", &bytes).unwrap();
        let own = elf.refusal().unwrap_or_default();
        assert!(own.contains(name) && own.is_empty() == name.is_empty(), "{own}");
        if kiln_linux::available().is_ok() {
            let loaded = ObjectFile::open("p.o", &bytes).unwrap_or_else(|error| panic!("{error}")).load();
            assert_eq!(loaded.is_ok(), name.is_empty(), "{body}");
        }
    }
}

/// No object of the corpora is refused that libbpf opens, nor the other way round: but for what can be linked first.
#[test]
fn objects_of_the_corpora_are_refused_as_by_libbpf() {
    for path in support::corpus() {
        let (label, bytes) = (support::label(&path), std::fs::read(&path).unwrap());
        let Ok(elf) = kiln_elf::read(&label, &bytes) else { continue };
        assert_eq!(elf.refusal(), None, "{label}");
    }
}
