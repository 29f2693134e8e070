//! Stacks by name: the kernel's functions from `/proc/kallsyms`, those of programs from the symbols of their files.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

use kiln_linux::MapHandle;
use kiln_plan::Value;
use kiln_plan::execute::decode;

use crate::programs::Programs;

/// The functions between the traced one and the stack's reader, by what their names begin with.
const OWN: [&str; 6] = ["bpf_get_stackid", "bpf_prog_", "bpf_trace_run", "__traceiter_", "__bpf_trace_", "__bpf_prog_"];

/// The stacks of a query's programs.
pub struct Stacks {
    map: MapHandle,
    symbols: OnceCell<Symbols>,
    programs: RefCell<Programs>,
    /// Stacks that were found before. A number keeps its stack as long as the map lives.
    known: RefCell<HashMap<u64, Option<Value>>>,
}

/// Stacks of processes whose names are kept.
const MAX_KNOWN: usize = 1 << 16;

impl Stacks {
    /// The stacks in a map of stacks.
    pub fn new(map: MapHandle) -> Stacks {
        Stacks { map, symbols: OnceCell::new(), programs: RefCell::default(), known: RefCell::default() }
    }

    /// The upper half of a number is the process of a user's stack; a kernel's has none.
    fn find(&self, number: u64) -> Option<Value> {
        let [id, process] = [number as u32, (number >> 32) as u32];
        let bytes = self.map.lookup(&id.to_le_bytes()).ok()??;
        let addresses = bytes.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok().map(u64::from_le_bytes));
        let addresses = addresses.take_while(|address| *address != 0);
        let names: Vec<String> = match process {
            0 => {
                let text = || std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
                let symbols = self.symbols.get_or_init(|| Symbols::of(&text()));
                addresses.map(|address| symbols.name(address)).collect()
            }
            process => {
                let mut programs = self.programs.borrow_mut();
                // All but the first are where a call returns to, behind the call.
                addresses.enumerate().map(|(at, it)| programs.name(process, it, u64::from(at > 0))).collect()
            }
        };
        let is_own = |name: &String| process == 0 && OWN.iter().any(|own| name.starts_with(own));
        let first = names.iter().take_while(|name| is_own(name)).count();
        let names: Vec<&str> = names[first..].iter().rev().map(String::as_str).collect();
        Some(Value::text(&names.join(";")))
    }
}

impl decode::Stacks for Stacks {
    fn folded(&self, number: u64) -> Option<Value> {
        let mut known = self.known.borrow_mut();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.entry(number).or_insert_with(|| self.find(number)).clone()
    }
}

/// Functions of the kernel, by their addresses.
struct Symbols(Vec<(u64, Box<str>)>);

impl Symbols {
    /// From the text of `/proc/kallsyms`. Addresses of zero, which a process without privilege reads, are left out.
    fn of(text: &str) -> Symbols {
        let symbol = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            is_code.then_some((address, words.next()?.into()))
        };
        let mut all: Vec<(u64, Box<str>)> = text.lines().filter_map(symbol).collect();
        all.sort_by_key(|(address, _)| *address);
        Symbols(all)
    }

    /// The function that an address is in; the address itself if there is none.
    fn name(&self, address: u64) -> String {
        const USER_END: u64 = 1 << 63;
        let before = self.0.partition_point(|(own, _)| *own <= address);
        match before.checked_sub(1).filter(|_| address >= USER_END) {
            Some(at) => self.0[at].1.to_string(),
            None => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_the_function_before_them() {
        let text =
            "ffffffff81000100 t second\nffffffff81000000 T first\nffffffff81000180 d data\n0000000000000000 T none\n";
        let symbols = Symbols::of(text);
        assert_eq!(symbols.name(0xffff_ffff_8100_00ff), "first");
        assert_eq!(symbols.name(0xffff_ffff_8100_0200), "second");
        assert_eq!(symbols.name(0x4000), "0x4000");
        assert_eq!(Symbols::of("").name(u64::MAX), "0xffffffffffffffff");
    }
}
