//! `kiln run` and `kiln bench` on what users have: captures, dumps of maps, global variables.

#[path = "command/world.rs"]
#[allow(dead_code)] // A part of it is for other tests.
mod world;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::json;
use world::{compile, in_json, places};

const SOURCE: &str = r#"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

enum mode { OPEN, STRICT };
struct settings { enum mode mode; __u16 port; char name[8]; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4); __type(key, __u32); __type(value, struct settings); } settings SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 64); __type(key, __u32); __type(value, __u64); } ports SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 2); __type(key, __u32); __type(value, __u64); } counts SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 1 << 20); __type(key, __u32); __type(value, __u64); } large SEC(".maps");
struct prefix { __u32 bits; __u8 address[4]; };
struct { __uint(type, BPF_MAP_TYPE_LPM_TRIE); __uint(max_entries, 4); __uint(map_flags, 1); __type(key, struct prefix); __type(value, __u32); } routes SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 4); __type(key, __u32); __type(value, __u32); } jumps SEC(".maps");

struct inner { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8); __type(key, __u32); __type(value, __u64); };
struct inner lengths SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); __uint(max_entries, 4); __type(key, __u32); __array(values, struct inner); } tables SEC(".maps");

const volatile __u32 limit = 100;
__u64 total;
_Bool drop_all = 0;

static void add(void *map, __u32 key) { __u64 *value = bpf_map_lookup_elem(map, &key); if (value) *value += 1; }

SEC("xdp") int filter(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	__u32 zero = 0, length = ctx->data_end - ctx->data;
	struct settings *now = bpf_map_lookup_elem(&settings, &zero);
	total += 1;
	add(&counts, 1);
	add(&large, 70000);
	if (drop_all || length > limit || (now && now->mode == STRICT && now->port == 443))
		return XDP_DROP;
	__u32 proto = bpf_ntohs(eth->h_proto);
	if (bpf_map_lookup_elem(&ports, &proto)) {
		eth->h_source[0] = 0xaa;
		return XDP_TX;
	}
	struct prefix host = { 32, { 10, 1, 2, 3 } };
	if (bpf_map_lookup_elem(&routes, &host))
		return XDP_DROP;
	__u32 one = 1;
	void *table = bpf_map_lookup_elem(&tables, &one);
	if (table && bpf_map_lookup_elem(table, &length))
		return XDP_ABORTED;
	bpf_tail_call(ctx, &jumps, 2);
	return XDP_PASS;
}

SEC("xdp") int second(struct xdp_md *ctx) { return XDP_REDIRECT; }

SEC("raw_tp/sys_enter") int traced(struct bpf_raw_tracepoint_args *ctx) { __sync_fetch_and_add(&total, ctx->args[1] + 1); return 0; }

char _license[] SEC("license") = "GPL";
"#;

struct Made {
    folder: tempfile::TempDir,
}

/// Returns what it is given, and how many pages of its arena it gets.
const SYSTEM_CALLED: &str = r#"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct { __uint(type, 33); __uint(map_flags, BPF_F_MMAPABLE); __uint(max_entries, 20); } arena SEC(".maps");
struct given { __u64 number; };
void __attribute__((address_space(1))) *bpf_arena_alloc_pages(void *, void __attribute__((address_space(1))) *, __u32, int, __u64) __ksym;

SEC("syscall") int given(struct given *given)
{
	return given->number += 1;
}

SEC("syscall") int pages(struct given *given)
{
	int pages = 0;

	for (int i = 0; i < 20; i++)
		pages += bpf_arena_alloc_pages(&arena, 0, 1, -1, 0) != 0;
	return pages;
}

char _license[] SEC("license") = "GPL";
"#;

impl Made {
    fn new() -> Option<Made> {
        Made::of(SOURCE)
    }

