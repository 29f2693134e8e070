//! Helper prototypes and map rules against a running Linux 6.18.
//!
//! Each prototype becomes a call with matching arguments, which the verifier must accept. Then one argument at a time
//! is changed to something that its kind forbids, and the verifier must refuse the call:
//!
//! ```text
//!   a number where a pointer is due          read-only memory where the helper writes
//!   0 where no null is allowed               write-only memory where it only reads
//!   size 0 where it must be at least 1       packet memory where it may not be passed
//! ```
//!
//! Arguments that only BTF can make (timers, locks, kptrs, callbacks, most kernel structures) are left out; the test
//! prints which. Skips like `kernel.rs`.

mod oracle;

use kiln_platform::*;
use oracle::{EXIT, Kernel, Place, TYPED_MAPS, call, mov_imm, mov_reg, places, slot};
use std::collections::BTreeSet;

/// Map numbers of memory to point at, made first.
const READ_WRITE_MAP: i32 = 0;
const READ_ONLY_MAP: i32 = 1;
const WRITE_ONLY_MAP: i32 = 2;
const STRING_MAP: i32 = 3;
const RING_BUFFER: i32 = 4;
const FIRST_TYPED_MAP: i32 = 5;

fn make_maps(kernel: &mut Kernel) {
    let flags = [0, 1 << 7, 1 << 8, 1 << 7];
    for flag in flags {
        assert!(kernel.create_map(MapType::Array, 4, 256, 1, flag), "an array of 256 bytes");
    }
    kernel.freeze(STRING_MAP as usize);
    assert!(kernel.create_map(MapType::Ringbuf, 0, 0, 4096, 0), "a ring buffer");
    for &(map_type, key, value, entries, flags) in TYPED_MAPS {
        if !kernel.create_map(map_type, key, value, entries, flags) {
            println!("skipped: this kernel makes no map of type {map_type}");
        }
    }
}

/// What to pass for an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// What the prototype asks for.
    Right,
    /// This number.
    Number(i32),
    /// The first byte of this map's value.
    Map(i32),
    /// The first of 64 bytes of packet known to be there.
    Packet,
}

/// A call of one helper in the making.
struct Call<'kernel> {
    place: Place,
    helper: &'kernel Helper,
    map: i32,
    code: Vec<u64>,
}

fn load_map(dst: u8, map: i32) -> [u64; 2] {
    [slot(0x18, dst, 1, 0, map), 0]
}

fn load_map_value(dst: u8, map: i32) -> [u64; 2] {
    [slot(0x18, dst, 2, 0, map), 0]
}

fn stack_address(dst: u8, offset: i32) -> [u64; 2] {
    [mov_reg(dst, 10), slot(0x07, dst, 0, 0, offset)]
}

