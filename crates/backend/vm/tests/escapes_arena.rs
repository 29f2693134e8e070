//! Escape attempts through arenas: programs that compute wild heap addresses and access what they lead to.
//!
//! ```text
//!   base - 64 KiB     base              base + bytes            base + 2^bits + 64 KiB, 4 GiB or more
//!   | zeros           | the heaps       | zeros                 |
//! ```
//!
//! The engines run each program in VMs whose arenas are at the same address, and must agree on every result and on every byte
//! of the heaps. What lies outside of the heaps may not be written, so machine code that does ends the test by a signal; the
//! program is in `target/escape-arena.bpf` then. `KILN_ESCAPES` and `KILN_ESCAPE_SEED` choose how many programs, and which.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use kiln_isa::operation::Registry;
use kiln_vm::{Engine, Input, Options, Setting, Surroundings, Toolchain, Vm};

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
}

/// Pages of the heaps that are tried: one, a few, all but one of 4 GiB, all, one more, 8 GiB; several heaps.
const PAGES: [&[u64]; 8] =
    [&[1], &[5], &[(1 << 20) - 1], &[1 << 20], &[(1 << 20) + 1], &[1 << 21], &[2, 1, 3], &[5, 1 << 20, 1]];
const PACKET_BYTES: usize = 64;
/// Where the program reads numbers: it copies them out of the packet to its stack first.
const NUMBERS: u64 = 6;

/// An address near an edge of a heap, of 4 GiB, of all that bits reach or of what an offset reaches; sometimes any number.
fn wild(random: &mut Random, bytes: u64) -> u64 {
    let reach = bytes.next_power_of_two();
    let sizes = [0, bytes, bytes / 2, 1 << 32, 1 << 31, 32768, bytes.wrapping_sub(32768), 20480, reach, u64::MAX];
    let edge = random.pick(&sizes);
    let near = random.pick(&[0i64, 1, -1, 4, -4, 7, -7, 8, -8, 16, -16, 4096, -4096]);
    let upper = random.pick(&[0, 0, 1, 0x7fff, u64::from(u32::MAX), random.0 >> 40]);
    match random.below(8) {
        0 => random.next() << 11 ^ random.next(),
        _ => edge.wrapping_add(near as u64) | upper << 32,
    }
}

fn offset(random: &mut Random) -> i64 {
    let any = random.next() as i16;
    i64::from(random.pick(&[0, 0, 0, 8, -8, 1, -1, 32767, -32768, 4088, any]))
}

/// The address of `r1` and an offset, as text.
fn place(random: &mut Random) -> String {
    let offset = offset(random);
    format!("r1 {} {}", if offset < 0 { '-' } else { '+' }, offset.abs())
}

/// An atomic operation, in its text form.
fn atomic(random: &mut Random, at: &str) -> String {
    let wide = random.below(2) == 0;
    let (bits, value, r0, suffix) = if wide { (64, "r3", "r0", "_64") } else { (32, "w3", "w0", "32_32") };
    match random.below(5) {
        0 => format!("  lock *(u{bits} *)({at}) += {value}"),
        1 => format!("  lock *(u{bits} *)({at}) ^= {value}"),
        2 => format!("  {value} = atomic_fetch_add((u{bits} *)({at}), {value})"),
        3 => format!("  {value} = xchg{suffix}({at}, {value})"),
        _ => format!("  r4 = r0\n  {r0} = cmpxchg{suffix}({at}, {r0}, {value})\n  r0 ^= r4"),
    }
}

/// An access, or arithmetic on the address, of `r1`.
fn gadget(random: &mut Random, text: &mut String) {
    let (size, at, operand) = (random.pick(&["u8", "u16", "u32", "u64"]), place(random), random.next() as i32);
    let whole = size == "u64";
    let line = match random.below(20) {
        0..=2 => format!("  r2 = *({size} *)({at})\n  r0 ^= r2"),
        3 | 4 => format!("  *({size} *)({at}) = r3"),
        5 => format!("  *({size} *)({at}) = {operand}"),
        6..=8 => atomic(random, &at),
        9 => format!("  {} = load_acquire(({size} *)({at}))\n  r0 ^= r2", if whole { "r2" } else { "w2" }),
        10 => format!("  store_release(({size} *)({at}), {})", if whole { "r3" } else { "w3" }),
        11 => format!("  r1 += {}", random.pick(&[operand, 4096, -4096, 32767, i32::MIN])),
        12 => match random.below(2) {
            0 => format!("  r1 {} r3", random.pick(&["*=", "|=", "^=", "-=", "&="])),
            _ => format!("  w1 {} w3", random.pick(&["*=", "|=", "^=", "-=", "&="])),
        },
        13 => "  r1 = addr_space_cast(r1, 0x1, 0x0)\n  r0 += r1\n  r1 = addr_space_cast(r1, 0x0, 0x1)".to_owned(),
        // The cast is of the access alone.
        14 | 15 => {
            let from = 8 * (1 + random.below(NUMBERS));
            let at = at.replace("r1", "r4");
            let access = match random.below(4) {
                0 | 1 => format!("  r4 = *({size} *)({at})\n  r0 ^= r4"),
                2 => format!("  *({size} *)({at}) = r3"),
                _ => format!("  *({size} *)({at}) = {operand}"),
            };
            format!("  r4 = *(u64 *)(r10 - {from})\n  r4 = addr_space_cast(r4, 0x0, 0x1)\n{access}")
        }
        // The frame, by another register and by a function with a frame of its own.
        16 => {
            let from = 8 * (1 + random.below(NUMBERS));
            format!("  r5 = r10\n  r5 += -{from}\n  r2 = *(u64 *)(r5 + 0)\n  r0 ^= r2")
        }
        17 => "  *(u64 *)(r10 - 56) = r0\n  *(u64 *)(r10 - 64) = r1\n  *(u64 *)(r10 - 72) = r3\n  r2 = r10\n  \
               call reader\n  r2 = r0\n  r0 = *(u64 *)(r10 - 56)\n  r0 ^= r2\n  r1 = *(u64 *)(r10 - 64)\n  r3 = *(u64 *)(r10 - 72)"
            .to_owned(),
        _ => {
            let from = 8 * (1 + random.below(NUMBERS));
            format!("  r1 = *(u64 *)(r10 - {from})\n  r1 = addr_space_cast(r1, 0x0, 0x1)")
        }
    };
    let _ = writeln!(text, "{line}");
}