    fn of(source: &str) -> Option<Made> {
        let made = Made { folder: tempfile::tempdir().expect("a temporary folder") };
        std::fs::write(made.path("filter.bpf.c"), source).expect("a file");
        compile(&made.path("filter.bpf.c"), &made.path("filter.o"), &[]).then_some(made)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn kiln(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command.current_dir(self.folder.path()).args(arguments);
        command
    }

    fn run(&self, place: &str, more: &[&str]) -> Command {
        self.kiln(&[&["run", "filter.o", "--program", "filter", "--in", place], more].concat())
    }
}

/// An Ethernet frame of this protocol and length.
fn frame(protocol: u16, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(protocol.to_be_bytes());
    frame.resize(bytes, 0);
    frame
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn every_packet_of_a_capture_is_run() {
    let Some(made) = Made::new() else { return };
    let sent = [frame(0x800, 60), frame(0x86dd, 60), frame(0x800, 200), frame(0x800, 64), vec![1; 5]];
    std::fs::write(made.path("in.pcap"), kiln_driver::capture::pcap(&sent)).expect("a file");
    for place in places() {
        let run =
            |more: &[&str]| made.run(place, &[&["--packet-file", "in.pcap", "--map", "ports:0x86dd=1"], more].concat());
        run(&["--pcap-out", "out.pcap", "--maps"])
            .assert()
            .code(0)
            .stdout(
                contains("2 (XDP_PASS)")
                    .and(contains("50.0%"))
                    .and(contains("3 (XDP_TX)"))
                    .and(contains("1 (XDP_DROP)")),
            )
            .stdout(contains("4 packets run, 1 changed, 1 without an Ethernet header not run"))
            .stdout(contains("map large: 1 entry, 1048575 zero\n  70000: 4\n"))
            .stdout(contains("map ports: 1 entry\n  34525: 1\n"))
            .stdout(contains("total: 4"));
        let bytes = std::fs::read(made.path("out.pcap")).expect("a capture");
        let kept = kiln_driver::capture::packets("out.pcap", &bytes).expect("a capture").expect("a capture");
        assert_eq!(kept.len(), 3, "the dropped packet is left out");
        assert_eq!((kept[1][6], &kept[0]), (0xaa, &sent[0]));
        // Only the map that was named.
        run(&["--map", "ports"]).assert().code(0).stdout(contains("map ports").and(contains("map large").not()));
        run(&["--map", "port"]).assert().code(2).stderr(contains("no map port (did you mean ports?)"));
    }
    // Packets that a network card joined do not fit the VM's buffer. The others are run.
    let sent = [frame(0x800, 60), frame(0x800, 20_000), frame(0x800, 64)];
    std::fs::write(made.path("joined.pcap"), kiln_driver::capture::pcap(&sent)).expect("a file");
    for place in ["jit", "interpreter"] {
        let assert = made.run(place, &["--packet-file", "joined.pcap"]).assert();
        assert.code(0).stdout(contains("2 packets run, 0 changed, 1 larger than a test run's buffer not run"));
    }
    std::fs::write(made.path("cut.pcap"), &kiln_driver::capture::pcap(&sent)[..30]).expect("a file");
    made.run("jit", &["--packet-file", "cut.pcap"])
        .assert()
        .code(2)
        .stderr(contains("cut.pcap").or(contains("no packet")));
}

#[test]
fn maps_and_globals_are_set_by_their_types() {
    let Some(made) = Made::new() else { return };
    let packet = hex(&frame(0x800, 60));
    for place in places() {
        let value =
            |more: &[&str]| in_json(&mut made.run(place, &[&["--packet", &packet], more].concat()))["value"].clone();
        assert_eq!(value(&[]), 2);
        assert_eq!(value(&["--set", "drop_all=true"]), 1, "{place}: a variable of .bss");
        assert_eq!(value(&["--set", "limit=59"]), 1, "{place}: a constant");
        assert_eq!(value(&["--map", r#"settings:0={"mode": "STRICT", "port": 443, "name": "web"}"#]), 1);
        assert_eq!(value(&["--map", r#"settings:0={"mode": "STRICT", "port": 80}"#]), 2);
        assert_eq!(value(&["--map", "jumps:2=second"]), 4, "{place}: a program in a prog array");
        assert_eq!(value(&["--map", "lengths:60=1"]), 2, "{place}: no map of maps leads there");
        assert_eq!(value(&["--map", "routes:10.0.0.0/8=1"]), 1, "{place}: a prefix");
        assert_eq!(value(&["--map", "routes:10.0.0.0/16=1"]), 2, "{place}: another prefix");
        let table = ["--map", "lengths:60=1", "--map", "tables:1=lengths"];
        assert_eq!(value(&table), 0, "{place}: a map in a map of maps");
        std::fs::write(made.path("tables.json"), r#"{"tables": [{"key": 1, "value": "lengths"}]}"#).expect("a file");
        assert_eq!(value(&["--maps-file", "tables.json", "--map", "lengths:60=1"]), 0, "{place}");
        // What bpftool prints: bytes, and a value for each CPU.
        let one = ["0x01", "0x00", "0x00", "0x00", "0x00", "0x00", "0x00", "0x00"];
        let dump = json!({
            "ports": [{"key": ["0x00", "0x08", "0x00", "0x00"], "value": one}],
            "settings": [{"key": 3, "value": {"mode": 1, "name": "x"}}],
        });
        std::fs::write(made.path("maps.json"), dump.to_string()).expect("a file");
        assert_eq!(value(&["--maps-file", "maps.json"]), 3);
        let counts = json!([{"key": 1, "values": [{"cpu": 0, "value": 5}, {"cpu": 1, "value": 7}]}]);
        std::fs::write(made.path("counts.json"), counts.to_string()).expect("a file");
        let ran = in_json(&mut made.run(place, &["--packet", &packet, "--maps-file", "counts=counts.json"]));
        let map =
            ran["maps"].as_array().expect("maps").iter().find(|map| map["name"] == "counts").expect("the map").clone();
        assert_eq!((&map["count"], &map["zeros"]), (&json!(1), &json!(1)), "{place}: {map}");
        let value = map["entries"][0][1].as_str().expect("bytes");
        assert!(
            value.starts_with("0600000000000000") || value[16..].starts_with("0800000000000000"),
            "{place}: {value}"
        );
        let typed = map["typed"][0][1].as_str().expect("text");
        assert!(
            typed.starts_with("[6, 7") || typed.starts_with("[5, 8"),
            "{place}: by its type, for each CPU: {typed}"
        );
    }
    for (more, said) in [
        (["--map", "nothing:0=1"], "there is no map nothing"),
        (["--map", "settings:0={\"prot\": 1}"], "no member prot; there are mode, port, name"),
        (["--map", "settings:0={\"port\": 65536}"], "65536 does not fit 2 bytes"),
        (["--map", "settings:9=0"], "settings: key: 9 is not below 4, its number of entries"),
        (["--map", "routes:10.0.0.0/33=0"], "routes: key"),
        (["--map", "settings"], "map settings"),
        (["--map", "tables:0=lenghts"], "there is no map lenghts (did you mean lengths?)"),
        (["--map", "tables:0=1"], "the value is the name of a map of the object"),
        (["--map", "tables:0=settings"], "tables"),
        (["--set", "limt=1"], "no global variable limt (did you mean limit?)"),
        (["--set", "limit=x"], "is no value of 4 bytes"),
        (["--maps-file", "none.json"], "none.json"),
    ] {
        let assert = made.run("jit", &[&["--packet", &packet][..], &more].concat()).assert();
        match more[1] {
            "settings" => assert.code(0).stdout(contains("map settings: 0 entries, 4 zero")),
            _ => assert.code(2).stderr(contains(said)),
        };
    }
}

/// A table of a balancer: it is counted in one pass, and nothing is printed for what is zero.
#[test]
fn large_tables_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    // A table beyond the VM's limit.
    let beyond = "; map table array key 4 value 64 entries 33554432\n; program xdp\n  r0 = 2\n  exit\n";
    std::fs::write(Path::new(folder.path()).join("beyond.bpf"), beyond).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.current_dir(folder.path()).args(["run", "beyond.bpf", "--packet", &hex(&frame(0x800, 60))]);
    command
        .assert()
        .code(1)
        .stderr(contains("map table needs 2147483648 bytes; the VM gives a map 1073741824 at most"));
    let text = "; map table array key 4 value 4 entries 33554432\n; program xdp\n  *(u32 *)(r10 - 4) = 5\n  r1 = map[table]\n  \
                r2 = r10\n  r2 += -4\n  call map_lookup_elem\n  if r0 == 0 goto L1\n  *(u32 *)(r0 + 0) = 7\nL1:\n  r0 = 2\n  exit\n";
    std::fs::write(Path::new(folder.path()).join("table.bpf"), text).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.current_dir(folder.path()).args(["run", "table.bpf", "--maps", "--packet", &hex(&frame(0x800, 60))]);
    command.assert().code(0).stdout(contains("map table: 1 entry, 33554431 zero\n  05000000: 07000000"));
}

#[test]
fn bench_takes_the_same_inputs_and_times_tracing_programs() {
    let Some(made) = Made::new() else { return };
    std::fs::write(made.path("in.pcap"), kiln_driver::capture::pcap(&[frame(0x86dd, 60)])).expect("a file");
    std::fs::write(made.path("context.bin"), [0; 96]).expect("a file");
    let bench = |more: &[&str]| {
        let arguments = ["bench", "filter.o", "--repeat", "200", "--samples", "2", "--budget", "1", "--offline"];
        in_json(&mut made.kiln(&[&arguments, more].concat()))
    };
    let rows = bench(&["--packet-file", "in.pcap", "--map", "ports:0x86dd=1", "--set", "limit=1000"]);
    for (program, note) in
        [("filter", None), ("traced", Some("timed on a context of zeros (--context-file gives another)"))]
    {
        let row = rows.as_array().expect("rows").iter().find(|row| row["program"] == program).expect("a row").clone();
        assert!(row["vm"]["before"]["median_ns"].as_f64() >= Some(0.0), "{row}");
        assert!(row["vm"]["around_ns"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["note"].as_str(), note, "{row}");
    }
    if kiln_driver::require_kernel().is_ok() {
        // The kernel's run statistics say how long a raw tracepoint's program takes.
        let arguments = ["bench", "filter.o", "--repeat", "200", "--samples", "2", "--budget", "1"];
        let rows = in_json(&mut made.kiln(&arguments));
        let row = rows.as_array().expect("rows").iter().find(|row| row["program"] == "traced").expect("a row").clone();
        assert!(row["kernel"]["around_ns"].as_f64() > Some(0.0), "{row}");
    } else {
        eprintln!("skipped: the kernel cannot be asked");
    }
    let rows = bench(&["--context-file", "context.bin"]);
    let row = rows.as_array().expect("rows").iter().find(|row| row["program"] == "traced").expect("a row").clone();
    assert_eq!(row["note"], "timed on the recorded context");
}

#[test]
fn a_system_called_program_has_its_context_and_its_pages() {
    let Some(made) = Made::of(SYSTEM_CALLED) else { return };
    std::fs::write(made.path("context"), 7u64.to_le_bytes()).expect("a file");
    let value = |place: &str, program: &str| {
        let arguments = ["run", "filter.o", "--program", program, "--in", place, "--context-file", "context"];
        in_json(&mut made.kiln(&arguments))["value"].clone()
    };
    for place in places() {
        assert_eq!(value(place, "given"), 8, "{place}");
    }
    if places().contains(&"kernel") {
        assert_eq!(value("kernel", "pages"), 20, "nobody else takes a page of it");
    }
}
