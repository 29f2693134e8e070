//! `kiln dump`: listings.

use std::fmt::Write as _;

use kiln_program::text::{Labels, node_text};
use kiln_program::{Function, FunctionId, LineId, Object, Program};
use kiln_verifier::{Assumptions, Facts, InsnFacts, Region, Value};

/// What a listing shows beside the instructions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Source lines, where recorded.
    pub source: bool,
    /// What the verifier knows before each instruction.
    pub facts: bool,
}

/// The listing of a program with its subprograms.
pub fn program(object: &Object, program: &Program, options: Options) -> String {
    let mut text = String::new();
    let facts = if options.facts { facts(object, program, &mut text) } else { Facts::default() };
    for (index, id) in object.reachable_functions(program.entry).into_iter().enumerate() {
        let name = if index == 0 { format!("program {}", program.name) } else { "subprogram".to_owned() };
        function(object, id, &name, &facts, options, &mut text);
    }
    text
}

/// The object's maps, one line each.
pub fn maps(object: &Object) -> String {
    let mut text = String::new();
    for map in &object.maps {
        let _ = writeln!(
            text,
            "map {}: {} key {} B, value {} B, {} entries{}{}",
            map.name,
            map.map_type.name(),
            map.key_size,
            map.value_size,
            map.max_entries,
            if map.flags == 0 { String::new() } else { format!(", flags {:#x}", map.flags) },
            if map.pinned_by_name { ", pinned by name" } else { "" },
        );
    }
    text
}

fn facts(object: &Object, program: &Program, text: &mut String) -> Facts {
    let options = kiln_verifier::Options { assumptions: Assumptions::AnyLoad, ..Default::default() };
    match kiln_verifier::verify(object, program, &options) {
        Ok(verified) => verified.facts,
        Err(error) => {
            let _ = writeln!(text, "; no facts: {error}");
            Facts::default()
        }
    }
}

fn function(
    object: &Object,
    id: FunctionId,
    role: &str,
    facts: &Facts,
    options: Options,
    text: &mut String,
) {
    let function: &Function = object.function(id);
    let _ = writeln!(text, "{role} <{}> in section {}: {} slots", function.name, function.section, function.slots());
    let labels = Labels::of(function);
    let mut slot = 0;
    let mut line: Option<LineId> = None;
    for node in &function.nodes {
        if options.source
            && node.line != line
            && let Some(source) = object.line(node)
        {
            let file = source.file.rsplit('/').next().unwrap_or_default();
            let _ = writeln!(text, "; {file}:{}: {}", source.line, source.text.trim());
            line = node.line;
        }
        if let Some(label) = labels.get(node.id) {
            let _ = writeln!(text, "{label}:");
        }
        let mut listing = format!("{slot:5}: {}", node_text(object, node, &labels));
        if let Some(core) = node.core.and_then(|id| object.core.get(id.index())) {
            let _ = write!(listing, "  ; CO-RE type {} {} kind {}", core.type_id, core.access, core.kind);
        }
        match facts.at(node.id).filter(|_| options.facts) {
            Some(known) => {
                let _ = writeln!(text, "{listing:<52}  ; {}", known_text(object, known));
            }
            None => {
                let _ = writeln!(text, "{listing}");
            }
        }
        slot += node.insn.slots();
    }
}

/// Registers that hold something, then what lives on.
fn known_text(object: &Object, known: &InsnFacts) -> String {
    let registers = known.registers.iter().enumerate().filter(|(index, _)| *index != 10);
    let mut parts: Vec<String> = registers
        .filter(|(_, value)| !matches!(value, Value::Uninit))
        .map(|(index, value)| format!("r{index}={}", value_text(object, value)))
        .collect();
    let live: Vec<String> = known.live_after.iter().map(|reg| reg.to_string()).collect();
    parts.push(format!("live {}", if live.is_empty() { "-".to_owned() } else { live.join(",") }));
    parts.join(" ")
}

fn value_text(object: &Object, value: &Value) -> String {
    match value {
        Value::Uninit => "?".to_owned(),
        Value::Unknown => "any".to_owned(),
        Value::Scalar(scalar) => match scalar.as_constant() {
            Some(value) => format!("{value:#x}"),
            None if *scalar == kiln_verifier::Scalar::UNKNOWN => "scalar".to_owned(),
            None => format!("{:#x}..{:#x}", scalar.umin, scalar.umax),
        },
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