fn program(random: &mut Random, pages: &[u64]) -> String {
    let heap = |(at, pages)| format!("; map heap{at} arena key 0 value 0 entries {pages} flags 0x400\n");
    let mut text: String = pages.iter().enumerate().map(heap).collect();
    text.push_str("; program xdp\n; function main\n");
    for at in 0..pages.len() {
        let _ = writeln!(text, "  r9 = map[heap{at}]");
    }
    text.push_str("  r2 = *(u32 *)(r1 + 0)\n  r3 = *(u32 *)(r1 + 4)\n  r4 = r2\n  r4 += 48\n");
    text.push_str("  if r4 > r3 goto out\n");
    for number in 0..NUMBERS {
        let _ = writeln!(text, "  r4 = *(u64 *)(r2 + {})\n  *(u64 *)(r10 - {}) = r4", 8 * number, 8 * (number + 1));
    }
    text.push_str("  r3 = r4\n  r0 = 0\n  r1 = *(u64 *)(r10 - 8)\n  r1 = addr_space_cast(r1, 0x0, 0x1)\n");
    for _ in 0..2 + random.below(14) {
        gadget(random, &mut text);
    }
    text.push_str("  r1 = r0\n  r1 >>= 32\n  r0 ^= r1\n  exit\nout:\n  r0 = 0\n  exit\n");
    // Reads a number of its caller's, and what that leads to.
    text.push_str("; function reader\n  r4 = *(u64 *)(r2 - 16)\n  *(u64 *)(r10 - 8) = r4\n");
    text.push_str(
        "  r1 = addr_space_cast(r4, 0x0, 0x1)\n  r0 = *(u64 *)(r1 + 8)\n  r3 = *(u64 *)(r10 - 8)\n  r0 += r3\n  exit\n",
    );
    text
}

/// What the heaps hold where accesses are likely to reach: around their edges.
fn heap_edges(vm: &Vm, pages: &[u64]) -> Vec<u64> {
    let mut words = Vec::new();
    for (at, pages) in pages.iter().enumerate() {
        let heap = vm.heap(vm.map(&format!("heap{at}")).expect("the heap")).expect("the heap");
        let bytes = pages * 4096;
        let near = |at: u64| (at.saturating_sub(9000) / 8 * 8..(at + 9000).min(bytes)).step_by(8);
        let edges = [0, 32768, bytes / 2, 1 << 31, 1 << 32, bytes.saturating_sub(32768), bytes];
        words.extend(edges.into_iter().flat_map(near).filter_map(|at| heap.load(at as usize)));
    }
    words
}

