//! Programs that try to leave their memory, made of gadgets.

use std::fmt::Write as _;

use crate::common;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// A number near an edge of `size`, as likely inside as outside.
    fn edge(&mut self, size: i64) -> i64 {
        let near = [0, size / 2, size - 16, size - 8, size - 4, size - 1];
        let odd = [1, 7, size - 9, size - 7, size, size + 1, size + 8, -1, -8, 4096, i64::from(i16::MIN)];
        match self.below(16) {
            0 | 1 => self.pick(&odd),
            2 => self.below(size.max(1) as u64) as i64,
            _ => self.pick(&near).clamp(0, size.max(0)),
        }
    }
}

/// The maps of all programs.
const MAPS: &str = "
; map plain array key 4 value 48 entries 4
; map constants array key 4 value 32 entries 1 flags 0x80 rodata 0102030405060708090a0b0c0d0e0f100102030405060708090a0b0c0d0e0f00
; map table hash key 4 value 24 entries 8
; map waiting hash key 4 value 24 entries 8 flags 1
; map recent lru_hash key 4 value 24 entries 4
; map own percpu_array key 4 value 24 entries 2
; map own_table percpu_hash key 4 value 24 entries 4
; map prefixes lpm_trie key 8 value 24 entries 4 flags 1
; map queue queue key 0 value 16 entries 4
; map ring ringbuf key 0 value 0 entries 4096
; map seen bloom_filter key 0 value 8 entries 16
; map jumps prog_array key 4 value 4 entries 4
; map locked array key 4 value 12 entries 2 key_btf 1 value_btf 3
; map outer array_of_maps key 4 value 4 entries 2
; inner template array key 4 value 16 entries 2
; map outer_table hash_of_maps key 4 value 4 entries 2
; inner template hash key 4 value 16 entries 2
; extern bpf_get_kmem_cache kfunc
";
const KEYED: &[(&str, i64)] = &[
    ("plain", 48),
    ("constants", 32),
    ("table", 24),
    ("waiting", 24),
    ("recent", 24),
    ("own", 24),
    ("own_table", 24),
    ("prefixes", 24),
];

/// The gadget whose programs the VM refuses although the verifier may accept them.
pub const LACKING: &str = "functions that the VM lacks";

/// A program under construction. r6 is the context, r8 a number that nobody knows, r7 a pointer from an earlier gadget or
/// a number.
struct Maker {
    random: Random,
    text: String,
    functions: String,
    labels: u32,
    used: Vec<&'static str>,
}

