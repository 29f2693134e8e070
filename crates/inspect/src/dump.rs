//! `kiln dump`: listings, as data and as text.
//!
//! ```text
//!   program filter <filter> in section xdp: 12 slots
//!   ; filter.c:31: count = *value;
//!   L2:
//!       9: r1 = *(u64 *)(r0 + 0x0)        ; r0=value[counters] live r0,r1
//! ```
//!
//! With facts, a line names only what changed since the line above it; after a label everything is named again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use kiln_platform::Helper;
use kiln_program::btf::Btf;
use kiln_program::text::{Labels, Names};
use kiln_program::{Clean, Function, FunctionId, InsnId, Node, Object, Program, Reference};
use kiln_verifier::{Facts, InsnFacts, Region, Scalar, StackSet, Value};
use serde::Serialize;

use crate::input::Input;
use crate::show::core_names;
use crate::show::shown::{Shown, count};
use kiln_program::Error;

/// What a listing shows in addition to the instructions: source lines, by default.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Options {
    /// Source lines, where recorded.
    pub source: bool,
    /// What to say of what the verifier knows before each instruction, if anything.
    pub facts: Option<Verified>,
}

/// An object as `kiln check` verifies it: as it would be loaded.
#[derive(Clone, Debug)]
pub struct Verified {
    object: Arc<Object>,
    options: kiln_verifier::Options,
}

impl Verified {
    /// Returns how an input is verified.
    ///
    /// # Errors
    /// As [`Input::as_loaded`].
    pub fn new(input: &Input) -> Result<Verified, Error> {
        Ok(Verified { object: Arc::new(input.as_loaded()?), options: input.verifier_options() })
    }

    /// The facts of a program, or why there are none.
    fn facts(&self, program: &Program) -> (Facts, Option<String>) {
        match kiln_verifier::verify(&self.object, program, &self.options) {
            Ok(verified) => (verified.facts, None),
            Err(error) => (Facts::default(), Some(error.to_string())),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options { source: true, facts: None }
    }
}

/// A program with its subprograms.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// The program.
    pub program: Shown,
    /// Its section.
    pub section: Shown,
    /// Its type, where known.
    pub program_type: Option<&'static str>,
    /// Why facts are missing, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_facts: Option<Shown>,
    /// The entry, then its subprograms.
    pub functions: Vec<FunctionListing>,
}

/// One function.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionListing {
    /// Its symbol.
    pub name: Shown,
    /// The section it is in.
    pub section: Shown,
    /// Its slots.
    pub slots: u32,
    /// Its instructions.
    pub instructions: Vec<Line>,
}

/// One instruction.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The slot it begins at, in its function.
    pub slot: u32,
    /// The label in front of it, if a branch leads here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<Shown>,
    /// The instruction, with names for what it refers to.
    pub text: Shown,
    /// The source file, where recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<Shown>,
    /// The line in that file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What the line says, where the object has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Shown>,
    /// What it refers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Referred>,
    /// The CO-RE relocation, such as `field_byte_offset of struct task_struct.pid`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<Shown>,
    /// The native operation that it ends by a mark, or `part` where it is another instruction of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Shown>,
    /// What the verifier knows before it, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<Shown>,
    /// All facts of each instruction, not only those that changed since the line above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<KnownHere>,
}

/// All that is known before an instruction, over all paths.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KnownHere {
    /// Registers that hold something on every path, such as `r1`: `ctx`.
    pub registers: BTreeMap<Shown, Shown>,
    /// Stack slots of which something is known, by their lowest byte, such as `fp-8`.
    pub stack: BTreeMap<Shown, Shown>,
    /// Registers that may be read after the instruction.
    pub live: Vec<Shown>,
    /// Bytes of the own frame that may be read after it, as ranges from the frame pointer, such as `-8..-1`.
    pub stack_live: Vec<Shown>,
    /// Bytes of the packet known to be there.
    pub packet_bytes: u32,
    /// What some path holds: references by the call that acquired them, and locks.
    pub held: Vec<Shown>,
}

/// What an instruction refers to.
#[derive(Clone, Debug, Serialize)]
pub struct Referred {
    /// `map`, `map-value`, `function` or `extern`.
    pub kind: &'static str,
    /// Its name.
    pub name: Shown,
    /// The byte, in a map's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u32>,
}

/// Instructions that the listings of an object's programs may have together.
pub const MAX_LISTED: usize = 1_000_000;

