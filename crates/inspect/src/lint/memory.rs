//! Rules about memory: the stack, map values, maps.

use kiln_isa::{Address, AluOp, Insn, Reg, Source};
use kiln_platform::{ArgKind, MapType, helper_id};
use kiln_program::{Map, MapId, MapSlot, Node, Object, Reference};
use kiln_verifier::{Region, StackSet, Value};

use super::linted::{Found, Linted};

/// Runs of bytes, counted from the start of a variable: `byte 3`, `bytes 4 to 7`.
fn runs(bytes: &[i32]) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for at in bytes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *at => *last = *at,
            _ => runs.push((*at, *at)),
        }
    }
    let one = |(first, last): &(i32, i32)| if first == last { first.to_string() } else { format!("{first} to {last}") };
    let text: Vec<_> = runs.iter().map(one).collect();
    format!("{} {}", if bytes.len() == 1 { "byte" } else { "bytes" }, text.join(", "))
}

/// A constant place on the stack that a register points to, from the frame pointer.
fn stack_place(value: &Value) -> Option<i32> {
    match value {
        Value::Pointer(pointer) if matches!(pointer.region, Region::Stack { .. }) => {
            i32::try_from(pointer.offset.as_constant()? as i64).ok()
        }
        _ => None,
    }
}

impl<'a> Linted<'a> {
    /// The bytes of the key that a call reads unwritten, counted from its start; with the map, and the key's size.
    fn unwritten_key(&self, node: &Node) -> Option<(&'a Map, Vec<i32>)> {
        let helper = kiln_platform::Helper::by_id(node.helper()?)?;
        let unwritten = self.facts.unwritten(node.id)?;
        let index = helper.prototype.args.iter().position(|kind| *kind == ArgKind::MapKey)?;
        let map = self.object.map(self.map_in(node, Reg::R1)?);
        let key = stack_place(&self.facts.at(node.id)?.registers[index + 1])?;
        let bytes: Vec<i32> = (0..map.key_size as i32).filter(|at| unwritten.contains(key + at)).collect();
        (!bytes.is_empty()).then_some((map, bytes))
    }
}

/// See the row of `unwritten-key`.
pub(super) fn unwritten_keys(linted: &Linted<'_>) -> Vec<Found> {
    let found = |(at, node): ((usize, usize), &Node)| {
        let (map, bytes) = linted.unwritten_key(node)?;
        let message =
            format!("{} of the key of map `{}` ({} bytes) may not be written", runs(&bytes), map.name, map.key_size);
        Some(Found { at: Some(at), message, help: None })
    };
    linted.nodes().filter_map(found).collect()
}

/// See the row of `unwritten-bytes`.
pub(super) fn unwritten_bytes(linted: &Linted<'_>) -> Vec<Found> {
    let found = |(at, node, helper): ((usize, usize), &Node, &kiln_platform::Helper)| {
        let mut unwritten: StackSet = *linted.facts.unwritten(node.id)?;
        if let (Some((map, _)), Some(facts)) = (linted.unwritten_key(node), linted.facts.at(node.id)) {
            unwritten.remove(stack_place(&facts.registers[2])?, map.key_size);
        }
        let bytes: Vec<i32> = unwritten.iter().collect();
        // Counted from the start of what is passed, if that is one constant place.
        let registers = &linted.facts.at(node.id)?.registers;
        let first = *bytes.first()?;
        let start = registers[1..=5].iter().filter_map(stack_place).filter(|start| *start <= first).max();
        let message = match start {
            Some(start) => {
                let bytes: Vec<i32> = bytes.iter().map(|at| at - start).collect();
                format!(
                    "bpf_{} reads {} of a variable on the stack, which may not be written",
                    helper.name,
                    runs(&bytes)
                )
            }
            None => format!("bpf_{} reads {} bytes of the stack that may not be written", helper.name, bytes.len()),
        };
        Some(Found { at: Some(at), message, help: None })
    };
    linted.calls().filter_map(found).collect()
}

/// See the row of `unwritten-local`.
pub(super) fn unwritten_locals(linted: &Linted<'_>) -> Vec<Found> {
    let found = |(at, node): ((usize, usize), &Node)| {
        let Insn::Load { .. } = node.insn else { return None };
        let bytes = linted.facts.unwritten(node.id)?.iter().count();
        let message = match bytes {
            1 => "1 byte of the stack may be read before it is written".to_owned(),
            _ => format!("{bytes} bytes of the stack may be read before they are written"),
        };
        Some(Found { at: Some(at), message, help: None })
    };
    linted.nodes().filter_map(found).collect()
}

