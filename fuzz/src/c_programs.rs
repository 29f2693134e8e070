//! Small C programs compiled by clang, to test what its optimizer and code generator emit for masks, casts and loops.
//!
//! ```text
//!   choices --> several functions of XDP, as C --> clang -target bpf -mcpu=v1..v4 -O0..-Os --> kiln-elf --> programs
//!
//!   u32 v1 = *(u16 *)(data + 6);  u64 v2 = v1 & 7;          variables of every width, from packet, maps, constants
//!   asm volatile("" : "+r"(v2));                            what clang knows of a variable ends here
//!   if (v1 <= 128) { v3 = v2; barrier(v3); v3 &= 7; }       masks again, for the verifier
//!   for (...) { ... }  switch (...) { ... }  table[v2 & 3]  loops, switches, arrays in maps and on the stack
//! ```
//!
//! One clang process compiles all functions of an input, because starting it takes longer than compiling one.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use kiln_program::Object;

use crate::choices::Choices;
use crate::part::only;

const CLANG: &str = "clang-19";
/// Functions of one input.
const FUNCTIONS: usize = 6;
/// Maximum number of statements of a function, without nested ones.
const MOST_STATEMENTS: usize = 9;
/// Bytes of packet that a function checks for.
const BYTES: usize = 64;

const TYPES: [&str; 8] = ["u64", "u32", "u64", "u8", "u16", "s32", "s64", "s8"];

const HEAD: &str = r#"typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32; typedef unsigned long long u64;
typedef signed char s8; typedef short s16; typedef int s32; typedef long long s64;
#define SEC(name) __attribute__((section(name), used))
#define barrier(x) asm volatile("" : "+r"(x))
#define ALONE __attribute__((noinline)) static
struct xdp_md { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex; };
static void *(*const lookup)(void *map, const void *key) = (void *)1;
struct { int (*type)[2]; int (*max_entries)[4]; u32 *key; u64 *value; } slots SEC(".maps");
u64 wide[4] = {1, 0xff00ff00ff00ff00, 7, 0x80000000}; u32 half[4] = {3, 0xffffffff, 0, 9}; u8 bytes[8] = {1, 2, 3, 255, 128};
char _license[] SEC("license") = "GPL";
ALONE u64 mix(u64 a, u32 b) { barrier(a); return (a & 0xff) * b + (a >> 32); }
ALONE u32 low(u64 a, u64 b) { if (a > b) return a; b &= 0xf; barrier(b); return b & 0xff; }
static inline u64 clamp(u64 x, u64 most) { if (x > most) x = most; barrier(x); return x; }
"#;