/// Whether programs can be listed: each with all that it reaches, so what many share is listed for each.
///
/// # Errors
/// [`Error::Limit`] for more than [`MAX_LISTED`] instructions.
pub fn check_size(object: &Object, programs: &[&Program]) -> Result<(), Error> {
    let mut listed = 0;
    for program in programs {
        let functions = object.reachable_functions(program.entry);
        listed += functions.into_iter().map(|id| object.function(id).nodes.len()).sum::<usize>();
        if listed > MAX_LISTED {
            let many = "the programs have more than a million instructions, those that they share counted for each";
            return Err(Error::Limit(format!("{many} (MAX_LISTED): choose some with --program")));
        }
    }
    Ok(())
}

/// Listings as one document, each made when it is written.
pub struct Listings<'a> {
    object: &'a Object,
    programs: &'a [&'a Program],
    options: Options,
}

impl<'a> Listings<'a> {
    /// The programs to list.
    ///
    /// # Errors
    /// As [`check_size`].
    pub fn new(object: &'a Object, programs: &'a [&'a Program], options: Options) -> Result<Listings<'a>, Error> {
        check_size(object, programs)?;
        Ok(Listings { object, programs, options })
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Listing> + '_ {
        let shared = Shared::of(self.object);
        self.programs.iter().map(move |program| shared.listing(self.object, program, self.options.clone()))
    }
}

impl Serialize for Listings<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// The listing of a program with its subprograms, as data.
pub fn listing(object: &Object, program: &Program, options: Options) -> Listing {
    Shared::of(object).listing(object, program, options)
}

/// What the listings of an object's programs share.
struct Shared<'a> {
    names: Names<'a>,
    btf: Option<Btf>,
}

impl<'a> Shared<'a> {
    fn of(object: &'a Object) -> Shared<'a> {
        let btf = object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok());
        Shared { names: Names::of(object), btf }
    }

    fn listing(&self, object: &Object, program: &Program, options: Options) -> Listing {
        let (facts, no_facts) = options.facts.as_ref().map(|verified| verified.facts(program)).unwrap_or_default();
        View { object, shared: self, facts, options }.listing(program, no_facts)
    }
}

impl View<'_> {
    fn listing(&self, program: &Program, no_facts: Option<String>) -> Listing {
        let reached = self.object.reachable_functions(program.entry);
        Listing {
            program: program.name.as_str().into(),
            section: program.section.as_str().into(),
            program_type: program.program_type.map(|known| known.name()),
            no_facts: no_facts.map(Shown::from),
            functions: reached.into_iter().map(|id| self.function(id)).collect(),
        }
    }
}

/// The listing of a program with its subprograms, as text.
pub fn program(object: &Object, program: &Program, options: Options) -> String {
    listing(object, program, options).to_string()
}

/// The object's maps, one line each.
pub fn maps(object: &Object) -> String {
    let mut text = String::new();
    for map in &object.maps {
        let _ = writeln!(
            text,
            "map {}: {} key {} B, value {} B, {} {}{}{}",
            Clean(&map.name),
            map.map_type.name(),
            map.key_size,
            map.value_size,
            map.max_entries,
            if map.max_entries == 1 { "entry" } else { "entries" },
            if map.flags == 0 { String::new() } else { format!(", flags {:#x}", map.flags) },
            if map.pinned_by_name { ", pinned by name" } else { "" },
        );
    }
    text
}

struct View<'a> {
    object: &'a Object,
    shared: &'a Shared<'a>,
    facts: Facts,
    options: Options,
}