/// What a register holds, on the way from a load of a shared value to the store of its new one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Anything,
    Loaded(Address),
    Changed(Address),
}

/// See the row of `lost-update`.
pub(super) fn lost_updates(linted: &Linted<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for (index, function, cfg) in &linted.functions {
        // A function that asks which CPU it runs on may have a value for each.
        let per_cpu = function.nodes.iter().any(|node| node.helper() == Some(helper_id::GET_SMP_PROCESSOR_ID));
        for block in &cfg.blocks {
            let mut held = [Held::Anything; Reg::COUNT];
            for at in block.range.clone() {
                let node = &function.nodes[at];
                let map = store_back(linted, node, &held).map(|map| linted.object.map(map));
                if let Some(map) = map.filter(|map| !per_cpu || map.is_section()) {
                    let what = match map.is_section() {
                        true => "a global variable".to_owned(),
                        false => format!("a value of map `{}`", map.name),
                    };
                    let message = format!("{what} is loaded, changed and stored: updates of other CPUs are lost");
                    found.push(Found { at: Some((*index, at)), message, help: None });
                }
                step(&mut held, node);
            }
        }
    }
    found
}

/// The map to which a store writes back what was loaded from there and changed, if CPUs share its values unlocked.
fn store_back(linted: &Linted<'_>, node: &Node, held: &[Held; Reg::COUNT]) -> Option<MapId> {
    let Insn::Store { address, src: Source::Reg(src), .. } = node.insn else { return None };
    if held[src.index()] != Held::Changed(address) {
        return None;
    }
    let facts = linted.facts.at(node.id)?;
    let Value::Pointer(pointer) = &facts.registers[address.base.index()] else { return None };
    let Region::MapValue(map) = pointer.region else { return None };
    let rules = linted.object.map(map).map_type.rules();
    let locked = linted.facts.held(node.id).is_some_and(|held| held.locks > 0);
    (!rules.per_cpu && !rules.per_object && !locked).then_some(map)
}

/// What registers hold after an instruction.
fn step(held: &mut [Held; Reg::COUNT], node: &Node) {
    let value = match node.insn {
        Insn::Load { address, .. } => Held::Loaded(address),
        Insn::Alu { op: AluOp::Mov, src: Source::Reg(src), .. } => held[src.index()],
        Insn::Alu { dst, src, .. } => {
            let operands = [Some(dst), src.reg()].into_iter().flatten();
            let address = operands.map(|reg| held[reg.index()]).find_map(|held| match held {
                Held::Loaded(address) | Held::Changed(address) => Some(address),
                Held::Anything => None,
            });
            address.map_or(Held::Anything, Held::Changed)
        }
        Insn::Call(_) => {
            held[..=5].fill(Held::Anything);
            Reg::all().filter(|reg| reg.is_caller_saved()).for_each(|reg| forget(held, reg));
            Held::Anything
        }
        _ => Held::Anything,
    };
    if let Some(written) = node.insn.written() {
        forget(held, written);
        let through = matches!(value, Held::Loaded(address) | Held::Changed(address) if address.base == written);
        held[written.index()] = if through { Held::Anything } else { value };
    }
}

/// A register changes: what was loaded through it has another address now.
fn forget(held: &mut [Held; Reg::COUNT], reg: Reg) {
    for own in held.iter_mut() {
        if matches!(own, Held::Loaded(address) | Held::Changed(address) if address.base == reg) {
            *own = Held::Anything;
        }
    }
}

/// See the row of `unused-map`.
pub(super) fn unused_maps(object: &Object) -> Vec<Found> {
    let mut used = vec![false; object.maps.len()];
    let mut mark = |map: MapId| used.get_mut(map.index()).map_or((), |used| *used = true);
    for node in object.functions.iter().flat_map(|function| &function.nodes) {
        match node.reference {
            Reference::Map(map) | Reference::MapValue { map, .. } => mark(map),
            _ => {}
        }
    }
    for map in &object.maps {
        if let kiln_program::MapContents::Slots(slots) = &map.contents {
            slots.iter().for_each(|(_, slot)| {
                if let MapSlot::Map(inner) = slot {
                    mark(*inner)
                }
            });
        }
    }
    let unused = object.maps.iter().zip(used).filter(|(map, used)| !used && !map.is_section());
    unused
        .filter(|(map, _)| map.map_type != MapType::StructOps)
        .map(|(map, _)| Found { at: None, message: format!("no program uses map `{}`", map.name), help: None })
        .collect()
}
