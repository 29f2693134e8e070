//! One compiled object with every construct: tests their meaning, and rewrites that add and remove code.

mod support;

use kiln_elf::ElfObject;
use kiln_isa::{CallTarget, Imm64, Insn, Reg, Size};
use kiln_platform::{MapType, ProgramType};
use kiln_program::{ExternKind, Function, FunctionId, Linkage, Map, MapContents, MapSlot, Object, Reference, validate};

/// Compiles `tests/data/everything.bpf.c`. Prints a skip and returns `None` if there is no clang.
fn compiled() -> Option<ElfObject> {
    compiled_from("everything")
}

fn compiled_from(name: &str) -> Option<ElfObject> {
    Some(kiln_elf::read(&format!("{name}.o"), &support::compiled(name)?).unwrap())
}

#[test]
fn what_clang_specializes_stays_global() {
    let Some(ElfObject { object, .. }) = compiled_from("specialized") else { return };
    let specialized = object.functions.iter().find(|function| function.name.starts_with("seen.specialized"));
    // The kernel, too, refuses the program: "Caller passes invalid args into func#1 ('seen')".
    assert_eq!(specialized.expect("clang specializes it").linkage, Linkage::Global);
}

/// The kernel goes by the types: a callback that is a global symbol and static in BTF is static.
#[test]
fn what_is_static_in_btf_is_static() {
    let text = "#define SEC(name) __attribute__((section(name), used))
        char _license[] SEC(\"license\") = \"GPL\";
        static long (*const loop)(unsigned, void *, void *, unsigned long long) = (void *)181;
        __attribute__((noinline)) int turn(unsigned at, void *data) { asm volatile(\"\"); return at > 2; }
        SEC(\"xdp\") int p(void *context) { return loop(4, turn, 0, 0); }\n";
    let Some(mut bytes) = support::compiled_text("callback", text) else { return };
    let linkage = |bytes: &[u8]| {
        let object = kiln_elf::read("callback.o", bytes).unwrap().object;
        (function(&object, "turn").linkage, function(&object, "p").linkage)
    };
    assert_eq!(linkage(&bytes), (Linkage::Global, Linkage::Global));
    // `BTF_KIND_FUNC`, whose linkage is the lowest bits.
    const GLOBAL: [u8; 4] = [1, 0, 0, 12];
    for at in 0..bytes.len() - GLOBAL.len() {
        if bytes[at..].starts_with(&GLOBAL) {
            bytes[at] = 0;
        }
    }
    assert_eq!(linkage(&bytes), (Linkage::Static, Linkage::Global));
    assert_loads(&bytes);
    let object = kiln_elf::read("callback.o", &bytes).unwrap();
    assert_eq!(object.write(&object.object).unwrap(), bytes);
}

#[test]
fn what_another_object_defines_refuses_only_its_users() {
    let Some(elf) = compiled_from("unlinked") else { return };
    let names: Vec<_> = elf.object.programs.iter().map(|program| program.name.as_str()).collect();
    assert_eq!(names, ["uses_own"]);
    assert_eq!(elf.object.maps.iter().map(|map| map.name.as_str()).collect::<Vec<_>>(), ["own"]);
    for (user, symbol) in [("uses_map", "other"), ("uses_variable", "variable"), ("uses_function", "function")] {
        let reason = &elf.unreadable.iter().find(|one| one.function == user).expect(user).reason;
        assert!(matches!(reason, kiln_elf::Error::Unlinked { .. }), "{reason:?}");
        let why = reason.to_string();
        assert!(why.contains(&format!("{symbol} is defined nowhere")) && why.contains("bpftool gen object"), "{why}");
    }
}

#[test]
fn per_cpu_variables_are_an_array_with_a_value_for_each_processor() {
    let Some(ElfObject { object, .. }) = compiled_from("percpu") else { return };
    let variables = map(&object, ".percpu");
    assert_eq!((variables.map_type, variables.max_entries, variables.flags), (MapType::PercpuArray, 1, 0));
    assert_eq!((variables.key_size, variables.value_size), (4, 16));
    assert_eq!(variables.contents, MapContents::Data([7_u64.to_le_bytes(), 0_u64.to_le_bytes()].concat()));
    let nodes = &function(&object, "counts").nodes;
    assert!(nodes.iter().any(|node| matches!(node.reference, Reference::MapValue { offset: 8, .. })), "{nodes:?}");
}

fn map<'a>(object: &'a Object, name: &str) -> &'a Map {
    object.maps.iter().find(|map| map.name == name).unwrap_or_else(|| panic!("no map {name}"))
}

fn function_id(object: &Object, name: &str) -> FunctionId {
    let index = object.functions.iter().position(|function| function.name == name);
    FunctionId(index.unwrap_or_else(|| panic!("no function {name}")) as u32)
}

fn function<'a>(object: &'a Object, name: &str) -> &'a Function {
    object.function(function_id(object, name))
}

