//! Programs with a call that may read or write the caller's frame, and what a forger makes of them.
//!
//! ```text
//!   *(u64 *)(r10 - 16) = 1          a value, or an address, in the frame
//!   call ...                        a helper, kernel function or function of the program that is handed r10 - 16
//!   r0 = *(u64 *)(r10 - 16)         forged: r0 = 1, as if the call did not write it
//! ```

/// The types of a program `prog` (number 6) and a static function `body` (number 10) with two arguments.
const BTF: &str = include_str!("types.bpf");

/// Objects that every listing may name.
const MAPS: &str = "\
; license GPL
; map table array key 4 value 8 entries 1
; map .data array key 4 value 64 entries 1 data 02
";

/// A program before and after a forgery.
#[derive(Clone)]
pub struct Forgery {
    /// Its name.
    pub what: String,
    /// The listing before.
    pub before: String,
    /// The listing after.
    pub after: String,
    /// A harmless change instead: a register is written that nobody reads.
    pub harmless: String,
    /// The number of the function that is forged.
    pub function: u32,
}

impl Forgery {
    /// `body` follows `head`, which ends with the function that is forged. One of its lines is replaced, or removed.
    pub fn new(what: impl Into<String>, head: &str, function: u32, body: &str, forged: [&str; 2]) -> Forgery {
        let lines: Vec<String> = body.lines().map(|line| line.trim().to_owned()).collect();
        let at = lines.iter().rposition(|line| line == forged[0]).expect("the line that is forged");
        // What both listings have keeps its number.
        let listing = |replaced: Option<&str>| {
            let mut text = format!("{MAPS}{head}");
            for (number, line) in lines.iter().enumerate() {
                match replaced.filter(|_| number == at).unwrap_or(line) {
                    "" => {}
                    line => text += &format!("; insn {}\n  {line}\n", 100 + number),
                }
            }
            text
        };
        let before = listing(None);
        let harmless = before.replacen("; insn 100\n", "; insn 99\n  r9 = 5\n; insn 100\n", 1);
        Forgery { what: what.into(), after: listing(Some(forged[1])), harmless, before, function }
    }
}

/// What holds a number at `r10 - 16` before a call and is loaded after it.
pub const NUMBER: &str = "*(u64 *)(r10 - 16) = 1";
const LOADED: &str = "r0 = *(u64 *)(r10 - 16)";

/// A number is taken for still there after a call.
pub fn value(what: &str, head: &str, function: u32, call: &str) -> Forgery {
    let body = format!("r6 = r1\n{NUMBER}\n{call}\n{LOADED}\nexit");
    Forgery::new(format!("{what} writes a number"), head, function, &body, [LOADED, "r0 = 1"])
}

/// An address is taken for still there after a call.
pub fn address(what: &str, head: &str, function: u32, call: &str) -> Forgery {
    let spill = "*(u64 *)(r10 - 8) = 1\nr7 = r10\nr7 += -8\n*(u64 *)(r10 - 16) = r7";
    let load = "r0 = *(u64 *)(r1 + 0)";
    let body = format!("r6 = r1\n{spill}\n{call}\nr1 = *(u64 *)(r10 - 16)\n{load}\nexit");
    Forgery::new(format!("{what} writes an address"), head, function, &body, [load, "r0 = *(u64 *)(r10 - 8)"])
}

/// A program after a function that it calls, or that a helper calls.
fn with_function(linkage: &str, code: &str) -> String {
    format!(
        "{BTF}; function body {linkage} section .text btf 10\n{code}  r0 = 0\n  exit\n\
         ; program sched_cls name prog section tc\n; function prog global section tc btf 6\n"
    )
}

/// Stores a number, or an address, where a register points to.
fn stores(register: &str) -> [String; 2] {
    [
        format!("  *(u64 *)({register} + 0) = 2\n"),
        format!("  r0 = map_value[.data] + 0\n  *(u64 *)({register} + 0) = r0\n"),
    ]
}

