//! Writes a function of the IR: instructions one after another, with branches to later labels.

use std::collections::HashMap;

use kiln_isa::{Address, AluOp, AtomicOp, CallTarget, Imm64, Insn, JumpOp, Reg, Size, Source, Width};
use kiln_program::{InsnId, MapId, Node, Object, Reference};

/// A branch target, before or after its position is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(usize);

/// What is known of a branch that no instruction shows, for estimates of costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Odds {
    /// Hardly any event takes it, such as those of the process that reads the results.
    Seldom,
    /// All events take it but those of a query's first and last milliseconds.
    Usual,
    /// Events take it that the query's conditions drop.
    Unwanted,
}

/// Branches of which something is known.
pub type Marks = HashMap<InsnId, Odds>;

/// A function that is being written.
pub struct Code<'o> {
    object: &'o mut Object,
    nodes: Vec<Node>,
    /// Where each label is.
    labels: Vec<Option<InsnId>>,
    /// Labels of the next instruction.
    waiting: Vec<Label>,
    /// Branches, by position, and their labels.
    branches: Vec<(usize, Label)>,
    marks: Marks,
}

impl<'o> Code<'o> {
    /// An empty function.
    pub fn new(object: &'o mut Object) -> Code<'o> {
        Code {
            object,
            nodes: Vec::new(),
            labels: Vec::new(),
            waiting: Vec::new(),
            branches: Vec::new(),
            marks: Marks::new(),
        }
    }

    /// Creates a label without a position.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places the label at the next instruction.
    pub fn bind(&mut self, label: Label) {
        self.waiting.push(label);
    }

    fn refer(&mut self, insn: Insn, reference: Reference) {
        let node = self.object.new_node(insn, reference);
        for label in self.waiting.drain(..) {
            self.labels[label.0] = Some(node.id);
        }
        self.nodes.push(node);
    }

    /// Adds an instruction without a reference.
    pub fn push(&mut self, insn: Insn) {
        self.refer(insn, Reference::None);
    }

    /// `dst = src`.
    pub fn copy(&mut self, dst: Reg, src: Reg) {
        self.push(Insn::mov(dst, src));
    }

    /// `dst = value`, whatever its size.
    pub fn constant(&mut self, dst: Reg, value: u64) {
        match i32::try_from(value as i64) {
            Ok(small) => self.push(Insn::mov_imm(dst, small)),
            Err(_) => self.push(Insn::LoadImm64 { dst, imm: Imm64::Value(value) }),
        }
    }

    /// `dst op= src`, 64 bits.
    pub fn alu(&mut self, op: AluOp, dst: Reg, src: Source) {
        self.push(Insn::Alu { op, width: Width::W64, dst, src });
    }

    /// `dst = r10 + offset`.
    pub fn frame_address(&mut self, dst: Reg, offset: i16) {
        self.copy(dst, Reg::R10);
        self.alu(AluOp::Add, dst, Source::Imm(offset.into()));
    }

    /// Loads a number.
    pub fn load(&mut self, size: Size, signed: bool, dst: Reg, base: Reg, offset: i16) {
        // Eight bytes have no sign to extend; smaller ones are extended by shifts, which every kernel has.
        self.push(Insn::Load { size, signed: false, dst, address: Address { base, offset } });
        if signed && size != Size::B8 {
            let bits = 64 - size.bits() as i32;
            self.alu(AluOp::Lsh, dst, Source::Imm(bits));
            self.alu(AluOp::Arsh, dst, Source::Imm(bits));
        }
    }

    /// Stores a number.
    pub fn store(&mut self, size: Size, base: Reg, offset: i16, src: Source) {
        self.push(Insn::Store { size, address: Address { base, offset }, src });
    }

    /// `lock *(u64 *)(base + offset) += src`.
    pub fn atomic_add(&mut self, base: Reg, offset: i16, src: Reg) {
        let op = AtomicOp::Add;
        self.push(Insn::Atomic { op, fetch: false, size: Size::B8, address: Address { base, offset }, src });
    }

    /// `register = ` what is at `base + offset`, which becomes what `op` makes of it and the register.
    pub fn atomic_fetch(&mut self, op: AtomicOp, base: Reg, offset: i16, register: Reg) {
        let address = Address { base, offset };
        self.push(Insn::Atomic { op, fetch: true, size: Size::B8, address, src: register });
    }

    /// `dst = map`.
    pub fn map(&mut self, dst: Reg, map: MapId) {
        self.refer(Node::address_load(dst), Reference::Map(map));
    }

    /// `dst` is the address of a byte in a map's only value.
    pub fn map_value(&mut self, dst: Reg, map: MapId, offset: u32) {
        self.refer(Node::address_load(dst), Reference::MapValue { map, offset });
    }

    /// `r0 = ` the address of a map's value by the key at a place in the frame, or 0.
    pub fn look_up(&mut self, map: MapId, key: i16) {
        self.with_key("map_lookup_elem", map, key);
    }

    /// Deletes a map's entry by the key at a place in the frame.
    pub fn delete(&mut self, map: MapId, key: i16) {
        self.with_key("map_delete_elem", map, key);
    }

    fn with_key(&mut self, helper: &str, map: MapId, key: i16) {
        self.map(Reg::R1, map);
        self.frame_address(Reg::R2, key);
        self.call(helper);
    }

    /// Makes or replaces a map's entry by the key and the value at two places in the frame. R0 is 0 if there was room.
    pub fn update(&mut self, map: MapId, key: i16, value: i16) {
        self.map(Reg::R1, map);
        self.frame_address(Reg::R2, key);
        self.frame_address(Reg::R3, value);
        self.constant(Reg::R4, 0);
        self.call("map_update_elem");
    }

    /// Calls a helper by its name in the table of helpers.
    ///
    /// # Panics
    /// If there is no such helper; the names are constants of this crate.
    pub fn call(&mut self, helper: &str) {
        let helper = kiln_platform::Helper::by_name(helper).expect("the helper is in the table");
        self.push(Insn::Call(CallTarget::Helper(helper.id)));
    }

    /// `if dst op src goto label`, 64 bits.
    pub fn branch(&mut self, op: JumpOp, dst: Reg, src: Source, label: Label) {
        self.branches.push((self.nodes.len(), label));
        self.push(Insn::Branch { op, width: Width::W64, dst, src, offset: 0 });
    }

    /// Says what is known of the last instruction, a branch.
    pub fn mark(&mut self, odds: Odds) {
        self.marks.extend(self.nodes.last().map(|node| (node.id, odds)));
    }

    /// What was said of branches.
    pub fn take_marks(&mut self) -> Marks {
        std::mem::take(&mut self.marks)
    }

    /// `goto label`.
    pub fn jump(&mut self, label: Label) {
        self.branches.push((self.nodes.len(), label));
        self.push(Insn::Jump { offset: 0, long: false });
    }

    /// The function's instructions.
    ///
    /// # Panics
    /// If a label of a branch was not placed.
    pub fn finish(mut self) -> Vec<Node> {
        for (at, label) in self.branches {
            let target = self.labels[label.0].expect("every label that is used is bound");
            self.nodes[at].reference = Reference::Branch(target);
        }
        self.nodes
    }
}