#[test]
fn maps_are_what_their_definitions_say() {
    let Some(ElfObject { object, .. }) = compiled() else { return };
    let counters = map(&object, "counters");
    assert_eq!((counters.map_type, counters.max_entries, counters.flags), (MapType::Hash, 16, 1));
    assert_eq!((counters.key_size, counters.value_size), (4, 16));
    assert!(counters.key_btf != 0 && counters.value_btf != 0);
    let bloom = map(&object, "bloom");
    assert_eq!((bloom.map_type, bloom.key_size, bloom.extra, bloom.pinned_by_name), (MapType::BloomFilter, 0, 5, true));
    let outer = map(&object, "outer");
    let inner = outer.inner.as_ref().unwrap();
    assert_eq!((inner.map_type, inner.value_size, inner.max_entries), (MapType::Array, 8, 4));
    let MapContents::Slots(slots) = &outer.contents else { panic!("{:?}", outer.contents) };
    let [(1, MapSlot::Map(held))] = slots[..] else { panic!("{slots:?}") };
    assert_eq!(object.map(held).name, "inner_map");
    let tail = function_id(&object, "tail");
    assert_eq!(map(&object, "jumps").contents, MapContents::Slots(vec![(1, MapSlot::Function(tail))]));
    assert_eq!(map(&object, ".rodata").contents, MapContents::ReadOnly([7u32, 3].map(u32::to_le_bytes).concat()));
    assert_eq!(map(&object, ".data").contents, MapContents::Data(5u32.to_le_bytes().to_vec()));
    assert_eq!(map(&object, ".data.custom").contents, MapContents::Data(9u32.to_le_bytes().to_vec()));
    assert_eq!((&map(&object, ".bss").contents, map(&object, ".bss").value_size), (&MapContents::Empty, 8));
    assert_eq!(map(&object, ".kconfig").contents, MapContents::Kconfig(5));
}

#[test]
fn programs_functions_and_externs() {
    let Some(ElfObject { object, .. }) = compiled() else { return };
    validate(&object).unwrap();
    assert_eq!((object.license.as_str(), object.kernel_version), ("GPL", 0x60102));
    let names: Vec<_> = object.programs.iter().map(|program| (program.name.as_str(), program.program_type)).collect();
    let (xdp, tracepoint) = (Some(ProgramType::Xdp), Some(ProgramType::RawTracepoint));
    assert_eq!(names, [("tail", xdp), ("first", xdp), ("optional", tracepoint)]);
    let autoload: Vec<_> = object.programs.iter().map(|program| program.autoload).collect();
    assert_eq!(autoload, [true, true, false]);
    let linkage = |name| function(&object, name).linkage;
    assert_eq!(linkage("weak_function"), Linkage::Weak);
    assert_eq!(linkage("global_function"), Linkage::Global);
    assert_eq!(linkage("local_function"), Linkage::Static);
    let referred = |name: &str| {
        let nodes = function(&object, name).nodes.iter();
        nodes.map(|node| node.reference).filter(|it| !matches!(it, Reference::None | Reference::Branch(_))).collect()
    };
    let first: Vec<_> = referred("first");
    let callback = Reference::Function(function_id(&object, "callback"));
    assert!(first.contains(&callback));
    assert!(first.contains(&Reference::Function(function_id(&object, "weak_function"))));
    let global: Vec<_> = referred("global_function");
    assert_eq!(global[0], Reference::Function(function_id(&object, "local_function")));
    let Reference::MapValue { offset: 4, .. } = global[1] else { panic!("{:?} is not `step`", global[1]) };
    let tail: Vec<_> = referred("tail");
    assert_eq!(tail[1], Reference::Function(function_id(&object, "local_function")));
    let kind = |name: &str| object.externs.iter().find(|symbol| symbol.name == name).unwrap().kind;
    assert!(matches!(kind("CONFIG_HZ"), ExternKind::Kconfig { offset: 0, .. }));
    assert!(matches!(kind("CONFIG_BPF_SYSCALL"), ExternKind::Kconfig { offset: 4, .. }));
    assert_eq!(kind("missing_symbol"), ExternKind::Ksym);
    assert_eq!(kind("missing_function"), ExternKind::Kfunc);
    assert!(object.externs.iter().all(|symbol| symbol.weak));
    let lines = object.functions.iter().flat_map(|function| &function.nodes).filter_map(|node| object.line(node));
    assert!(lines.map(|line| line.text.trim()).any(|text| text == "value->packets++;"));
    // Two of the three relocations are equal, and so are one.
    let relocated = function(&object, "optional").nodes.iter().filter_map(|node| node.core);
    assert_eq!((relocated.count(), object.core.len()), (3, 2));
}