/// Functions of the program that are handed a part of the frame: by helpers as callbacks, and by calls.
pub fn functions() -> Vec<Forgery> {
    let callbacks = [
        ("loop", "static", "r2", "r1 = 1\nr2 = fn[body]\nr3 = r10\nr3 += -16\nr4 = 0\ncall loop"),
        (
            "for_each_map_elem",
            "static",
            "r4",
            "r1 = map[table]\nr2 = fn[body]\nr3 = r10\nr3 += -16\nr4 = 0\ncall for_each_map_elem",
        ),
        ("a static function", "static", "r2", "r2 = r10\nr2 += -16\nr1 = 0\ncall body"),
        ("a global function", "global", "r2", "r2 = r10\nr2 += -16\nr1 = 0\ncall body"),
    ];
    let mut all = Vec::new();
    for (what, linkage, register, call) in callbacks {
        let [number, pointer] = stores(register).map(|code| with_function(linkage, &code));
        all.push(value(what, &number, 1, call));
        all.push(address(what, &pointer, 1, call));
        // It copies what it reads to a map, which the program returns.
        let copy = format!("  r1 = *(u64 *)({register} + 0)\n  r2 = map_value[.data] + 0\n  *(u64 *)(r2 + 0) = r1\n");
        let call = format!("{call}\nr1 = map_value[.data] + 0\nr7 = *(u64 *)(r1 + 0)");
        let body = format!("r6 = r1\n{NUMBER}\n{call}\nr0 = r7\nexit");
        let forged = [NUMBER, "*(u64 *)(r10 - 16) = 2"];
        all.push(Forgery::new(format!("{what} reads"), &with_function(linkage, &copy), 1, &body, forged));
    }
    all
}

/// The address of a part of the frame, as a number that a helper reads at.
pub fn numbers() -> Vec<Forgery> {
    let head = "; program sched_cls name prog section tc\n";
    let begin = "*(u64 *)(r10 - 8) = 1\nr6 = r10\nr6 += -8";
    let reads = "r1 = r10\nr1 += -24\nr2 = 8\ncall probe_read_kernel\nr0 = *(u64 *)(r10 - 24)\nexit";
    let ways = [
        (
            "both halves of a spilled address",
            "*(u64 *)(r10 - 16) = r6\nw7 = *(u32 *)(r10 - 16)\nw3 = *(u32 *)(r10 - 12)\nr3 <<= 32\nr3 |= r7",
        ),
        ("an address that was in a map", "r7 = map_value[.data] + 0\n*(u64 *)(r7 + 8) = r6\nr3 = *(u64 *)(r7 + 8)"),
        (
            "a difference of addresses",
            "r7 = map_value[.data] + 0\n*(u64 *)(r7 + 8) = r7\nr8 = *(u64 *)(r7 + 8)\nr3 = r6\nr3 -= r7\nr3 += r8",
        ),
    ];
    let forged = ["*(u64 *)(r10 - 8) = 1", "*(u64 *)(r10 - 8) = 2"];
    ways.into_iter()
        .map(|(what, way)| Forgery::new(what, head, 0, &format!("{begin}\n{way}\n{reads}"), forged))
        .collect()
}

/// A function that finds the context in its caller's frame.
pub fn contexts() -> Vec<Forgery> {
    let head = format!(
        "{BTF}; program sched_cls name prog section tc\n; function prog global section tc btf 6\n  r2 = r1\n  r1 = r10\n  \
         r1 += -16\n  call body\n  exit\n; function body static section .text btf 10\n"
    );
    let load = "r0 = *(u32 *)(r2 + 8)";
    let body = format!(
        "*(u64 *)(r1 + 0) = r2\nr3 = *(u64 *)(r1 + 0)\nr6 = *(u32 *)(r2 + 8)\nr7 = 7\n*(u32 *)(r3 + 8) = r7\n{load}\nexit"
    );
    vec![Forgery::new("the context in a caller's frame", &head, 1, &body, [load, "r0 = r6"])]
}
