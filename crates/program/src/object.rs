//! The data model.

use kiln_isa::{CallTarget, Imm64, Insn, Reg};
use kiln_platform::{AttachType, MapType, ProgramType};

use crate::btf::{Btf, Kind, TypeId};

macro_rules! id {
    ($(#[doc = $doc:literal])+ $name:ident) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// An instruction of an object. It keeps its id through every rewrite that keeps the instruction; new
    /// instructions get ids never used before in the object.
    InsnId
}
id! {
    /// Index into [`Object::functions`].
    FunctionId
}
id! {
    /// Index into [`Object::programs`].
    ProgramId
}
id! {
    /// Index into [`Object::maps`].
    MapId
}
id! {
    /// Index into [`Object::externs`].
    ExternId
}
id! {
    /// Index into [`Object::lines`].
    LineId
}
id! {
    /// Index into [`Object::core`].
    CoreId
}

/// The contents of one object file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// File name or other label, for messages.
    pub name: String,
    /// The `license` section's text; it decides whether GPL-only helpers are allowed.
    pub license: String,
    /// The `version` section, 0 when absent.
    pub kernel_version: u32,
    /// All functions, entries and subprograms.
    pub functions: Vec<Function>,
    /// What can be loaded.
    pub programs: Vec<Program>,
    /// Maps, data sections among them.
    pub maps: Vec<Map>,
    /// Kernel symbols, kfuncs and kconfig values it refers to.
    pub externs: Vec<Extern>,
    /// Source lines that instructions point to.
    pub lines: Vec<SourceLine>,
    /// CO-RE relocations that instructions point to.
    pub core: Vec<CoreRelocation>,
    /// The raw `.BTF` section, if any.
    pub btf: Option<Vec<u8>>,
    /// Marks of native operations: untrusted claims, see [`crate::operation`].
    pub operations: Vec<crate::operation::Mark>,
    /// The next unused instruction id.
    pub next_insn: u32,
}

/// A function: an entry or a subprogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// The ELF section it came from.
    pub section: String,
    /// Who may call it, and how the kernel verifies it.
    pub linkage: Linkage,
    /// Its BTF type id (`func_info`), 0 when unknown.
    pub btf_id: u32,
    /// Its instructions, in layout order.
    pub nodes: Vec<Node>,
    /// Where its indirect jumps (`gotox`) may lead.
    pub tables: Vec<JumpTable>,
}

/// The entries of a map of type `insn_array`: instructions of one function. A program reads an entry, and jumps to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JumpTable {
    /// The map, which belongs to no other table.
    pub map: MapId,
    /// The instruction of each entry.
    pub targets: Vec<InsnId>,
}

/// A function symbol's binding. The kernel verifies global functions on their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linkage {
    /// `static`.
    Static,
    /// Global.
    Global,
    /// Weak.
    Weak,
}

/// An instruction in its function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Stable identity.
    pub id: InsnId,
    /// The instruction. Fields that [`Node::reference`] replaces are zero.
    pub insn: Insn,
    /// What it refers to.
    pub reference: Reference,
    /// The source line that covers it. Two `line_info` records have two ids even if they name the same line.
    pub line: Option<LineId>,
    /// The CO-RE relocation that rewrites its immediate or offset at load time. The encoded value is what the
    /// object's own BTF says; on another kernel it may be anything.
    pub core: Option<CoreId>,
}

/// The target that an instruction refers to, instead of an encoded number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reference {
    /// Nothing.
    None,
    /// A branch's target, in the same function.
    Branch(InsnId),
    /// A `ld_imm64` of a map's address.
    Map(MapId),
    /// A `ld_imm64` of the address of a byte in a map's first value (data sections).
    MapValue {
        /// Which map.
        map: MapId,
        /// Bytes into the value.
        offset: u32,
    },
    /// A call of a subprogram, or a `ld_imm64` of a callback's address.
    Function(FunctionId),
    /// A call of a kfunc, or a `ld_imm64` of a kernel symbol's or kconfig value's address.
    Extern(ExternId),
}

/// A loadable program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name: the entry function's symbol.
    pub name: String,
    /// The full section name (`SEC("xdp/devmap")`).
    pub section: String,
    /// The type it is loaded as; `None` if the section name does not tell it.
    pub program_type: Option<ProgramType>,
    /// Its expected attach type, if the section name gives one.
    pub attach_type: Option<AttachType>,
    /// Where it begins.
    pub entry: FunctionId,
    /// libbpf's `SEC("?...")`: not loaded unless asked for.
    pub autoload: bool,
    /// `BPF_F_SLEEPABLE`.
    pub sleepable: bool,
    /// `BPF_F_XDP_HAS_FRAGS`.
    pub frags: bool,
    /// What it is attached to, if the section name does not tell it. For a `struct_ops` program, the member of the
    /// kernel structure, such as `tcp_congestion_ops.init`.
    pub target: Option<String>,
    /// The function of another program that it stands for; its type and attach type are then that program's.
    pub replaces: Option<Replaced>,
}