impl Call<'_> {
    /// Returns the program and the index of the slot after the call, or what is missing to make an argument.
    fn program(mut self, choose: impl Fn(usize) -> Choice) -> Result<(Vec<u64>, usize), String> {
        let map_type = TYPED_MAPS.get((self.map - FIRST_TYPED_MAP) as usize).map(|(map_type, ..)| *map_type);
        let args = self.helper.prototype_for(self.place.program_type).args.iter();
        let args: Vec<ArgKind> = args.map(|kind| map_type.map_or(*kind, |map_type| kind.with_map(map_type))).collect();
        self.code.push(mov_reg(6, 1));
        let wants = |choice| (0..args.len()).any(|index| choose(index) == choice);
        if wants(Choice::Packet) {
            self.find_packet()?;
        }
        for (index, kind) in args.iter().enumerate() {
            if choose(index) == Choice::Right {
                self.prepare(*kind)?;
            }
        }
        for (index, kind) in args.iter().enumerate() {
            let register = index as u8 + 1;
            match choose(index) {
                Choice::Right => self.pass(register, *kind),
                Choice::Number(value) => self.code.push(mov_imm(register, value)),
                Choice::Map(map) => self.code.extend(load_map_value(register, map)),
                Choice::Packet => self.code.push(mov_reg(register, 9)),
            }
        }
        self.code.push(call(self.helper.id));
        let after = self.code.len();
        self.code.extend([mov_imm(0, 1), EXIT]);
        Ok((self.code, after))
    }

    fn context_field(&self, wanted: &[FieldValue]) -> Option<&'static Field> {
        let layout = self.place.program_type.context();
        let found = layout.fields.iter().find(|field| wanted.contains(&field.value))?;
        let (offset, width) = (i64::from(found.offset), found.size);
        layout.access_at(self.place.attach, offset, width, false).ok().map(|_| found)
    }

    fn load_field(&mut self, dst: u8, field: &Field) {
        let opcode = if field.size == 8 { 0x79 } else { 0x61 };
        self.code.push(slot(opcode, dst, 6, field.offset as i16, 0));
    }

    /// Leaves in r9 the start of 64 bytes of packet.
    fn find_packet(&mut self) -> Result<(), String> {
        let start = self.context_field(&[FieldValue::PacketPointer]).ok_or("packet")?;
        let end = self.context_field(&[FieldValue::PacketEnd]).ok_or("packet")?;
        self.load_field(9, start);
        self.load_field(8, end);
        self.code.extend([mov_reg(7, 9), slot(0x07, 7, 0, 0, 64)]);
        self.code.extend([slot(0xbd, 7, 8, 2, 0), mov_imm(0, 1), EXIT]);
        Ok(())
    }

    /// Makes what an argument needs beforehand: r7 holds a socket or record, fp-16 a dynptr, r8 a task.
    fn prepare(&mut self, kind: ArgKind) -> Result<(), String> {
        let null_check = |register| [slot(0x55, register, 0, 2, 0), mov_imm(0, 1), EXIT];
        match kind {
            ArgKind::SockCommon | ArgKind::BtfSockCommon { nullable: false } => {
                let wanted = [FieldValue::Socket, FieldValue::SocketOrNull, FieldValue::SockCommonOrNull];
                let field = self.context_field(&wanted).ok_or("socket")?;
                self.load_field(7, field);
                self.code.extend(null_check(7));
            }
            ArgKind::ReleasedRingBufferMemory => {
                self.code.extend(load_map(1, RING_BUFFER));
                self.code.extend([mov_imm(2, 8), mov_imm(3, 0), call(131), mov_reg(7, 0)]);
                self.code.extend(null_check(7));
            }
            ArgKind::Dynptr(DynptrUse::Any) => {
                self.code.extend(load_map_value(1, READ_WRITE_MAP));
                self.code.extend([mov_imm(2, 64), mov_imm(3, 0)]);
                self.code.extend(stack_address(4, -16));
                self.code.push(call(197));
            }
            ArgKind::Dynptr(DynptrUse::ReleasesRingBuffer) => {
                self.code.extend(load_map(1, RING_BUFFER));
                self.code.extend([mov_imm(2, 8), mov_imm(3, 0)]);
                self.code.extend(stack_address(4, -16));
                self.code.push(call(198));
            }
            ArgKind::BtfId { type_name: "task_struct", nullable: false } => {
                self.code.extend([call(158), mov_reg(8, 0)]);
            }
            ArgKind::BtfId { type_name, nullable: false } => return Err(type_name.into()),
            ArgKind::SpinLock
            | ArgKind::Timer
            | ArgKind::PercpuBtfId
            | ArgKind::KptrDest
            | ArgKind::Callback
            | ArgKind::ReleasedBtfSockCommon => return Err(format!("{kind:?}")),
            _ => {}
        }
        Ok(())
    }

    fn pass(&mut self, register: u8, kind: ArgKind) {
        match kind {
            ArgKind::Context | ArgKind::ContextOrNull => self.code.push(mov_reg(register, 6)),
            ArgKind::ConstMapPtr => self.code.extend(load_map(register, self.map)),
            ArgKind::MapKey | ArgKind::MapValue | ArgKind::MapValueOrNull | ArgKind::UninitMapValue => {
                self.code.extend(stack_address(register, -80));
            }
            ArgKind::Memory(_) if self.helper.name == "dynptr_from_mem" => {
                self.code.extend(load_map_value(register, READ_WRITE_MAP)); // The kernel takes no other memory here.
            }
            ArgKind::Memory(_) | ArgKind::FixedMemory { .. } => self.code.extend(stack_address(register, -160)),
            ArgKind::Dynptr(_) => self.code.extend(stack_address(register, -16)),
            ArgKind::ConstString => self.code.extend(load_map_value(register, STRING_MAP)),
            ArgKind::Size { .. } | ArgKind::ConstAllocSize => self.code.push(mov_imm(register, 8)),
            ArgKind::SockCommon | ArgKind::BtfSockCommon { nullable: false } | ArgKind::ReleasedRingBufferMemory => {
                self.code.push(mov_reg(register, 7))
            }
            ArgKind::BtfId { nullable: false, .. } => self.code.push(mov_reg(register, 8)),
            _ => self.code.push(mov_imm(register, 0)),
        }
    }
}