impl View<'_> {
    fn function(&self, id: FunctionId) -> FunctionListing {
        let function: &Function = self.object.function(id);
        let labels = Labels::of(function);
        let mut slot = 0;
        let mut known = Known::default();
        let mut instructions = Vec::with_capacity(function.nodes.len());
        for node in &function.nodes {
            let label = labels.get(node.id);
            if label.is_some() {
                known = Known::default();
            }
            // Line 0 is what compilers give to code that no line asked for.
            let source = self.object.line(node).filter(|source| self.options.source && source.line != 0);
            instructions.push(Line {
                slot,
                label: label.map(Shown::from),
                text: self.shared.names.node_text(node, &labels).into(),
                file: source.map(|source| source.file.as_str().into()),
                line: source.map(|source| source.line),
                source: source.map(|source| source.text.trim()).filter(|text| !text.is_empty()).map(Shown::from),
                reference: self.reference(node),
                core: self.core(node).map(Shown::from),
                operation: self.operation(node.id).map(Shown::from),
                facts: self
                    .facts
                    .at(node.id)
                    .map(|facts| known.describe(self.object, facts, self.held(node.id)).into()),
                known: self.facts.at(node.id).map(|facts| self.known_here(node.id, facts)),
            });
            slot += node.insn.slots();
        }
        let (name, section) = (function.name.as_str().into(), function.section.as_str().into());
        FunctionListing { name, section, slots: function.slots(), instructions }
    }

    fn known_here(&self, insn: InsnId, facts: &InsnFacts) -> KnownHere {
        let registers = facts.registers.iter().enumerate().filter(|(_, value)| !matches!(value, Value::Uninit));
        KnownHere {
            registers: registers
                .map(|(index, value)| (format!("r{index}").into(), value_text(self.object, value).into()))
                .collect(),
            stack: facts
                .stack
                .iter()
                .map(|(at, value)| (format!("fp{at}").into(), value_text(self.object, value).into()))
                .collect(),
            live: Shown::all(facts.live_after.iter().map(|reg| reg.to_string())),
            stack_live: Shown::all(ranges(&facts.stack_live_after)),
            packet_bytes: facts.packet_bytes,
            held: Shown::all(self.held(insn)),
        }
    }

    /// What some path holds before an instruction.
    fn held(&self, insn: InsnId) -> Vec<String> {
        let Some(held) = self.facts.held(insn) else { return Vec::new() };
        let references = held.references.iter().map(|acquired| {
            let mut nodes = self.object.functions.iter().flat_map(|function| &function.nodes);
            let helper = nodes.find(|node| node.id == *acquired).and_then(|node| node.helper()).and_then(Helper::by_id);
            helper.map_or_else(|| "a reference".to_owned(), |helper| format!("bpf_{}", helper.name))
        });
        let locks = (held.locks > 0).then(|| count(held.locks, "lock"));
        use kiln_verifier::Section;
        let sections = held.begun.iter().filter_map(|begun| match begun.what {
            Section::Lock => None,
            Section::Rcu => Some("an RCU read section".to_owned()),
            Section::Preemption => Some("no preemption".to_owned()),
            Section::Interrupts => Some("no interrupts".to_owned()),
        });
        references.chain(locks).chain(sections).collect()
    }

    fn reference(&self, node: &Node) -> Option<Referred> {
        let object = self.object;
        let (kind, name, offset) = match node.reference {
            Reference::Map(map) => ("map", &object.map(map).name, None),
            Reference::MapValue { map, offset } => ("map-value", &object.map(map).name, Some(offset)),
            Reference::Function(id) => ("function", &object.function(id).name, None),
            Reference::Extern(id) => ("extern", &object.externs.get(id.index())?.name, None),
            _ => return None,
        };
        Some(Referred { kind, name: name.as_str().into(), offset })
    }

    fn operation(&self, insn: InsnId) -> Option<String> {
        let mark = self.object.operations.iter().find(|mark| mark.members.contains(&insn))?;
        let ends = mark.members.last() == Some(&insn);
        Some(if ends { crate::ops::mark_text(mark) } else { "part".to_owned() })
    }

    fn core(&self, node: &Node) -> Option<String> {
        let record = self.object.core.get(node.core?.index())?;
        Some(core_names::describe(self.shared.btf.as_ref(), record))
    }
}

impl std::fmt::Display for Listing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(why) = &self.no_facts {
            for line in why.exact().lines() {
                writeln!(out, "; no facts: {}", Clean(line.trim()))?;
            }
        }
        for function in &self.functions {
            write_head(out, self, function)?;
            let mut place = String::new();
            for line in &function.instructions {
                write_line(out, line, &mut place)?;
            }
        }
        Ok(())
    }
}

/// Writes the line above a function of a listing.
pub fn write_head(
    out: &mut std::fmt::Formatter<'_>,
    listing: &Listing,
    function: &FunctionListing,
) -> std::fmt::Result {
    let is_entry = listing.functions.first().is_some_and(|first| std::ptr::eq(first, function));
    let role = if is_entry { format!("program {}", listing.program) } else { "subprogram".to_owned() };
    let FunctionListing { name, section, slots, .. } = function;
    writeln!(out, "{role} <{name}> in section {section}: {slots} slots")
}

/// Writes an instruction; `place` is the source line that was written last.
pub fn write_line(out: &mut std::fmt::Formatter<'_>, line: &Line, place: &mut String) -> std::fmt::Result {
    if let (Some(file), Some(number)) = (&line.file, line.line) {
        let file = Clean(file.exact().rsplit('/').next().unwrap_or_default());
        let source = line.source.as_ref().map_or(String::new(), |text| format!(" {text}"));
        let here = format!("; {file}:{number}:{source}");
        if here != *place {
            writeln!(out, "{here}")?;
            *place = here;
        }
    }
    if let Some(label) = &line.label {
        writeln!(out, "{label}:")?;
    }
    let mut text = format!("{:5}: {}", line.slot, line.text);
    if let Some(core) = &line.core {
        let _ = write!(text, "  ; CO-RE {core}");
    }
    match &line.operation {
        Some(operation) if *operation == "part" => text = format!("{text:<44}  ; *"),
        Some(operation) => text = format!("{text:<44}  ; * {operation}"),
        None => {}
    }
    match line.facts.as_ref().filter(|facts| !facts.is_empty()) {
        Some(facts) => writeln!(out, "{text:<44}  ; {facts}"),
        None => writeln!(out, "{text}"),
    }
}

