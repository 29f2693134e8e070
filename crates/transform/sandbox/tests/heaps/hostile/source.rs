//! C sources of programs that take long in every way that the verifier does not bound.

use std::fmt::Write as _;

use crate::generated::program::Random;

const BEGIN: &str = r#"
#include <kiln/heap.h>
kiln_heap(1 << 20);
char LICENSE[] SEC("license") = "GPL";
struct big { char bytes[BIG]; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 2); __type(key, __u32); __type(value, struct big); } bigs SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4096); __type(key, __u32); __type(value, __u64); } many SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 64); __type(key, __u32); __type(value, __u64); } few SEC(".maps");
struct node { struct node *next; __u64 value; };
struct node *head;
static const char format[] = "%llx";
volatile __u64 sum;
volatile __u64 *base;
volatile int counts[3] = { 40, 300, 3000 };
char text[4096];
static __attribute__((noinline)) __u64 spin(__u64 n) { for (struct node *at = head; n; n--) { at = at->next; sum += n; } return sum; }
static __attribute__((always_inline)) void copied(void)
{
	__u32 zero = 0, one = 1;
	struct big *from = bpf_map_lookup_elem(&bigs, &zero);
	if (from)
		bpf_map_update_elem(&bigs, &one, from, 0);
}
#define NOINLINE __attribute__((noinline))
static __attribute__((always_inline)) int faulted(void)
{
	volatile __u64 *far = base + 4096000;
	for (int i = 0; i < 544; i++)
		far[i & 7];
	return sum;
}
#define FAULTS8 far[0]; far[1]; far[2]; far[3]; far[4]; far[5]; far[6]; far[7];
#define FAULTS48 FAULTS8 FAULTS8 FAULTS8 FAULTS8 FAULTS8 FAULTS8
#define FAULTS288 FAULTS48 FAULTS48 FAULTS48 FAULTS48 FAULTS48 FAULTS48
#define FAR volatile __u64 *far = base + 4096000
#define TWICE(what) what what
static long visit(void *map, __u32 *key, __u64 *value, void *data) { *value += *key; sum += *value; return 0; }
static long again(__u32 at, void *data) { sum += at; return 0; }
"#;

/// A number of turns: half of the verifier's loops have one that it does not know.
fn count(random: &mut Random) -> &'static str {
    random.one_of(&["40", "300", "3000", "counts[0]", "counts[1]", "counts[2]"])
}

/// One thing that takes time, `depth` others in it.
fn statement(random: &mut Random, depth: u64) -> String {
    let count = count(random);
    let inner = match depth {
        0 => String::new(),
        _ => statement(random, depth - 1),
    };
    match random.below(9) {
        0 => format!(
            "for (int i{depth} = 0; i{depth} < {count}; i{depth}++) {{ sum += bpf_csum_diff(0, 0, (void *)text, 512, i{depth}); {inner} }}\n"
        ),
        1 => format!("for (int i{depth} = 0; i{depth} < {count}; i{depth}++) {{ copied(); {inner} }}\n"),
        2 => format!("spin({}); {inner}\n", random.one_of(&[1000, 1 << 20, 1_u64 << 40])),
        3 => format!("bpf_loop({}, again, 0, 0); {inner}\n", random.one_of(&[1000, 1 << 23])),
        4 => format!("bpf_for_each_map_elem(&many, visit, 0, 0); {inner}\n"),
        5 => format!(
            "for (int i{depth} = 0; i{depth} < {count}; i{depth}++) {{ bpf_for_each_map_elem(&many, visit, 0, 0); {inner} }}\n"
        ),
        6 => format!(
            "for (int i{depth} = 0; i{depth} < {count}; i{depth}++) {{ __u64 args[1] = {{ sum }}; \
             bpf_snprintf(text, sizeof text, format, args, 8); {inner} }}\n"
        ),
        7 => format!("for (__u64 n{depth} = sum | 1; n{depth}; n{depth} = n{depth} * 5 + sum) {{ {inner} sum++; }}\n"),
        _ => format!(
            "for (int i{depth} = 0; i{depth} < {count}; i{depth}++) {{ __u32 key = i{depth} & 63; __u64 value = sum; \
             bpf_map_update_elem(&few, &key, &value, 0); bpf_map_delete_elem(&few, &key); {inner} }}\n"
        ),
    }
}

/// Functions that call the next one again and again; the name of the first.
fn functions(random: &mut Random, at: u64, text: &mut String) -> String {
    let levels = 1 + random.below(4);
    let mut callee = String::new();
    for level in 0..levels {
        let linkage = random.one_of(&["", "", "static "]);
        let calls = random.one_of(&["4", "8", "40", "counts[0]"]);
        let body = match callee.is_empty() {
            true => {
                let depth = random.below(2);
                statement(random, depth)
            }
            false => match random.below(2) {
                0 => format!("{callee}(x);\n").repeat(random.one_of(&[4, 8])),
                _ => format!("for (int i = 0; i < {calls}; i++) {callee}(x + i);\n"),
            },
        };
        let name = format!("f{at}_{level}");
        let _ =
            write!(text, "{linkage}__attribute__((noinline)) int {name}(__u64 x)\n{{\n{body}\treturn sum + x;\n}}\n");
        callee = name;
    }
    callee
}