/// A function of another program for which a `freplace` program stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// A program that uses it.
    pub program: String,
    /// Its name.
    pub function: String,
    /// It may move packet data; if not, what replaces it may not.
    pub changes_packet: bool,
    /// It may sleep; if not, what replaces it may not.
    pub may_sleep: bool,
}

impl Program {
    /// Its flags of `BPF_PROG_LOAD`.
    pub fn flags(&self) -> u32 {
        u32::from(self.sleepable) << 4 | u32::from(self.frags) << 5
    }

    /// Gives it a type. A system call's program may sleep: the kernel takes no others.
    pub fn set_type(&mut self, program_type: ProgramType) {
        self.program_type = Some(program_type);
        self.sleepable |= program_type == ProgramType::Syscall;
    }

    /// A program that is loaded and has nothing else to say: no attach type, no flags but those of its type, no target.
    pub fn new(
        name: impl Into<String>,
        section: impl Into<String>,
        program_type: Option<ProgramType>,
        entry: FunctionId,
    ) -> Program {
        Program {
            name: name.into(),
            section: section.into(),
            program_type,
            attach_type: None,
            entry,
            autoload: true,
            sleepable: program_type == Some(ProgramType::Syscall),
            frags: false,
            target: None,
            replaces: None,
        }
    }
}

/// A map definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Its symbol, or libbpf's name for a data section (`.rodata`).
    pub name: String,
    /// Its type.
    pub map_type: MapType,
    /// Bytes in a key.
    pub key_size: u32,
    /// Bytes in a value.
    pub value_size: u32,
    /// Maximum number of entries; 0 means decided at load time.
    pub max_entries: u32,
    /// `BPF_F_*` flags.
    pub flags: u32,
    /// `map_extra`.
    pub extra: u64,
    /// Whether it asks to be pinned by name (`LIBBPF_PIN_BY_NAME`).
    pub pinned_by_name: bool,
    /// BTF id of the key type, 0 when unknown.
    pub key_btf: u32,
    /// BTF id of the value type, 0 when unknown.
    pub value_btf: u32,
    /// The template of the maps it holds, for array-of-maps and hash-of-maps.
    pub inner: Option<Box<Map>>,
    /// Its initial contents, other than zeros.
    pub contents: MapContents,
}

/// `BPF_F_RDONLY_PROG`: programs may not write the map.
pub const READ_ONLY_FLAG: u32 = 1 << 7;
/// `BPF_F_WRONLY_PROG`: programs may not read the map.
pub const WRITE_ONLY_FLAG: u32 = 1 << 8;

impl Map {
    /// Whether programs may not write the map's values: it has `BPF_F_RDONLY_PROG`. [`crate::validate()`] requires the
    /// flag for every map whose contents are constants. The kernel sets it for jump tables.
    pub const fn is_read_only(&self) -> bool {
        self.flags & READ_ONLY_FLAG != 0 || matches!(self.map_type, MapType::InsnArray)
    }

    /// Bytes behind the address of the map's first value. Of a jump table programs see all addresses, and not the values
    /// that user space sees.
    pub const fn direct_bytes(&self) -> u64 {
        match self.map_type {
            MapType::InsnArray => self.max_entries as u64 * JumpTable::ENTRY_BYTES as u64,
            _ => self.value_size as u64,
        }
    }

    /// Whether user space may fill it with entries of any bytes: a hash map or an array that begins empty.
    pub fn takes_any_entry(&self) -> bool {
        let is_plain = matches!(
            self.map_type,
            MapType::Hash
                | MapType::Array
                | MapType::PercpuHash
                | MapType::PercpuArray
                | MapType::LruHash
                | MapType::LruPercpuHash
        );
        is_plain && matches!(self.contents, MapContents::Empty)
    }

    /// Whether the map is a data section: libbpf's array of one value, which has one address. A loader may resize other maps.
    pub fn is_section(&self) -> bool {
        matches!(self.map_type, MapType::Array | MapType::PercpuArray) && self.name.starts_with('.')
    }

    /// Whether nothing writes the map's value once it is loaded: programs may not, and the loader freezes it.
    pub const fn is_constant(&self) -> bool {
        matches!(self.contents, MapContents::ReadOnly(_) | MapContents::Kconfig(_))
    }
}