/// What the lines above said.
#[derive(Default)]
struct Known {
    registers: Vec<Option<String>>,
    stack: BTreeMap<i16, String>,
    live: String,
    stack_live: String,
    held: Vec<String>,
}

impl Known {
    /// Registers whose value is not what was said last, then what lives on.
    fn describe(&mut self, object: &Object, facts: &InsnFacts, held: Vec<String>) -> String {
        let mut parts = Vec::new();
        self.registers.resize(facts.registers.len(), None);
        // r10 is the frame pointer everywhere.
        for (index, value) in facts.registers.iter().enumerate().filter(|(index, _)| *index != 10) {
            let now = (!matches!(value, Value::Uninit)).then(|| value_text(object, value));
            if now != self.registers[index]
                && let Some(text) = &now
            {
                parts.push(format!("r{index}={text}"));
            }
            self.registers[index] = now;
        }
        let stack: BTreeMap<i16, String> =
            facts.stack.iter().map(|(at, value)| (*at, value_text(object, value))).collect();
        for (at, text) in stack.iter().rev().filter(|(at, text)| self.stack.get(at) != Some(text)) {
            parts.push(format!("fp{at}={text}"));
        }
        self.stack = stack;
        if held != self.held {
            parts.push(if held.is_empty() { "holds nothing".to_owned() } else { format!("holds {}", held.join(", ")) });
            self.held = held;
        }
        let named = facts.live_after.iter().map(|reg| reg.to_string()).filter(|name| name != "r10");
        let live = format!("live {}", named.collect::<Vec<_>>().join(","));
        if live != self.live {
            parts.push(live.clone());
            self.live = live;
        }
        let stack_live = ranges(&facts.stack_live_after).join(",");
        if stack_live != self.stack_live {
            parts.push(format!("stack live {}", if stack_live.is_empty() { "none" } else { &stack_live }));
            self.stack_live = stack_live;
        }
        parts.join(" ")
    }
}

/// Runs of bytes, such as `-16..-9`.
fn ranges(set: &StackSet) -> Vec<String> {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for at in set.iter() {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == at => *last = at,
            _ => runs.push((at, at)),
        }
    }
    runs.iter().map(|(first, last)| format!("{first}..{last}")).collect()
}

/// A number: its value, or its range in the terms in which it is narrowest, and the bits that are known where they
/// say more.
fn number_text(scalar: &Scalar) -> String {
    if let Some(value) = scalar.as_constant() {
        return format!("{value:#x}");
    }
    if *scalar == Scalar::UNKNOWN {
        return "scalar".to_owned();
    }
    let unsigned = format!("{:#x}..{:#x}", scalar.umin, scalar.umax);
    let range = match (scalar.umax - scalar.umin, scalar.smax.wrapping_sub(scalar.smin) as u64) {
        (u64::MAX, u64::MAX) => "scalar".to_owned(),
        (of_unsigned, of_signed) if of_signed < of_unsigned => format!("{}..{}", scalar.smin, scalar.smax),
        _ => unsigned,
    };
    // Low bits that are zero on every path are an alignment that the range does not tell.
    let zeros = (scalar.tnum.mask | scalar.tnum.value).trailing_zeros();
    if zeros > 0 && zeros < 64 { format!("{range} by {}", 1_u64 << zeros) } else { range }
}

fn value_text(object: &Object, value: &Value) -> String {
    match value {
        Value::Uninit => "?".to_owned(),
        Value::Unknown => "any".to_owned(),
        Value::Scalar(scalar) => number_text(scalar),
        Value::Pointer(pointer) => {
            let region = match &pointer.region {
                Region::Context => "ctx".to_owned(),
                Region::Stack { up: 0 } => "fp".to_owned(),
                Region::Stack { up } => format!("fp^{up}"),
                Region::Map(map) => format!("map[{}]", object.map(*map).name),
                Region::MapValue(map) => format!("value[{}]", object.map(*map).name),
                Region::Packet => "pkt".to_owned(),
                Region::PacketMeta => "pkt_meta".to_owned(),
                Region::PacketEnd => "pkt_end".to_owned(),
                Region::Other(name) => name.clone(),
            };
            let offset = match pointer.offset.as_constant().map(|offset| offset as i64) {
                Some(0) => String::new(),
                Some(offset) => format!("{offset:+}"),
                None => format!("+({}..{})", pointer.offset.smin, pointer.offset.smax),
            };
            format!("{region}{offset}{}", if pointer.nullable { "|null" } else { "" })
        }
    }
}