/// Whether the verifier went on past the call.
fn took_the_call(kernel: &mut Kernel, place: Place, code: &[u64], after: usize) -> (bool, String) {
    let (loaded, log) = kernel.load(place, code);
    (loaded || log.contains(&format!("|{after}: (")), log)
}

/// A map the helper takes, made of a type that the place may use.
fn map_for(place: Place, helper: &Helper) -> Option<i32> {
    let fits = |map_type: MapType| {
        map_type.allows_helper_in(helper, place.program_type, place.attach)
            && (!place.sleepable || map_type.allowed_in_sleepable())
    };
    let position = TYPED_MAPS.iter().position(|(map_type, ..)| fits(*map_type))?;
    Some(FIRST_TYPED_MAP + position as i32)
}

fn callable(place: Place, helper: &Helper) -> bool {
    match place.attach {
        Some(attach) => helper.allowed_at(place.program_type, attach),
        None => helper.allowed_in(place.program_type),
    }
}

/// Variants of argument `index`: each with whether the verifier must accept it.
fn variations(place: Place, helper: &Helper, index: usize) -> Vec<(Vec<(usize, Choice)>, bool)> {
    let kind = helper.prototype_for(place.program_type).args[index];
    let mut variations = Vec::new();
    match kind {
        ArgKind::Anything => return variations,
        ArgKind::Size { zero_allowed } => {
            variations.push((vec![(index, Choice::Number(0))], zero_allowed));
            variations.push((vec![(index, Choice::Number(-1))], false));
            return variations;
        }
        ArgKind::ConstAllocSize => return variations,
        _ => variations.push((vec![(index, Choice::Number(1))], false)),
    }
    let sized = matches!(kind, ArgKind::Memory(_));
    let null = if sized {
        vec![(index, Choice::Number(0)), (index + 1, Choice::Number(0))]
    } else {
        vec![(index, Choice::Number(0))]
    };
    variations.push((null, kind.nullable()));
    if matches!(kind, ArgKind::Memory(_) | ArgKind::FixedMemory { .. }) {
        variations.push((vec![(index, Choice::Map(READ_WRITE_MAP))], true));
        variations.push((vec![(index, Choice::Map(READ_ONLY_MAP))], !kind.writes_memory()));
        if !kind.writes_memory() {
            variations.push((vec![(index, Choice::Map(WRITE_ONLY_MAP))], false));
        }
        // Packets are never known to be aligned, and dynptrs are made of map values alone.
        let never = matches!(kind, ArgKind::FixedMemory { aligned: true, .. }) || helper.name == "dynptr_from_mem";
        let accepted = helper.accepts_packet(place.program_type, index) && !never;
        variations.push((vec![(index, Choice::Packet)], accepted));
    }
    variations
}

#[test]
fn calls_are_taken_as_the_prototypes_say() {
    let Some(mut kernel) = Kernel::open("prototypes") else {
        return;
    };
    let version = kernel.version;
    make_maps(&mut kernel);
    let (mut wrong, mut left_out, mut asked) = (Vec::new(), BTreeSet::new(), 0);
    for place in places() {
        let here =
            |helper: &&Helper| Profile::of(version).lacks_helper(helper, place.program_type, place.attach).is_none();
        let callable = Helper::all().filter(|helper| helper.since <= version && callable(place, helper));
        for helper in callable.filter(here) {
            if oracle::CONFIGURABLE.contains(&helper.name) {
                continue;
            }
            let prototype = helper.prototype_for(place.program_type);
            let takes_map = prototype.args.contains(&ArgKind::ConstMapPtr);
            let map = match (takes_map, map_for(place, helper)) {
                (false, _) => 0,
                (true, Some(map)) => map,
                (true, None) => {
                    left_out.insert(format!("{} (no map for it in {})", helper.name, place.program_type));
                    continue;
                }
            };
            let mut questions = vec![(vec![], !prototype.might_sleep || place.sleepable)];
            if questions[0].1 {
                questions.extend((0..prototype.args.len()).flat_map(|index| variations(place, helper, index)));
            }
            for (choices, expected) in questions {
                let new_call = Call { place, helper, map, code: Vec::new() };
                let choose =
                    |index| choices.iter().find(|(at, _)| *at == index).map_or(Choice::Right, |(_, choice)| *choice);
                let (code, after) = match new_call.program(choose) {
                    Ok(made) => made,
                    Err(missing) if missing == "packet" => continue,
                    Err(missing) => {
                        left_out.insert(format!("{} ({missing})", helper.name));
                        continue;
                    }
                };
                let (taken, log) = took_the_call(&mut kernel, place, &code, after);
                asked += 1;
                if taken != expected {
                    let end: String = log.chars().rev().take(260).collect::<Vec<_>>().into_iter().rev().collect();
                    wrong.push(format!(
                        "{} in {:?} {:?} with {choices:?}: kernel {taken}, table {expected}: {end}",
                        helper.name, place.program_type, place.attach
                    ));
                }
            }
        }
    }
    println!("{asked} questions; left out: {left_out:?}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n"));
}