/// Programs that ran too long before, for up to 4,300 ms: each loop had its own deadline, time was counted in instructions or slots,
/// or each call took the same time.
pub const KNOWN: [(&str, &str); 20] = [
    (
        "global functions with five arguments",
        "static __attribute__((always_inline)) void wait(void)
{
	__u64 end = bpf_ktime_get_ns() + 8000000;
	while (bpf_ktime_get_ns() < end) sum++;
}
__attribute__((noinline)) int leaf(__u64 x, int b, int c, int d, int e) { for (__u64 n = x | 1; n; n = n * 5 + sum) sum += b + c + d + e; return sum; }
__attribute__((noinline)) int middle(__u64 x, int b, int c, int d, int e) { wait(); return leaf(x, b, c, d, e); }
__attribute__((noinline)) int outer(__u64 x, int b, int c, int d, int e) { wait(); return middle(x, b, c, d, e); }
SEC(\"xdp\") int hostile(struct xdp_md *ctx) { wait(); outer(1, 2, 3, 4, 5); return XDP_DROP; }
",
    ),
    (
        "global functions",
        "__attribute__((noinline)) int leaf(__u64 x) { for (__u64 n = x | 1; n; n = n * 5 + sum) sum++; return sum; }
__attribute__((noinline)) int middle(__u64 x) { leaf(x); leaf(x); leaf(x); leaf(x); leaf(x); leaf(x); leaf(x); leaf(x); return sum; }
__attribute__((noinline)) int outer(__u64 x) { middle(x); middle(x); middle(x); middle(x); middle(x); middle(x); middle(x); return sum; }
SEC(\"xdp\") int hostile(struct xdp_md *ctx) { outer(1); outer(2); outer(3); outer(4); outer(5); outer(6); return XDP_DROP; }
",
    ),
    (
        "tail calls",
        "int hostile(struct xdp_md *ctx);
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 1); __uint(key_size, 4); __array(values, int (void *)); } next
SEC(\".maps\") = { .values = { (void *)&hostile } };
SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	for (int i = 0; i < 200000; i++)
		sum += bpf_csum_diff(0, 0, (void *)text, 64, i);
	bpf_tail_call(ctx, &next, 0);
	return XDP_DROP;
}
",
    ),
    (
        "slow helpers",
        "static __attribute__((always_inline)) void read(void)
{
	__u32 zero = 0, one = 1;
	struct big *from = bpf_map_lookup_elem(&bigs, &zero), *to = bpf_map_lookup_elem(&bigs, &one);
	if (from && to)
		bpf_probe_read_kernel(to, 1 << 20, from);
}
SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	for (int i = 0; i < 3000; i++) read();
	for (int i = 0; i < 3000; i++) read();
	for (int i = 0; i < 3000; i++) read();
	for (int i = 0; i < 3000; i++) read();
	return XDP_DROP;
}
",
    ),
    (
        "bounded loops around slow helpers",
        "static __attribute__((noinline)) int slow(void) { for (int j = 0; j < 40; j++) bpf_for_each_map_elem(&many, visit, 0, 0); return sum; }
SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	for (int i = 0; i < 300; i++) slow();
	for (int i = 0; i < 300; i++) slow();
	return XDP_DROP;
}
",
    ),
    (
        "large values",
        "SEC(\"xdp\") int hostile(struct xdp_md *ctx) { for (int i = 0; i < 1000; i++) copied(); return XDP_DROP; }
",
    ),
    (
        "a static function between",
        "NOINLINE int computes(void) { return faulted(); }
static NOINLINE int between(void) { return computes() + sum; }
SEC(\"xdp\") int hostile(struct xdp_md *ctx) { for (int i = 0; i < 500; i++) sum += between(); return XDP_DROP; }
",
    ),
    (
        "loops of functions that compute",
        "NOINLINE int computes(void) { return faulted(); }
NOINLINE int inner(void) { for (int i = 0; i < 100; i++) sum += computes(); return sum; }
NOINLINE int outer(void) { for (int i = 0; i < 100; i++) sum += inner(); return sum; }
SEC(\"xdp\") int hostile(struct xdp_md *ctx) { outer(); return XDP_DROP; }
",
    ),
    (
        "a caller of a cancelled function",
        "__attribute__((weak)) NOINLINE int copies(void) { for (int i = 0; i < 40; i++) copied(); return 7; }
SEC(\"xdp\") int hostile(struct xdp_md *ctx) { return copies() == 7 ? XDP_DROP : XDP_TX; }
",
    ),
    (
        "an inner loop as often as the clock is not read",
        "volatile int one = 1;
SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	FAR;
	for (__u64 n = sum | 1; n; n = n * 5 + sum) {
		FAULTS288
		for (int i = 0; i < one; i++) sum += i;
	}
	return XDP_DROP;
}
",
    ),
    (
        "an inner loop as often as the clock is not read, one turn later",
        "volatile int one = 1;
SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	FAR;
	for (int i = 0; i < one; i++) sum += i;
	for (__u64 n = sum | 1; n; n = n * 5 + sum) {
		FAULTS288
		for (int i = 0; i < one; i++) sum += i;
	}
	return XDP_DROP;
}
",
    ),
    (
        "a short function with faults",
        "NOINLINE int leaf(void) { FAR; TWICE(TWICE(FAULTS8)) return 0; }
SEC(\"xdp\") int hostile(struct xdp_md *ctx) { for (int i = 0; i < 9000; i++) leaf(); return XDP_DROP; }
",
    ),
    (
        "keys of a megabyte",
        "struct text { char bytes[1 << 20]; };
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 1); __type(key, struct text); __type(value, __u64); } texts SEC(\".maps\");
SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct big *key = bpf_map_lookup_elem(&bigs, &zero);
	for (int i = 0; key && i < 2000; i++) sum += bpf_map_lookup_elem(&texts, key) != 0;
	return XDP_DROP;
}
",
    ),
    (
        "a bounded loop of faults in a loop",
        "SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	FAR;
	for (__u64 n = sum | 1; n; n = n * 5 + sum)
		for (int i = 0; i < 4000; i++) far[i & 7];
	return XDP_DROP;
}
",
    ),
    (
        "bounded loops of faults one after another",
        "SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	FAR;
	for (int i = 0; i < 4000; i++) far[i & 7];
	for (int i = 0; i < 4000; i++) far[i & 7];
	for (int i = 0; i < 4000; i++) far[i & 7];
	return XDP_DROP;
}
",
    ),
    (
        "faults one after another",
        "SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	FAR;
	TWICE(TWICE(TWICE(TWICE(TWICE(FAULTS288)))))
	return XDP_DROP;
}
",
    ),
    (
        "a kernel function on long memory",
        "char letters[1 << 16] = { [0 ... (1 << 16) - 1] = 'a' };
extern int bpf_strlen(const char *text) __ksym;
SEC(\"xdp\") int hostile(struct xdp_md *ctx) { for (int i = 0; i < 3000; i++) sum += bpf_strlen(letters); return XDP_DROP; }
",
    ),
    (
        "a static function many times in a turn",
        "static NOINLINE int leaf(void) { FAR; FAULTS48 return sum; }
SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	for (__u64 n = sum | 1; n; n = n * 5 + sum) {
		TWICE(TWICE(TWICE(TWICE(TWICE(leaf();)))))
	}
	return XDP_DROP;
}
",
    ),
    (
        "a callback with faults, again and again",
        "static long faults(__u32 at, void *data) { FAR; FAULTS48 return 0; }
SEC(\"xdp\") int hostile(struct xdp_md *ctx)
{
	for (__u64 n = sum | 1; n; n = n * 5 + sum) { bpf_loop(700, faults, 0, 0); faults(0, 0); }
	return XDP_DROP;
}
",
    ),
    (
        "a few large copies",
        "SEC(\"xdp\") int hostile(struct xdp_md *ctx) { TWICE(TWICE(TWICE(TWICE(TWICE(copied();))))) return XDP_DROP; }
",
    ),
];