/// C text and the compiler options.
#[derive(Clone, Debug)]
pub struct Source {
    /// The text.
    pub text: String,
    /// `-mcpu=...` and `-O...`.
    pub flags: [&'static str; 2],
}

/// Some functions in C.
pub fn source(choices: &mut Choices<'_>) -> Source {
    let cpu = choices.pick(&["-mcpu=v3", "-mcpu=v1", "-mcpu=v2", "-mcpu=v4"]);
    let level = choices.pick(&["-O2", "-O2", "-O1", "-Os", "-O0", "-O3"]);
    let mut text = String::from(HEAD);
    for index in 0..FUNCTIONS {
        if index > 0 && choices.used_up() {
            break;
        }
        let mut writer = Writer { choices, text: &mut text, variables: Vec::new(), loops: 0, depth: 0 };
        writer.function(index);
    }
    Source { text, flags: [cpu, level] }
}

/// The programs of a source, each in an object of its own.
///
/// # Errors
/// Returns the error of clang or of the object reader.
pub fn compiled(source: &Source) -> Result<Vec<Object>, String> {
    let mut clang = Command::new(CLANG);
    clang.args(["-target", "bpf", "-g", "-w", "-c", "-x", "c", "-", "-o", "-"]).args(source.flags);
    clang.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = clang.spawn().map_err(|error| format!("{CLANG}: {error}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(source.text.as_bytes()).map_err(|error| format!("{CLANG}: {error}"))?;
    }
    let output = child.wait_with_output().map_err(|error| format!("{CLANG}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{CLANG}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let object = kiln_elf::read("fuzz.o", &output.stdout).map_err(|error| error.to_string())?.object;
    Ok(object.programs.iter().map(|program| alone(&object, program.entry)).collect())
}

/// The program that begins at `entry`, with only what it needs, and without types and source lines.
fn alone(object: &Object, entry: kiln_program::FunctionId) -> Object {
    let mut functions = object.reachable_functions(entry);
    // The entry becomes the first.
    functions.retain(|id| *id != entry);
    functions.insert(0, entry);
    let program = object.programs.iter().find(|program| program.entry == entry).unwrap_or(&object.programs[0]);
    let mut object = only(object, program, &functions);
    for function in &mut object.functions {
        function.btf_id = 0;
        for node in &mut function.nodes {
            (node.line, node.core) = (None, None);
        }
    }
    for map in &mut object.maps {
        (map.key_btf, map.value_btf) = (0, 0);
    }
    object
}

/// Whether clang is here.
///
/// # Errors
/// Returns why it is not.
pub fn available() -> Result<(), String> {
    let version = Command::new(CLANG).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.map(drop).map_err(|error| format!("{CLANG}: {error}"))
}

/// A function being written.
struct Writer<'a, 'b, 'c> {
    choices: &'a mut Choices<'b>,
    text: &'c mut String,
    /// Types of the variables v0, v1, ...
    variables: Vec<&'static str>,
    loops: usize,
    depth: usize,
}

macro_rules! put {
    ($writer:expr, $($text:tt)*) => {{
        let line = format!($($text)*);
        let _ = writeln!($writer.text, "{}{line}", "\t".repeat($writer.depth + 1));
    }};
}

impl Writer<'_, '_, '_> {
    fn below(&mut self, bound: usize) -> usize {
        self.choices.below(bound)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.choices.pick(from)
    }

    fn variable(&mut self) -> usize {
        self.choices.below(self.variables.len())
    }

    fn mask(&mut self) -> &'static str {
        self.pick(&["7", "1", "3", "0xf", "0xff", "0xffff", "0x1f", "0x7fffffff", "0xffffffff", "0xff00", "~7ull"])
    }

    fn constant(&mut self) -> String {
        match self.below(3) {
            0 => self.below(20).to_string(),
            1 => {
                self.pick(&["-1", "0xffu", "0x80", "0xffff", "0x80000000u", "0x100000000ull", "-128", "64"]).to_owned()
            }
            _ => format!("{:#x}ull", self.choices.value()),
        }
    }

    fn function(&mut self, index: usize) {
        let _ = writeln!(self.text, "SEC(\"xdp\") int p{index}(struct xdp_md *ctx) {{");
        put!(self, "void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;");
        put!(self, "if (data + {BYTES} > end) return 0;");
        for _ in 0..2 + self.below(4) {
            let kind = self.pick(&TYPES);
            let value = match self.below(4) {
                0 => self.constant(),
                _ => {
                    let width = self.pick(&TYPES);
                    format!("*({width} *)(data + {})", 8 * self.below(7))
                }
            };
            put!(self, "{kind} v{} = {value};", self.variables.len());
            self.variables.push(kind);
        }
        put!(self, "u8 local[8] = {{0}}; u64 spilled[2] = {{0, 0}};");
        for _ in 0..2 + self.below(MOST_STATEMENTS - 1) {
            self.statement();
        }
        let last = self.variable();
        match self.below(4) {
            0 => put!(self, "return v{last} >> ({} & (sizeof(v{last}) * 8 - 1));", self.pick(&[32, 8, 16])),
            1 => put!(self, "*(u16 *)(data + 2) = v{last}; return v{};", self.variable()),
            2 => put!(self, "return v{last} + (local[1] ^ spilled[1]);"),
            _ => put!(self, "return v{last};"),
        }
        self.text.push_str("}\n");
    }

    /// An expression of variables and constants.
    fn expression(&mut self, depth: usize) -> String {
        if depth == 0 {
            return match self.below(4) {
                0 => self.constant(),
                _ => format!("v{}", self.variable()),
            };
        }
        let one = self.expression(depth - 1);
        match self.below(12) {
            0..=2 => format!("({one} {} {})", self.pick(&["+", "-", "*", "&", "|", "^"]), self.expression(0)),
            3 | 4 => format!("({one} & {})", self.mask()),
            5 => format!("((u64)({one}) {} {})", self.pick(&["<<", ">>"]), self.pick(&[1, 8, 32, 16, 44, 31, 63, 56])),
            6 => format!("(({}){one})", self.pick(&TYPES)),
            7 => format!("((u32){one} {} {})", self.pick(&["<<", ">>"]), self.pick(&[1, 8, 16, 31, 24])),
            8 => format!("((u64)({one}) {} {})", self.pick(&["/", "%"]), self.pick(&["3u", "7ull", "16u", "1000ull"])),
            9 => format!("__builtin_bswap{}({one})", self.pick(&[64, 32, 16])),
            10 => {
                let (comparison, other) = (self.comparison(), self.expression(0));
                format!("({comparison} ? {one} : {other})")
            }
            _ => self.pick(&["(-(s64)(", "(~("]).to_owned() + &one + "))",
        }
    }

    fn comparison(&mut self) -> String {
        let one = self.expression(0);
        match self.below(4) {
            0 => format!("({one} & {})", self.mask()),
            1 => format!("(s64){one} {} {}", self.pick(&["<", ">", "<=", ">="]), self.expression(0)),
            _ => format!("{one} {} {}", self.pick(&["<", ">", "<=", ">=", "==", "!="]), self.expression(0)),
        }
    }

    fn block(&mut self, most: usize) {
        self.depth += 1;
        for _ in 0..1 + self.below(most) {
            self.statement();
        }
        self.depth -= 1;
    }

    fn barrier(&mut self, variable: usize) {
        // Narrower variables are not registers to clang.
        if ["u64", "s64", "u32", "s32"].contains(&self.variables[variable]) {
            put!(self, "barrier(v{variable});");
        }
    }

    fn statement(&mut self) {
        let (to, from) = (self.variable(), self.variable());
        let nested = self.depth < 2;
        let kind = self.below(18);
        match kind {
            0..=2 => put!(self, "v{to} = {};", self.expression(2)),
            3 | 4 => {
                put!(self, "v{to} {} {};", self.pick(&["+=", "-=", "*=", "&=", "|=", "^="]), self.expression(1));
            }
            5 | 6 => {
                put!(self, "v{to} &= {};", self.mask());
                self.barrier(to);
            }
            7 => {
                let mask = self.mask();
                put!(self, "v{to} = v{from} & {mask};");
                self.barrier(to);
                put!(self, "v{to} &= {mask};");
            }
            8 => {
                let mask = self.mask();
                put!(self, "v{from} &= {mask};");
                self.barrier(from);
                put!(self, "if ({}) {{ v{to} = v{from};", self.comparison());
                self.barrier(to);
                put!(self, "v{to} &= {mask}; }}");
            }
            9 | 10 if nested => self.branch(),
            11 if nested && self.loops < 2 => self.repetition(),
            12 if nested => {
                put!(self, "switch (v{from} & 3) {{ case 0: v{to} = {}; break;", self.expression(1));
                put!(self, "case 1: v{to} &= {};", self.mask());
                put!(self, "case 2: v{to} += {}; break; }}", self.expression(0));
            }
            13..=15 => self.memory(kind, to, from),
            16 => match self.below(3) {
                0 => put!(self, "v{to} = mix(v{from}, {});", self.expression(0)),
                1 => put!(self, "v{to} = low(v{from}, {});", self.expression(0)),
                _ => put!(self, "v{to} = clamp(v{from}, {});", self.mask()),
            },
            17 => {
                put!(self, "{{ u32 key = v{from} & 3; u64 *slot = lookup(&slots, &key);");
                put!(self, "if (slot) {{ v{to} ^= *slot; *slot = {}; }} }}", self.expression(1));
            }
            _ => put!(self, "v{to} = ({})v{from};", self.pick(&TYPES)),
        }
    }

    fn branch(&mut self) {
        put!(self, "if ({}) {{", self.comparison());
        self.block(3);
        if self.below(2) == 0 {
            put!(self, "}} else {{");
            self.block(2);
        }
        put!(self, "}}");
    }

    fn repetition(&mut self) {
        let (name, turns) = (self.loops, 1 + self.below(5));
        self.loops += 1;
        put!(self, "_Pragma(\"clang loop unroll(disable)\") for (u32 i{name} = 0; i{name} < {turns}; i{name}++) {{");
        self.block(2);
        put!(self, "}}");
    }

    /// A load or a store: of map data (13), of the frame (14), of the packet.
    fn memory(&mut self, kind: usize, to: usize, from: usize) {
        match kind {
            13 => match self.below(4) {
                0 => put!(self, "wide[v{from} & 3] = v{to};"),
                1 => put!(self, "v{to} = half[v{from} & 3];"),
                2 => put!(self, "v{to} {} bytes[v{from} & 7];", self.pick(&["=", "+=", "^="])),
                _ => put!(self, "half[{}] = {};", self.below(4), self.expression(1)),
            },
            14 => match self.below(3) {
                0 => put!(self, "local[v{from} & 7] = v{to}; v{to} = local[{}];", self.below(8)),
                1 => put!(self, "spilled[{}] = v{to}; v{from} = spilled[v{from} & 1];", self.below(2)),
                _ => put!(self, "{{ volatile u64 s = v{to}; v{from} = *(volatile u32 *)&s; }}"),
            },
            _ => match self.below(2) {
                0 => put!(self, "*({} *)(data + {}) = v{from};", self.pick(&TYPES), 8 * self.below(7)),
                _ => {
                    let width = self.pick(&TYPES);
                    put!(self, "v{to} = *({width} *)(data + (v{from} & 31));");
                }
            },
        }
    }
}