impl Maker {
    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "  {line}");
    }

    fn lines(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.line(line);
        }
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn size(&mut self) -> (&'static str, i64) {
        self.random.pick(&[("u8", 1), ("u16", 2), ("u32", 4), ("u64", 8)])
    }

    /// `pointer` with an offset, fixed or of r8's.
    fn vary(&mut self, pointer: &str, size: i64) {
        match self.random.below(8) {
            0 => {
                let offset = self.random.edge(size / 2);
                self.line(&format!("{pointer} += {offset}"));
            }
            1 => {
                let mask = self.random.pick(&[1, 3, 7, 8, 15, 16, 31, 63, 255, 0x7fff_ffff]);
                let less = self.random.pick(&[0, 0, 0, 1, 8]);
                self.lines(&format!("r5 = r8\nr5 &= {mask}\nr5 += -{less}\n{pointer} += r5"));
            }
            2 => {
                let (out, below) = (self.label(), self.random.edge(size));
                let compare = self.random.pick(&[">", ">=", "s>", "s>="]);
                self.lines(&format!("r5 = r8\nif r5 {compare} {below} goto {out}\n{pointer} += r5\n{out}:"));
            }
            _ => {}
        }
    }

    /// One access through `pointer`, at which `size` bytes should be.
    fn touch(&mut self, pointer: &str, size: i64) {
        self.vary(pointer, size);
        let (width, bytes) = self.size();
        let offset = self.random.edge(size / 2 - bytes + 1).clamp(-32768, 32767);
        let at = format!("({pointer} {} {})", if offset < 0 { '-' } else { '+' }, offset.abs());
        match self.random.below(6) {
            0 => self.line(&format!("r5 = *({width} *){at}")),
            1 => self.line(&format!("*({width} *){at} = r8")),
            2 => self.line(&format!("*({width} *){at} = 77")),
            3 => self.lines(&format!("r5 = 1\nlock *(u64 *){at} += r5")),
            4 => self.lines(&format!("r5 = 1\nw5 = atomic_fetch_or((u32 *){at}, w5)")),
            _ => self.lines(&format!("r5 = *({width} *){at}\nr5 += 1\n*({width} *){at} = r5")),
        }
    }

    fn key(&mut self) {
        let key = self.random.pick(&[0, 0, 1, 3, 4, 7, 1000]);
        self.lines(&format!("*(u32 *)(r10 - 8) = 32\n*(u32 *)(r10 - 4) = {key}"));
        if self.random.below(4) == 0 {
            self.line("*(u32 *)(r10 - 4) = r8");
        }
    }

    /// Arguments 1 and 2 of a map helper.
    fn map_and_key(&mut self, map: &str) {
        self.key();
        let at = if map == "prefixes" { 8 } else { 4 };
        self.lines(&format!("r1 = map[{map}]\nr2 = r10\nr2 += -{at}"));
    }

    fn lookup(&mut self) -> i64 {
        let (map, size) = self.random.pick(KEYED);
        self.map_and_key(map);
        if map.starts_with("own") && self.random.below(2) == 0 {
            self.lines("r3 = r8\ncall map_lookup_percpu_elem");
        } else {
            self.line("call map_lookup_elem");
        }
        size
    }

    fn update(&mut self) {
        let (map, _) = self.random.pick(KEYED);
        self.map_and_key(map);
        for at in (24..=80).step_by(8) {
            self.line(&format!("*(u64 *)(r10 - {at}) = r8"));
        }
        let at = self.random.pick(&[80, 80, 48, 32, 24, 20]);
        let flags = self.random.pick(&[0, 0, 1, 2, 4]);
        self.lines(&format!("r3 = r10\nr3 += -{at}\nr4 = {flags}\ncall map_update_elem"));
    }

    fn delete(&mut self) {
        let (map, _) = self.random.pick(KEYED);
        self.map_and_key(map);
        self.line("call map_delete_elem");
    }

    /// Memory for a helper, and its size, into two registers.
    fn buffer(&mut self, pointer: &str, length: &str) {
        let size = match self.random.below(3) {
            0 => {
                self.line(&format!("{pointer} = r10"));
                let depth = self.random.pick(&[8, 16, 64, 256, 512, 513]);
                self.line(&format!("{pointer} += -{depth}"));
                depth
            }
            1 => {
                let (map, size) = self.random.pick(&[("plain", 48), ("constants", 32)]);
                let offset = self.random.edge(size).clamp(0, size - 1);
                self.line(&format!("{pointer} = map_value[{map}] + {offset}"));
                size - offset
            }
            _ => {
                let out = self.label();
                let size = self.lookup();
                self.lines(&format!("if r0 == 0 goto {out}\nr7 = r0\n{out}:\n{pointer} = r7"));
                size
            }
        };
        if self.random.below(3) == 0 {
            let mask = self.random.pick(&[7, 15, 31, 63, 511]);
            self.lines(&format!("{length} = r8\n{length} &= {mask}"));
        } else {
            let bytes = self.random.edge(size);
            self.line(&format!("{length} = {bytes}"));
        }
    }

    fn odd_buffer(&mut self) {
        match self.random.below(9) {
            0 => {
                self.buffer("r3", "r4");
                let offset = self.random.edge(64);
                let call = self.random.pick(&["xdp_load_bytes", "xdp_store_bytes"]);
                self.lines(&format!("r1 = r6\nr2 = {offset}\ncall {call}"));
            }
            1 => {
                self.buffer("r1", "r2");
                self.lines("r3 = r8\ncall trace_printk");
            }
            2 => {
                self.buffer("r3", "r4");
                self.lines("r1 = 0\nr2 = 0\nr5 = r8\ncall csum_diff");
            }
            3 => {
                self.buffer("r2", "r3");
                self.lines("r1 = map[ring]\nr4 = 0\ncall ringbuf_output");
            }
            4 => {
                self.buffer("r1", "r2");
                let call = self.random.pick(&["strtol", "strtoul"]);
                let at = self.random.pick(&[8, 7, 16, 0]);
                self.lines(&format!("r3 = 0\nr4 = r10\nr4 += -{at}\ncall {call}"));
            }
            5 => {
                self.buffer("r1", "r2");
                self.lines("r3 = map_value[constants] + 16\ncall strncmp");
            }
            6 => {
                self.buffer("r2", "r5");
                let call = self.random.pick(&["map_push_elem", "map_pop_elem", "map_peek_elem"]);
                let map = self.random.pick(&["queue", "seen"]);
                self.lines(&format!("r1 = map[{map}]\nr3 = 0\ncall {call}"));
            }
            7 => {
                self.buffer("r2", "r3");
                self.lines("r1 = r6\nr4 = 0\ncall fib_lookup");
            }
            _ => {
                self.buffer("r1", "r2");
                self.lines("r3 = map_value[constants] + 0\nr4 = r10\nr4 += -16\nr5 = 16\ncall snprintf");
            }
        }
    }

    fn value(&mut self) {
        let out = self.label();
        let size = self.lookup();
        if self.random.below(32) != 0 {
            self.line(&format!("if r0 == 0 goto {out}"));
        }
        self.line("r7 = r0");
        self.touch("r0", size);
        self.line(&format!("{out}:"));
    }

    /// A pointer is held while its element is deleted, replaced or evicted.
    fn held(&mut self) {
        let out = self.label();
        let size = self.lookup();
        self.lines(&format!("if r0 == 0 goto {out}\nr7 = r0"));
        for _ in 0..self.random.below(6) {
            if self.random.below(2) == 0 { self.update() } else { self.delete() }
        }
        self.touch("r7", size);
        self.line(&format!("{out}:"));
    }

    fn inner_map(&mut self) {
        let out = self.label();
        let outer = self.random.pick(&["outer", "outer_table"]);
        self.map_and_key(outer);
        self.lines(&format!("call map_lookup_elem\nif r0 == 0 goto {out}\nr1 = r0"));
        self.lines("*(u32 *)(r10 - 4) = 0\nr2 = r10\nr2 += -4\ncall map_lookup_elem");
        self.line(&format!("if r0 == 0 goto {out}"));
        self.touch("r0", 16);
        self.line(&format!("{out}:"));
    }

    fn record(&mut self) {
        let out = self.label();
        let bytes = self.random.pick(&[1, 8, 16, 4080, 4088, 5000]);
        self.lines(&format!(
            "r1 = map[ring]\nr2 = {bytes}\nr3 = 0\ncall ringbuf_reserve\nif r0 == 0 goto {out}\nr7 = r0"
        ));
        self.line("r0 = r7");
        self.touch("r0", bytes);
        let call = self.random.pick(&["ringbuf_submit", "ringbuf_discard"]);
        let moved = self.random.pick(&[0, 0, 0, 8]);
        self.lines(&format!("r1 = r7\nr1 += {moved}\nr2 = 0\ncall {call}"));
        if self.random.below(6) == 0 {
            self.line("*(u8 *)(r7 + 0) = 1");
        }
        self.line("r7 = 0");
        self.line(&format!("{out}:"));
    }

    fn packet(&mut self) {
        let (out, seen) = (self.label(), self.random.pick(&[1, 14, 34, 64, 65]));
        self.lines("r2 = *(u32 *)(r6 + 0)\nr3 = *(u32 *)(r6 + 4)\nr4 = r2");
        self.lines(&format!("r4 += {seen}\nif r4 > r3 goto {out}"));
        if self.random.below(3) == 0 {
            let by = self.random.pick(&[-8, 8, 32, -64, -300, 4000]);
            let call = self.random.pick(&["xdp_adjust_head", "xdp_adjust_tail", "xdp_adjust_meta"]);
            self.lines(&format!("r7 = r2\nr1 = r6\nr2 = {by}\ncall {call}"));
            if self.random.below(2) == 0 {
                self.lines("r2 = *(u32 *)(r6 + 0)\nr3 = *(u32 *)(r6 + 4)\nr4 = r2");
                self.lines(&format!("r4 += {seen}\nif r4 > r3 goto {out}"));
            } else {
                self.line("r2 = r7");
            }
        }
        self.touch("r2", seen);
        self.line("r7 = 0");
        self.line(&format!("{out}:"));
    }

    fn stack(&mut self) {
        let depth = self.random.pick(&[8, 16, 64, 512, 520]);
        for at in (8..=depth.min(64)).step_by(8) {
            self.line(&format!("*(u64 *)(r10 - {at}) = 0"));
        }
        self.lines(&format!("r2 = r10\nr2 += -{depth}"));
        self.touch("r2", depth);
    }

    /// A function that is given a pointer into its caller's frame.
    fn other_frame(&mut self) {
        let name = format!("sub{}", self.functions.matches("; function").count());
        for at in [8, 16, 24, 32] {
            self.line(&format!("*(u64 *)(r10 - {at}) = 5"));
        }
        self.lines(&format!("r1 = r10\nr1 += -32\nr2 = r8\ncall {name}"));
        let main = std::mem::take(&mut self.text);
        self.lines("r8 = r2\nr2 = r1");
        self.touch("r2", 32);
        self.lines("r0 = 0\nexit");
        let body = std::mem::replace(&mut self.text, main);
        let _ = write!(self.functions, "; function {name}\n{body}");
    }

    fn callback(&mut self) {
        let name = format!("sub{}", self.functions.matches("; function").count());
        self.lines("*(u64 *)(r10 - 8) = 1\n*(u64 *)(r10 - 16) = 2");
        let walks = self.random.below(2) == 0;
        let (map, size) =
            self.random.pick(&[("plain", 48), ("table", 24), ("own", 24), ("recent", 24), ("constants", 32)]);
        if walks {
            self.lines(&format!(
                "r1 = map[{map}]\nr2 = fn[{name}]\nr3 = r10\nr3 += -16\nr4 = 0\ncall for_each_map_elem"
            ));
        } else {
            let rounds = self.random.pick(&[0, 1, 3, 100]);
            self.lines(&format!("r1 = {rounds}\nr2 = fn[{name}]\nr3 = r10\nr3 += -16\nr4 = 0\ncall loop"));
        }
        let main = std::mem::take(&mut self.text);
        match (walks, self.random.below(3)) {
            (true, 0) => {
                self.line("r8 = 3");
                self.touch("r3", size);
            }
            (true, 1) => {
                self.line("r8 = 3");
                self.touch("r2", 4);
            }
            (true, _) => {
                // The element goes while the walk stands on it.
                self.lines("r7 = r3\nr8 = 3");
                self.delete();
                self.touch("r7", size);
            }
            (false, choice) => {
                self.line(if choice == 0 { "r8 = r1" } else { "r8 = 2" });
                self.touch("r2", 16);
            }
        }
        let answer = self.random.pick(&[0, 0, 1]);
        self.lines(&format!("r0 = {answer}\nexit"));
        let body = std::mem::replace(&mut self.text, main);
        let _ = write!(self.functions, "; function {name}\n{body}");
    }

    /// A lock is taken, and what it guards is touched; sometimes the lock itself, or a lock taken twice or never given
    /// back.
    fn lock(&mut self) {
        let out = self.label();
        self.map_and_key("locked");
        self.lines(&format!("call map_lookup_elem\nif r0 == 0 goto {out}\nr9 = r0"));
        for call in ["spin_lock", "spin_lock", "spin_unlock"] {
            if call == "spin_unlock" || self.random.below(2) == 0 {
                self.lines(&format!("r1 = r9\ncall {call}"));
            }
            let guarded = self.random.pick(&[0, 4, 4, 4, 8]);
            self.lines(&format!("r2 = r9\nr2 += {guarded}"));
            self.touch("r2", 12 - guarded);
        }
        self.line(&format!("{out}:"));
    }

    fn tail_call(&mut self) {
        let index = self.random.pick(&["0", "1", "3", "4", "-1"]);
        self.lines(&format!("r1 = r6\nr2 = map[jumps]\nr3 = {index}\ncall tail_call"));
    }

    /// Memory or a record behind a dynptr, which is read, written, and given back, or not, or twice.
    fn dynptr(&mut self) {
        let (out, bytes, record) = (self.label(), self.random.edge(48), self.random.below(2) == 0);
        let (what, make) = match record {
            true => ("map[ring]", "ringbuf_reserve_dynptr"),
            false => ("map_value[plain] + 0", "dynptr_from_mem"),
        };
        self.lines(&format!("r1 = {what}\nr2 = {bytes}\nr3 = 0\nr4 = r10\nr4 += -16\ncall {make}"));
        for _ in 0..=self.random.below(3) {
            let (offset, part) = (self.random.edge(48), self.random.pick(&[1, 8, 16, 48]));
            let begin = "r1 = r10\nr1 += -16\nr2 =";
            match self.random.below(3) {
                0 => {
                    self.lines(&format!("{begin} {offset}\nr3 = {part}\ncall dynptr_data\nif r0 == 0 goto {out}"));
                    self.touch("r0", part);
                }
                1 => self.lines(&format!(
                    "r1 = r10\nr1 += -64\nr2 = {part}\nr3 = r10\nr3 += -16\nr4 = {offset}\nr5 = 0\ncall dynptr_read"
                )),
                _ => self.lines(&format!(
                    "{begin} {offset}\nr3 = map_value[constants] + 0\nr4 = {}\nr5 = 0\ncall dynptr_write",
                    part.min(32)
                )),
            }
        }
        self.line(&format!("{out}:"));
        for _ in 0..if record { self.random.pick(&[0, 1, 1, 1, 1, 2]) } else { 0 } {
            let call = self.random.pick(&["ringbuf_submit_dynptr", "ringbuf_discard_dynptr"]);
            self.lines(&format!("r1 = r10\nr1 += -16\nr2 = 0\ncall {call}"));
        }
    }

    /// Calls of what the VM does not have: the verifier may accept them, the VM must refuse to load them.
    fn lacking(&mut self) {
        match self.random.below(2) {
            0 => {
                for at in (8..=48).step_by(8) {
                    self.line(&format!("*(u64 *)(r10 - {at}) = 0"));
                }
                self.lines("r1 = r10\nr1 += -48\nr2 = r10\nr2 += -24\ncall tcp_raw_check_syncookie_ipv4");
            }
            _ => self.lines("r1 = 0\ncall kfunc[bpf_get_kmem_cache]\nif r0 == 0 goto +1\nr5 = *(u64 *)(r0 + 0)"),
        }
    }

    fn gadget(&mut self) {
        type Gadget = (&'static str, fn(&mut Maker));
        const ALL: &[Gadget] = &[
            ("odd buffers of helpers", Maker::odd_buffer),
            ("map values", Maker::value),
            ("elements deleted or evicted under a held pointer", Maker::held),
            ("maps in maps", Maker::inner_map),
            ("ring records", Maker::record),
            ("packets, resized", Maker::packet),
            ("the stack", Maker::stack),
            ("other frames", Maker::other_frame),
            ("callbacks", Maker::callback),
            ("tail calls", Maker::tail_call),
            ("spin locks", Maker::lock),
            ("dynptrs", Maker::dynptr),
            (LACKING, Maker::lacking),
        ];
        let (name, make) = self.random.pick(ALL);
        if !self.used.contains(&name) {
            self.used.push(name);
        }
        make(self);
    }
}

/// A program, and what it tries.
pub fn program(seed: u64) -> (String, Vec<&'static str>) {
    let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut maker = Maker { random, text: String::new(), functions: String::new(), labels: 0, used: Vec::new() };
    for _ in 0..1 + maker.random.below(3) {
        maker.gadget();
    }
    let Maker { text, functions, used, .. } = maker;
    let number = "  r6 = r1\n  call get_prandom_u32\n  r8 = r0\n  r7 = 0\n";
    let second = "; function second\n  r2 = *(u32 *)(r1 + 0)\n  r0 = 7\n  exit\n";
    let text = format!(
        "{MAPS}; program xdp name main entry main\n; program xdp name second entry second\n; function main btf 6\n{number}{text}  \
         r0 = 2\n  exit\n{functions}{second}; btf {}\n",
        common::locked_btf()
    );
    (text, used)
}