fn begin(value_bytes: &str) -> String {
    BEGIN.replace("BIG", value_bytes)
}

/// The source of one of [`KNOWN`].
pub fn known(text: &str) -> String {
    begin("4 << 20") + text
}

/// A generated source.
pub fn source(seed: u64) -> String {
    let mut random = Random::of(seed);
    // Seeds that differ by little begin with numbers that differ by little.
    for _ in 0..8 {
        let _ = random.below(2);
    }
    let mut text = begin(random.one_of(&["64 << 10", "1 << 20", "4 << 20"]));
    let mut body = String::new();
    for at in 0..1 + random.below(3) {
        match random.below(3) {
            0 => {
                let depth = random.below(3);
                body += &statement(&mut random, depth);
            }
            _ => {
                let first = functions(&mut random, at, &mut text);
                let _ = writeln!(body, "\t{first}(3);");
            }
        }
    }
    if random.below(3) == 0 {
        text += "int hostile(struct xdp_md *ctx);\nstruct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 1); \
                 __uint(key_size, 4); __array(values, int (void *)); } next SEC(\".maps\") = { .values = { (void *)&hostile } };\n";
        body += "\tbpf_tail_call(ctx, &next, 0);\n";
    }
    let _ = write!(text, "SEC(\"xdp\") int hostile(struct xdp_md *ctx)\n{{\n{body}\treturn XDP_DROP;\n}}\n");
    text
}

/// A generated source in which the verifier knows no number of turns: it verifies sooner.
pub fn quick_source(seed: u64) -> String {
    let counts = ["40", "300", "3000"].iter().zip(0..);
    counts.fold(source(seed), |text, (count, at)| text.replace(&format!("< {count};"), &format!("< counts[{at}];")))
}