/// Loads every program that is loaded by default.
fn assert_loads(bytes: &[u8]) {
    if let Err(error) = kiln_linux::available() {
        println!("skipped: {error}");
        return;
    }
    let file = kiln_linux::ObjectFile::open("everything", bytes).unwrap();
    if let Err(failure) = file.load() {
        panic!("{failure}\n{}\n{:?}", failure.messages, failure.logs);
    }
}

/// `first` gets a prologue that refers to things in ways that the file does not have yet.
#[test]
fn new_references_get_relocations() {
    let Some(elf) = compiled() else { return };
    assert_loads(&elf.write(&elf.object).unwrap());
    let mut object = elf.object.clone();
    let rodata = object.maps.iter().position(|map| map.name == ".rodata").unwrap();
    let rodata = kiln_program::MapId(rodata as u32);
    let inner = object.maps.iter().position(|map| map.name == "inner_map").unwrap();
    let inner = kiln_program::MapId(inner as u32);
    let call = Insn::Call(CallTarget::Subprogram(0));
    let load = Insn::LoadImm64 { dst: Reg::R1, imm: Imm64::Value(0) };
    let save = |from, to| Insn::mov(to, from);
    let value = Insn::Load {
        size: Size::B2,
        signed: false,
        dst: Reg::R1,
        address: kiln_isa::Address { base: Reg::R1, offset: 0 },
    };
    let local = Reference::Function(function_id(&object, "local_function"));
    let global = Reference::Function(function_id(&object, "global_function"));
    let kconfig = Reference::Extern(kiln_program::ExternId(
        object.externs.iter().position(|symbol| symbol.name == "CONFIG_HZ").unwrap() as u32,
    ));
    let prologue = [
        (save(Reg::R1, Reg::R6), Reference::None),
        (load, Reference::MapValue { map: rodata, offset: 6 }),
        (value, Reference::None),
        (call, local),
        (Insn::mov_imm(Reg::R1, 5), Reference::None),
        (call, global),
        (load, Reference::Map(inner)),
        (load, kconfig),
        (save(Reg::R6, Reg::R1), Reference::None),
    ];
    let nodes: Vec<_> = prologue.iter().map(|(insn, reference)| object.new_node(*insn, *reference)).collect();
    let first = function_id(&object, "first").index();
    object.functions[first].nodes.splice(0..0, nodes);
    validate(&object).unwrap();
    let written = elf.write(&object).unwrap();
    let again = kiln_elf::read("again", &written).unwrap();
    for (node, (insn, reference)) in again.object.functions[first].nodes.iter().zip(prologue) {
        assert_eq!((node.insn, node.reference), (insn, reference));
        assert!(node.line.is_some(), "the kernel wants a line at the beginning");
    }
    assert_loads(&written);
}

#[test]
fn deleted_instructions_take_their_records_with_them() {
    let Some(elf) = compiled() else { return };
    let mut object = elf.object.clone();
    let optional = function_id(&object, "optional").index();
    let nodes = &mut object.functions[optional].nodes;
    let count = nodes.len();
    nodes.retain(|node| node.core.is_none());
    assert!(nodes.len() < count);
    // If a function before others changes its size, all of them move.
    let local = function_id(&object, "local_function").index();
    let (zero, exit) = (Insn::mov_imm(Reg::R0, 0), Insn::Exit);
    object.functions[local].nodes =
        vec![object.new_node(zero, Reference::None), object.new_node(exit, Reference::None)];
    let written = elf.write(&object).unwrap();
    let again = kiln_elf::read("again", &written).unwrap();
    assert!(again.object.core.is_empty());
    assert_eq!(again.object.functions[local].slots(), 2);
    assert_eq!(again.object.functions[local].btf_id, elf.object.functions[local].btf_id);
    let callback = function_id(&object, "callback").index();
    assert_eq!(again.object.functions[callback].slots(), elf.object.functions[callback].slots());
    assert!(again.object.functions[callback].nodes.iter().all(|node| node.line.is_some()));
    // References to functions after the shrunk one are still right: `first` passes the callback's address.
    let first = function_id(&object, "first").index();
    let references = |object: &Object| -> Vec<_> {
        let all = object.functions[first].nodes.iter().map(|node| node.reference);
        all.filter(|reference| !matches!(reference, Reference::Branch(_))).collect()
    };
    assert_eq!(references(&again.object), references(&elf.object));
    assert_loads(&written);
}