/// Programs that only refer to a map, and programs that pass it to each helper.
#[test]
fn maps_go_where_the_rules_say() {
    let Some(mut kernel) = Kernel::open("map rules") else {
        return;
    };
    let version = kernel.version;
    make_maps(&mut kernel);
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for (index, (map_type, ..)) in TYPED_MAPS.iter().enumerate() {
        let map = FIRST_TYPED_MAP + index as i32;
        let mut naming = load_map(1, map).to_vec();
        naming.extend([mov_imm(0, 1), EXIT]);
        let (loaded, log) = kernel.load(oracle::place(ProgramType::Syscall), &naming);
        if loaded != map_type.allowed_in_sleepable() {
            wrong.push(format!("{map_type} in a sleepable program: kernel {loaded}: {log}"));
        }
        for place in places().into_iter().filter(|place| !place.sleepable) {
            for helper in Helper::all().filter(|helper| helper.since <= version && callable(place, helper)) {
                let prototype = helper.prototype_for(place.program_type);
                if !prototype.args.contains(&ArgKind::ConstMapPtr) || prototype.might_sleep {
                    continue;
                }
                let new_call = Call { place, helper, map, code: Vec::new() };
                let Ok((code, after)) = new_call.program(|_| Choice::Right) else {
                    continue;
                };
                let (taken, log) = took_the_call(&mut kernel, place, &code, after);
                asked += 1;
                if taken != map_type.allows_helper_in(helper, place.program_type, place.attach) {
                    let end = log.rsplit('|').nth(2).unwrap_or_default();
                    wrong.push(format!("{map_type} to {} in {place:?}: kernel {taken}: {end}", helper.name));
                }
            }
        }
    }
    println!("{asked} questions");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n"));
}