/// The initial contents of a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MapContents {
    /// Nothing, or zeros.
    #[default]
    Empty,
    /// The bytes of `.data` or another writable data section.
    Data(Vec<u8>),
    /// The bytes of `.rodata`, which the loader may change before it freezes them.
    ReadOnly(Vec<u8>),
    /// A `.kconfig` section of this many bytes, filled from the kernel's configuration at load time.
    Kconfig(u32),
    /// A `struct_ops` map's bytes.
    StructOps(Vec<u8>),
    /// Entries of a prog array or a map of maps, as libbpf's `values` initialize them.
    Slots(Vec<(u32, MapSlot)>),
}

/// An initial entry of a prog array or a map of maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapSlot {
    /// A program's entry function.
    Function(FunctionId),
    /// A map.
    Map(MapId),
}

/// A symbol that the loader resolves (an extern).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extern {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ExternKind,
    /// Weak: may stay unresolved, and is then zero.
    pub weak: bool,
    /// BTF id of the declaration in the object's BTF, 0 when unknown.
    pub btf_id: u32,
}

/// What an extern is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExternKind {
    /// A kernel function.
    Kfunc,
    /// A kernel variable with a type (`__ksym`).
    TypedKsym,
    /// A kernel symbol's address only.
    Ksym,
    /// A value in `.kconfig`, at this offset of that map.
    Kconfig {
        /// The map.
        map: MapId,
        /// Bytes into it.
        offset: u32,
    },
}

/// A `line_info` record's meaning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceLine {
    /// The source file's name, as the compiler recorded it.
    pub file: String,
    /// 1-based line.
    pub line: u32,
    /// 1-based column.
    pub column: u32,
    /// The line's text, where recorded.
    pub text: String,
    /// Offset of the file name in the BTF string table, for writing it back.
    pub file_offset: u32,
    /// Offset of the text in the BTF string table, for writing it back.
    pub text_offset: u32,
}

/// A CO-RE relocation record (kernel `include/uapi/linux/bpf.h`, `struct bpf_core_relo`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreRelocation {
    /// BTF id of the root type, in the object's BTF.
    pub type_id: u32,
    /// The access string, such as `0:1:2`.
    pub access: String,
    /// Offset of the access string in the BTF string table, for writing it back.
    pub access_offset: u32,
    /// The kind: `enum bpf_core_relo_kind`.
    pub kind: u32,
    /// Whether a load of the field has the same width on every kernel. It follows from the other fields and the
    /// object's BTF.
    pub keeps_width: bool,
}

impl CoreRelocation {
    /// Sets whether a load of the field keeps its width. libbpf widens or narrows a load if both fields are unsigned
    /// integers or pointers of different sizes; any other field whose size differs fails the load
    /// (`tools/lib/bpf/relo_core.c`, `bpf_core_calc_field_relo`).
    pub fn set_width(&mut self, types: &Btf) {
        let field = types.accessed(TypeId(self.type_id), &self.access);
        self.keeps_width = match field.map(|field| types.kind(field)) {
            Some(Kind::Int { signed, .. }) => *signed,
            Some(Kind::Enum { .. }) => true,
            _ => false,
        };
    }

    /// The helper number of a poisoned call: what is left of an instruction whose relocation the kernel's types do not
    /// answer. No helper has this number, and libbpf uses it too.
    pub const POISON_HELPER: u32 = 195_896_080;

    /// `BPF_CORE_TYPE_ID_LOCAL`.
    pub const TYPE_ID_LOCAL: u32 = 6;
    /// `BPF_CORE_TYPE_ID_TARGET`.
    pub const TYPE_ID_TARGET: u32 = 7;

    /// Whether its value is a type number in the object's own BTF, which does not depend on the kernel.
    pub const fn is_own_type(&self) -> bool {
        self.kind == CoreRelocation::TYPE_ID_LOCAL
    }

    /// Whether its value is a type number in the kernel's BTF.
    pub const fn is_kernel_type(&self) -> bool {
        self.kind == CoreRelocation::TYPE_ID_TARGET
    }
}

impl Object {
    /// Whether the license is one that the kernel takes as compatible with its own (`include/linux/license.h` lists them).
    pub fn has_gpl_license(&self) -> bool {
        const COMPATIBLE: [&str; 6] =
            ["GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"];
        COMPATIBLE.contains(&self.license.as_str())
    }

    /// A fresh instruction id.
    pub fn fresh_insn(&mut self) -> InsnId {
        let id = InsnId(self.next_insn);
        self.next_insn += 1;
        id
    }

    /// A new node with a fresh id, without debug info.
    pub fn new_node(&mut self, insn: Insn, reference: Reference) -> Node {
        Node::new(self.fresh_insn(), insn, reference)
    }