#[test]
fn functions_without_users_leave() {
    let Some(elf) = compiled() else { return };
    let (written, unused) = elf.write_used(&elf.object).unwrap();
    assert_eq!(unused.len(), 0);
    assert_eq!(written, elf.write(&elf.object).unwrap());
    let local = function_id(&elf.object, "local_function");
    let mut object = elf.object.clone();
    for node in object.functions.iter_mut().flat_map(|function| &mut function.nodes) {
        if node.reference == Reference::Function(local) {
            (node.insn, node.reference) = (Insn::mov_imm(Reg::R0, 0), Reference::None);
        }
    }
    validate(&object).unwrap();
    let (written, unused) = elf.write_used(&object).unwrap();
    // A callback has no caller, and stays.
    assert_eq!(unused, [local].into());
    let whole = kiln_elf::read("whole", &elf.write(&object).unwrap()).unwrap().object;
    let again = kiln_elf::read("again", &written).unwrap().object;
    assert_eq!(again.functions.len() + 1, whole.functions.len());
    assert!(again.functions.iter().all(|function| function.name != "local_function"));
    for own in &again.functions {
        let other = function(&whole, &own.name);
        assert_eq!((own.slots(), own.btf_id, own.nodes.len()), (other.slots(), other.btf_id, other.nodes.len()));
        let lines = |object: &Object, function: &Function| -> Vec<_> {
            function.nodes.iter().map(|node| object.line(node).cloned()).collect()
        };
        assert_eq!(lines(&again, own), lines(&whole, other), "{}", own.name);
        let insns = |function: &Function| function.nodes.iter().map(|node| node.insn).collect::<Vec<_>>();
        assert_eq!(insns(own), insns(other), "{}", own.name);
    }
    assert_eq!(again.core, whole.core);
    assert_loads(&written);
}

#[test]
fn what_is_no_rewrite_is_refused() {
    let Some(elf) = compiled() else { return };
    let mut fewer = elf.object.clone();
    fewer.functions.pop();
    assert!(matches!(elf.write(&fewer), Err(kiln_elf::Error::Mismatch { .. })));
    let mut renamed = elf.object.clone();
    renamed.maps[0].name.push('x');
    assert!(matches!(elf.write(&renamed), Err(kiln_elf::Error::Mismatch { .. })));
    let mut far = elf.object.clone();
    let first = function_id(&far, "first").index();
    let branch = far.functions[first].nodes.iter().position(|node| matches!(node.insn, Insn::Branch { .. })).unwrap();
    let filler: Vec<_> = (0..40_000).map(|_| far.new_node(Insn::mov_imm(Reg::R0, 0), Reference::None)).collect();
    far.functions[first].nodes.splice(branch + 1..branch + 1, filler);
    assert!(matches!(elf.write(&far), Err(kiln_elf::Error::Layout { .. })));
}

/// The file offsets of the relocations of `.maps`, 16 bytes each.
fn map_relocations(bytes: &[u8]) -> Vec<usize> {
    let word = |at: usize, bytes_of: usize| {
        let mut word = [0; 8];
        word[..bytes_of].copy_from_slice(&bytes[at..at + bytes_of]);
        u64::from_le_bytes(word) as usize
    };
    let (table, count, names) = (word(40, 8), word(60, 2), word(62, 2));
    let names = word(table + 64 * names + 24, 8);
    let headers = (0..count).map(|index| table + 64 * index);
    let relocations = headers.filter(|header| bytes[names + word(*header, 4)..].starts_with(b".rel.maps\0"));
    relocations
        .flat_map(|header| {
            let (start, size) = (word(header + 24, 8), word(header + 32, 8));
            (start..start + size).step_by(16)
        })
        .collect()
}

/// Compilers before clang 13 gave relocations of `.maps` the type R_BPF_64_64.
#[test]
fn relocations_of_maps_may_have_the_older_type() {
    let Some(elf) = compiled() else { return };
    let bytes = elf.write(&elf.object).unwrap();
    let with_type = |kind: u32| {
        let mut bytes = bytes.clone();
        let relocations = map_relocations(&bytes);
        assert_eq!(relocations.len(), 2);
        for at in relocations {
            bytes[at + 8..at + 12].copy_from_slice(&kind.to_le_bytes());
        }
        bytes
    };
    let older = with_type(1);
    assert_ne!(older, bytes);
    let read = kiln_elf::read("everything.o", &older).unwrap();
    assert_eq!(read.object, elf.object);
    assert_loads(&older);
    let grown = read.write(&support::with_jumps_to_next(&read.object)).unwrap();
    assert_eq!(kiln_elf::read("grown.o", &grown).unwrap().object.maps, elf.object.maps);
    assert_loads(&grown);
    let Err(error) = kiln_elf::read("everything.o", &with_type(10)) else { panic!("a call's relocation is read") };
    assert!(error.to_string().contains("neither type R_BPF_64_ABS64 nor R_BPF_64_64"), "{error}");
}