/// R0 and what the heap holds after a few runs; `None` for a program that the verifier refuses, and for the native tier
/// without a compiler.
fn run(text: &str, pages: &[u64], packets: &[Vec<u8>], engine: Engine) -> Option<(Vec<u64>, Vec<u64>)> {
    let mut object = kiln_program::text::parse(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    if engine != Engine::Interpreter {
        object.operations = kiln_idiom::recognize_where(&object, &Registry::BUILTIN, &|_| true);
    }
    let options = Options {
        map_bytes: 1 << 33,
        place: Some(77),
        surroundings: Surroundings { cpus: 1, ..Surroundings::default() },
        // Half of the programs run with hidden constants, which clang's code cannot have.
        blind: text.len().is_multiple_of(2) && engine != Engine::Native,
        ..Options::default()
    };
    // One VM at a time: another one would take the place from it, and have its arenas elsewhere.
    static PLACE: Mutex<()> = Mutex::new(());
    let _alone = PLACE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut vm = Vm::new(&object, options).expect("an arena");
    let name = object.programs[0].name.clone();
    if let Err(error) = vm.load(&name) {
        assert!(!error.to_string().contains("malformed"), "{error}:\n{text}");
        return None;
    }
    if engine == Engine::Native {
        let toolchain = Toolchain::new(Toolchain::CLANG).ok()?;
        vm.load_native(&name, &toolchain, Setting::Fast).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    }
    let run = |packet: &Vec<u8>| match vm.run(&name, &Input::packet(packet), engine) {
        Ok(result) => result.value,
        Err(error) => panic!("{engine:?}: {error}:\n{text}"),
    };
    let values = packets.iter().map(run).collect();
    assert!(vm.written_outside().is_empty(), "{engine:?}: {:?}:\n{text}", vm.written_outside());
    Some((values, heap_edges(&vm, pages)))
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Arithmetic on a heap address becomes arithmetic of 32 bits, which is not the operation that was recognized.
#[test]
fn a_number_in_memory_is_added_to_a_heap_address() {
    let text = "; map heap0 arena key 0 value 0 entries 1 flags 0x400 extra 0x100000000000\n; program xdp\n  \
                r3 = map[heap0]\n  *(u64 *)(r10 - 8) = 16\n  r1 = 8\n  r1 = addr_space_cast(r1, 0, 1)\n  \
                *(u64 *)(r1 + 16) = 5\n  r2 = *(u64 *)(r10 - 8)\n  r1 += r2\n  r0 = *(u64 *)(r1 + 0)\n  exit\n";
    for engine in [Engine::Interpreter, Engine::Jit] {
        if engine == Engine::Interpreter || cfg!(target_arch = "x86_64") {
            let ran = run(text, &[1], &[vec![0; PACKET_BYTES]], engine).expect("it loads");
            assert_eq!(ran.0, [5], "{engine:?}");
        }
    }
}

/// A helper calls a function that has a frame and accesses the heap.
#[test]
fn callbacks_access_the_heap() {
    let text = "; map heap0 arena key 0 value 0 entries 1 flags 0x400\n; program xdp\n; function main\n  \
                r9 = map[heap0]\n  *(u64 *)(r10 - 8) = 40\n  r1 = 3\n  r2 = fn[adder]\n  r3 = r10\n  r3 += -8\n  r4 = 0\n  \
                call loop\n  r1 = 40\n  r1 = addr_space_cast(r1, 0, 1)\n  r0 = *(u64 *)(r1 + 0)\n  exit\n\
                ; function adder\n  *(u64 *)(r10 - 16) = r1\n  r3 = *(u64 *)(r2 + 0)\n  r3 = addr_space_cast(r3, 0, 1)\n  \
                r4 = *(u64 *)(r3 + 0)\n  r1 = *(u64 *)(r10 - 16)\n  r4 += r1\n  r4 += 5\n  *(u64 *)(r3 + 0) = r4\n  \
                r0 = 0\n  exit\n";
    for engine in [Engine::Interpreter, Engine::Jit, Engine::Native] {
        if engine == Engine::Interpreter || cfg!(target_arch = "x86_64") {
            let Some(ran) = run(text, &[1], &[vec![0; PACKET_BYTES], vec![0; PACKET_BYTES]], engine) else { continue };
            assert_eq!(ran.0, [18, 36], "{engine:?}");
        }
    }
}

#[test]
fn no_access_leaves_the_arena() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target");
    let (count, first) = (setting("KILN_ESCAPES", 400), setting("KILN_ESCAPE_SEED", 1));
    let (mut accepted, mut touched, mut in_the_tier) = (0, 0, 0);
    for seed in first..first + count {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..4 {
            random.next();
        }
        let pages = random.pick(&PAGES);
        let bytes = pages.iter().sum::<u64>() * 4096;
        let text = program(&mut random, pages);
        let packet = |random: &mut Random| -> Vec<u8> {
            let mut packet = vec![0; PACKET_BYTES];
            for number in packet.chunks_exact_mut(8) {
                number.copy_from_slice(&wild(random, bytes).to_le_bytes());
            }
            packet
        };
        let packets: Vec<_> = (0..6).map(|_| packet(&mut random)).collect();
        let Some(expected) = run(&text, pages, &packets, Engine::Interpreter) else { continue };
        accepted += 1;
        touched += usize::from(expected.1.iter().any(|word| *word != 0));
        if cfg!(any(target_arch = "x86_64")) {
            let _ = std::fs::write(folder.join("escape-arena.bpf"), &text);
            // A compiler takes longer than everything else.
            let tier = (seed % 16 == 0).then_some(Engine::Native);
            for engine in std::iter::once(Engine::Jit).chain(tier) {
                let Some(compiled) = run(&text, pages, &packets, engine) else { continue };
                assert_eq!(compiled.0, expected.0, "{engine:?}, seed {seed}: results:\n{text}");
                assert!(compiled.1 == expected.1, "{engine:?}, seed {seed}: the heaps differ:\n{text}");
                in_the_tier += usize::from(engine == Engine::Native);
            }
        }
    }
    println!(
        "arena escapes: {count} programs, {accepted} accepted, {touched} changed the heap, {in_the_tier} also natively"
    );
    assert!(
        accepted * 4 >= count * 3 && touched * 4 >= count as usize,
        "{accepted} accepted, {touched} changed the heap"
    );
}