#[test]
fn only_gpl_programs_call_gpl_helpers() {
    let Some(mut kernel) = Kernel::open("licenses") else {
        return;
    };
    let version = kernel.version;
    let mut wrong = Vec::new();
    for place in places() {
        for helper in Helper::all().filter(|helper| helper.since <= version && callable(place, helper)) {
            if oracle::CONFIGURABLE.contains(&helper.name) {
                continue;
            }
            let (_, log) = kernel.load_licensed(place, "MIT", &[call(helper.id), mov_imm(0, 1), EXIT]);
            let multi = matches!(
                place.attach,
                Some(AttachType::TraceKprobeMulti | AttachType::TraceUprobeMulti | AttachType::TraceKprobeSession)
            );
            if multi && helper.name == "get_func_ip" {
                continue; // The table has one row for all kprobes and keeps to the stricter.
            }
            let refused = log.contains("GPL");
            if refused != helper.prototype_for(place.program_type).gpl_only {
                wrong.push(format!("{} in {place:?}: kernel wants GPL: {refused}", helper.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// What the verifier's log calls `r0` after a call that returns this. Maps of sockets and maps have names of their own.
fn result_names(returns: ReturnKind) -> &'static [&'static str] {
    match returns {
        ReturnKind::Integer => &["scalar(", "0", "1"],
        ReturnKind::Void => &[],
        ReturnKind::MapValueOrNull => &["map_value_or_null(", "sock_or_null(", "xdp_sock_or_null(", "map_value("],
        ReturnKind::MapValue => &["map_value("],
        ReturnKind::SocketOrNull => &["sock_or_null("],
        ReturnKind::TcpSockOrNull => &["tcp_sock_or_null("],
        ReturnKind::SockCommonOrNull => &["sock_common_or_null("],
        ReturnKind::RingBufferMemoryOrNull => &["ringbuf_mem_or_null("],
        ReturnKind::DynptrMemoryOrNull => &["mem_or_null("],
        ReturnKind::PercpuVariable { .. } => &["rdonly_mem(", "ptr_"],
        ReturnKind::BtfId { nullable: true, .. } => &["ptr_or_null_"],
        ReturnKind::BtfId { trusted: true, .. } => &["trusted_ptr_"],
        ReturnKind::BtfId { .. } => &["ptr_"],
        ReturnKind::KptrOrNull => &["ptr_or_null_", "rcu_ptr_or_null_"],
    }
}

/// What the log says of `r0` right after the slot before `after`.
fn result_in_log(log: &str, after: usize) -> Option<&str> {
    let call = log.split('|').find(|line| line.starts_with(&format!("{}: (85)", after - 1)))?;
    let state = log.split('|').find(|line| line.starts_with(&format!("{after}: R0"))).unwrap_or(call);
    let start = state.find("R0=").or_else(|| state.find("R0_w="))?;
    state[start..].split_once('=').map(|(_, value)| value)
}

#[test]
fn results_and_stale_packets_are_as_the_rows_say() {
    let Some(mut kernel) = Kernel::open("results") else {
        return;
    };
    let version = kernel.version;
    make_maps(&mut kernel);
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for place in places() {
        for helper in Helper::all().filter(|helper| helper.since <= version && callable(place, helper)) {
            let prototype = helper.prototype_for(place.program_type);
            let map = map_for(place, helper).unwrap_or(0);
            let new_call = || Call { place, helper, map, code: Vec::new() };
            if prototype.might_sleep && !place.sleepable || oracle::CONFIGURABLE.contains(&helper.name) {
                continue;
            }
            let Ok((code, after)) = new_call().program(|_| Choice::Right) else {
                continue;
            };
            let (taken, log) = took_the_call(&mut kernel, place, &code, after);
            if !taken {
                continue; // Another test's business.
            }
            asked += 1;
            let result = result_in_log(&log, after);
            let names = result_names(prototype.returns);
            let right = match result {
                Some(result) => names.iter().any(|name| result.starts_with(name)),
                None => names.is_empty(),
            };
            if !right {
                wrong.push(format!("{} in {place:?} returns {result:?}, table {:?}", helper.name, prototype.returns));
            }
            let mut holding = new_call();
            holding.code.push(mov_reg(6, 1));
            if holding.find_packet().is_err() {
                continue;
            }
            let Ok((mut code, after)) = holding.program(|_| Choice::Right) else {
                continue;
            };
            code.insert(after, slot(0x71, 5, 9, 0, 0));
            let (stale, log) = took_the_call(&mut kernel, place, &code, after + 1);
            asked += 1;
            if stale == helper.changes_packet_data {
                let end = log.rsplit('|').nth(2).unwrap_or_default();
                wrong.push(format!("{} in {place:?}: packet good afterwards: {stale}: {end}", helper.name));
            }
        }
    }
    println!("{asked} questions");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n"));
}

/// Where a pointer to an object can be had, and the slots that put it into r7.
#[test]
fn objects_have_the_fields_the_kernel_knows() {
    let Some(mut kernel) = Kernel::open("objects") else {
        return;
    };
    let tc = oracle::place(ProgramType::SchedCls);
    let checked = [slot(0x55, 0, 0, 2, 0), mov_imm(0, 1), EXIT];
    let socket = |more: &[u64]| {
        let mut code = vec![slot(0x79, 0, 1, 168, 0)];
        code.extend(checked);
        for helper in more {
            code.extend([mov_reg(1, 0), *helper]);
            code.extend(checked);
        }
        code.push(mov_reg(7, 0));
        code
    };
    let keys = vec![slot(0x79, 7, 1, 144, 0)];
    let dissector = oracle::place_at(ProgramType::FlowDissector, AttachType::FlowDissector);
    let objects = [
        (SOCK_COMMON, tc, socket(&[])),
        (SOCKET, tc, socket(&[call(95)])),
        (TCP_SOCKET, tc, socket(&[call(95), call(96)])),
        (FLOW_KEYS, dissector, keys),
    ];
    let mut wrong = Vec::new();
    for (layout, place, getting) in objects {
        for offset in -8..i64::from(layout.size) + 8 {
            for (width, load, store) in [(1, 0x71, 0x73), (2, 0x69, 0x6b), (4, 0x61, 0x63), (8, 0x79, 0x7b)] {
                for write in [false, true] {
                    let mut code = getting.clone();
                    code.push(mov_imm(2, 0));
                    code.push(match write {
                        true => slot(store, 7, 2, offset as i16, 0),
                        false => slot(load, 5, 7, offset as i16, 0),
                    });
                    let after = code.len();
                    code.extend([mov_imm(0, 1), EXIT]);
                    let (taken, log) = took_the_call(&mut kernel, place, &code, after);
                    let ours = layout.access(offset, width, write);
                    if log.contains("verifier bug") {
                        continue; // It let the upper half of a double word through, then failed to translate it.
                    }
                    if taken != ours.is_ok() {
                        let end = log.rsplit('|').nth(2).unwrap_or_default();
                        wrong.push(format!("{} +{offset} {width} write {write}: {ours:?}: {end}", layout.struct_name));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n"));
}