    /// The function.
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.index()]
    }

    /// The map.
    pub fn map(&self, id: MapId) -> &Map {
        &self.maps[id.index()]
    }

    /// The source line of a node.
    pub fn line(&self, node: &Node) -> Option<&SourceLine> {
        self.lines.get(node.line?.index())
    }

    /// What the node's CO-RE relocation asks for, as C would write it: `struct sock.skc.port`.
    pub fn asked(&self, node: &Node) -> Option<String> {
        let relocation = self.core.get(node.core?.index())?;
        let types = Btf::parse(self.btf.as_deref()?).ok()?;
        types.access_name(TypeId(relocation.type_id), &relocation.access)
    }

    /// The jump table that a map holds.
    pub fn jump_table(&self, map: MapId) -> Option<&JumpTable> {
        self.functions.iter().flat_map(|function| &function.tables).find(|table| table.map == map)
    }

    /// The program by name.
    pub fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|program| program.name == name)
    }

    /// The functions that a run of `entry` may reach by calls and callbacks: `entry` first, the others in the order in
    /// which libbpf appends them (first use, depth first).
    pub fn reachable_functions(&self, entry: FunctionId) -> Vec<FunctionId> {
        if self.functions.len() == 1 && entry.index() == 0 {
            return vec![entry];
        }
        let mut seen = vec![false; self.functions.len()];
        let mut order = Vec::new();
        let mut pending = vec![entry];
        while let Some(id) = pending.pop() {
            match seen.get_mut(id.index()) {
                Some(seen) if !*seen => *seen = true,
                // A function that does not exist counts as reached; the code that looks it up reports the error.
                None if !order.contains(&id) => {}
                _ => continue,
            }
            order.push(id);
            let nodes = self.functions.get(id.index()).map_or(&[][..], |function| &function.nodes);
            pending.extend(nodes.iter().rev().filter_map(|node| match node.reference {
                Reference::Function(callee) => Some(callee),
                _ => None,
            }));
        }
        order
    }

    /// Slots of a program with all its subprograms, as the kernel counts them.
    pub fn program_slots(&self, program: &Program) -> u32 {
        self.reachable_functions(program.entry).iter().map(|id| self.function(*id).slots()).sum()
    }
}

impl Function {
    /// A function without types and jump tables.
    pub fn new(name: impl Into<String>, section: impl Into<String>, linkage: Linkage, nodes: Vec<Node>) -> Function {
        Function { name: name.into(), section: section.into(), linkage, btf_id: 0, nodes, tables: Vec::new() }
    }

    /// Slots it takes.
    pub fn slots(&self) -> u32 {
        self.nodes.iter().map(|node| node.insn.slots()).sum()
    }

    /// The instructions that its indirect jumps may lead to: the kernel takes the entries of all its tables for the targets
    /// of each. In the order of their ids, each once.
    pub fn jump_targets(&self) -> Vec<InsnId> {
        let mut targets: Vec<InsnId> = self.tables.iter().flat_map(|table| &table.targets).copied().collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// Whether an instruction of it is a `gotox`.
    pub fn jumps_indirectly(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.insn, Insn::JumpIndirect { .. }))
    }

    /// The position of an instruction.
    pub fn position(&self, id: InsnId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }
}

impl JumpTable {
    /// Bytes of an entry, as a program reads it.
    pub const ENTRY_BYTES: u32 = 8;

    /// The number that a program reads from an entry, in Kiln's engines: the instruction's address for them.
    pub const fn address(target: InsnId) -> u64 {
        target.0 as u64
    }

    /// The bytes that a program reads.
    pub fn bytes(&self) -> Vec<u8> {
        self.targets.iter().flat_map(|target| JumpTable::address(*target).to_le_bytes()).collect()
    }
}

impl Node {
    /// An instruction without a source line or CO-RE relocation.
    pub fn new(id: InsnId, insn: Insn, reference: Reference) -> Node {
        Node { id, insn, reference, line: None, core: None }
    }

    /// The branch target, if it is a branch.
    pub fn target(&self) -> Option<InsnId> {
        match self.reference {
            Reference::Branch(id) => Some(id),
            _ => None,
        }
    }

    /// The subprogram it calls, if it does.
    pub fn callee(&self) -> Option<FunctionId> {
        match (self.insn, self.reference) {
            (Insn::Call(CallTarget::Subprogram(_)), Reference::Function(id)) => Some(id),
            _ => None,
        }
    }

    /// The helper it calls, if it does.
    pub fn helper(&self) -> Option<u32> {
        match self.insn {
            Insn::Call(CallTarget::Helper(id)) => Some(id),
            _ => None,
        }
    }

    /// A `ld_imm64` of an address that `reference` gives; the encoded value is zero.
    pub fn address_load(dst: Reg) -> Insn {
        Insn::LoadImm64 { dst, imm: Imm64::Value(0) }
    }
}
