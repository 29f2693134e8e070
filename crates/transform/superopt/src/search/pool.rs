//! What candidates are made of: the registers, numbers and places of a window, and every instruction over them.
//!
//! ```text
//!   window                                   pool
//!   w1 = 0                                   registers  r1, r10
//!   *(u32 *)(r10 - 4) = w1                   numbers    0, 1, -1, ... and what the window's numbers make together
//!   *(u32 *)(r10 - 8) = w1                   places     r10 - 4, r10 - 8, of 1, 2, 4 and 8 bytes
//! ```
//!
//! Nothing else can be in a candidate, so a candidate touches no memory through an address that the window does not
//! have. Which of the pool's instructions make sense on addresses is not decided here: [`is_legal`] looks at a whole
//! candidate, and only at one that passed all tests.

use kiln_isa::forms::version_of;
use kiln_isa::semantics::{BitVec, Bits};
use kiln_isa::{Address, AluOp, ByteOrder, Imm64, Insn, JumpOp, Reg, RegSet, Size, Source, Width};
use kiln_program::{Node, Reference};
use kiln_verifier::Value;

use super::{Question, Step};

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Pool {
    /// Registers that may be read.
    pub readable: Vec<Reg>,
    /// Registers that may be written.
    pub writable: Vec<Reg>,
    /// Numbers.
    pub numbers: Vec<i32>,
    /// Offsets.
    pub offsets: Vec<i16>,
    /// Every instruction but branches.
    pub insns: Vec<Step>,
    /// Every branch that may stand in place of the window's last.
    pub branches: Vec<Step>,
}

impl Pool {
    /// The pool of a question.
    pub fn new(question: &Question<'_>) -> Pool {
        Pool::with(question, &[], &[])
    }

    /// The same with other places than the window's, and other numbers to store.
    pub fn with(question: &Question<'_>, places: &[Address], stored: &[i32]) -> Pool {
        let window = question.window.before;
        let mut readable = RegSet::EMPTY;
        let mut writable = RegSet::EMPTY;
        for node in window {
            readable = readable.union(node.insn.read());
            writable = writable.union(node.insn.written().into_iter().collect());
        }
        writable = writable.union(spare(question, writable)).intersection(question.writable);
        readable = readable.union(writable);
        let addresses = || window.iter().filter_map(|node| node.insn.address());
        let mut offsets: Vec<i16> = addresses().map(|address| address.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let mut pool = Pool {
            readable: readable.iter().collect(),
            writable: writable.iter().filter(|reg| *reg != Reg::R10).collect(),
            numbers: numbers(window),
            offsets,
            insns: Vec::new(),
            branches: Vec::new(),
        };
        pool.arithmetic();
        pool.memory(window, places, stored);
        pool.originals(window);
        pool.branches(window);
        let known: Vec<Insn> = window.iter().map(|node| node.insn).collect();
        let allowed = |step: &Step| version_of(&step.insn) <= question.isa || known.contains(&step.insn);
        pool.insns.retain(allowed);
        pool.branches.retain(allowed);
        pool
    }

    fn add(&mut self, insn: Insn) {
        self.insns.push(Step { insn, reference: Reference::None });
    }

    fn sources(&self) -> Vec<Source> {
        let registers = self.readable.iter().map(|reg| Source::Reg(*reg));
        registers.chain(self.numbers.iter().map(|number| Source::Imm(*number))).collect()
    }

    fn arithmetic(&mut self) {
        let sources = self.sources();
        for dst in self.writable.clone() {
            for width in [Width::W64, Width::W32] {
                for op in AluOp::ALL {
                    // Division is dear: it stays where it is.
                    if matches!(op, AluOp::Sdiv | AluOp::Smod | AluOp::Div | AluOp::Mod) {
                        continue;
                    }
                    for src in sources.iter().copied().filter(|src| shifts_by_less(*op, width, *src)) {
                        self.add(Insn::Alu { op: *op, width, dst, src });
                    }
                }
                self.add(Insn::Neg { width, dst });
                for src in self.readable.clone() {
                    for from in [Size::B1, Size::B2, Size::B4].into_iter().filter(|from| from.bits() < width.bits()) {
                        self.add(Insn::MoveSignExtend { width, from, dst, src });
                    }
                }
            }
            for size in [Size::B2, Size::B4, Size::B8] {
                self.add(Insn::Endian { order: ByteOrder::Big, size, dst });
            }
        }
    }

    fn memory(&mut self, window: &[Node], more: &[Address], stored: &[i32]) {
        let mut places: Vec<(Address, bool)> = Vec::new();
        for node in window {
            if let Some(address) = node.insn.address() {
                let writes = !matches!(node.insn, Insn::Load { .. } | Insn::LoadAcquire { .. });
                match places.iter_mut().find(|(known, _)| *known == address) {
                    Some((_, stored)) => *stored |= writes,
                    None => places.push((address, writes)),
                }
            }
        }
        let stores = places.iter().any(|(_, stored)| *stored);
        let own: Vec<Address> = places.iter().map(|(address, _)| *address).collect();
        places.extend(more.iter().filter(|address| !own.contains(address)).map(|address| (*address, stores)));
        let mut sources = self.sources();
        sources
            .extend(stored.iter().filter(|number| !self.numbers.contains(number)).map(|number| Source::Imm(*number)));
        for (address, stored) in places {
            for size in Size::ALL {
                for dst in self.writable.clone() {
                    self.add(Insn::Load { size, signed: false, dst, address });
                }
                for src in sources.iter().copied().filter(|_| stored) {
                    self.add(Insn::Store { size, address, src });
                }
            }
        }
    }

    /// The window's own instructions, with other destinations where they load what only a reference tells.
    fn originals(&mut self, window: &[Node]) {
        for node in window.iter().filter(|node| !matches!(node.insn, Insn::Branch { .. })) {
            let mut steps = vec![Step::from(node)];
            if let Insn::LoadImm64 { imm, .. } = node.insn {
                let other = |dst: &Reg| Step { insn: Insn::LoadImm64 { dst: *dst, imm }, reference: node.reference };
                steps.extend(self.writable.iter().map(other));
            }
            let new: Vec<Step> = steps.into_iter().filter(|step| !self.insns.contains(step)).collect();
            self.insns.extend(new);
        }
    }

    fn branches(&mut self, window: &[Node]) {
        let Some(Node { insn: Insn::Branch { offset, .. }, reference, .. }) = window.last() else { return };
        for dst in &self.readable {
            for src in self.sources() {
                for op in JumpOp::ALL {
                    for width in [Width::W64, Width::W32] {
                        let insn = Insn::Branch { op: *op, width, dst: *dst, src, offset: *offset };
                        self.branches.push(Step { insn, reference: *reference });
                    }
                }
            }
        }
    }
}

/// The lowest register that is dead and not used by the window, if there is one: it costs least to save.
fn spare(question: &Question<'_>, used: RegSet) -> RegSet {
    let free = question.writable.difference(used).iter().find(|reg| question.demand.of(*reg) == 0);
    free.into_iter().collect()
}

/// Whether a shift by a number is one that verifiers take.
pub fn shifts_by_less(op: AluOp, width: Width, src: Source) -> bool {
    match (op, src) {
        (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, Source::Imm(imm)) => (0..width.bits() as i32).contains(&imm),
        _ => true,
    }
}

/// Numbers that a cheaper run may need: those of the window, what they make together, and common ones.
fn numbers(window: &[Node]) -> Vec<i32> {
    let own = |node: &Node| match node.insn {
        Insn::Alu { src: Source::Imm(imm), .. }
        | Insn::Store { src: Source::Imm(imm), .. }
        | Insn::Branch { src: Source::Imm(imm), .. } => Some(i64::from(imm)),
        Insn::LoadImm64 { imm: Imm64::Value(value), .. } if node.reference == Reference::None => Some(value as i64),
        _ => None,
    };
    let mut own: Vec<i64> = window.iter().filter_map(own).collect();
    own.sort_unstable();
    own.dedup();
    let mut all: Vec<i64> = vec![0, 1, -1, 8, 16, 32, 0xff, 0xffff];
    for one in &own {
        all.extend([*one, one.wrapping_neg(), !one]);
        if (0..31).contains(one) {
            all.extend([1 << one, (1 << one) - 1, 32 - one, 64 - one]);
        }
        for other in own.iter().take(8) {
            let (a, b) = (Bits::new(64, *one as u64), Bits::new(64, *other as u64));
            let made = [a.add(&b), a.sub(&b), a.and(&b), a.or(&b), a.xor(&b)];
            all.extend(made.map(|bits| bits.value() as i64));
            if (0..64).contains(other) {
                all.extend([one << other, one >> other]);
            }
        }
    }
    let mut all: Vec<i32> = all.into_iter().filter_map(|value| i32::try_from(value).ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What a register holds, as far as it matters to verifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holds {
    Number,
    Address,
    Either,
}

/// Whether a candidate treats addresses as verifiers want: they are moved, stored whole, loaded and stored through,
/// and displaced by numbers, and nothing else is done to them that the window does not do itself.
pub fn is_legal(question: &Question<'_>, candidate: &[Step]) -> bool {
    let registers: [Holds; Reg::COUNT] =
        std::array::from_fn(|index| match question.window.facts.map(|facts| &facts.registers[index]) {
            Some(Value::Scalar(_)) => Holds::Number,
            Some(Value::Pointer(_)) => Holds::Address,
            _ if index == Reg::R10.index() => Holds::Address,
            _ => Holds::Either,
        });
    let original: Vec<Step> = question.window.before.iter().map(Step::from).collect();
    // What the original does to things of which nothing is known tells that they are numbers.
    let either_is_number = !computes_on(registers, &original, Holds::Either).is_empty();
    let wrong = |holds: Holds| {
        let wrong = computes_on(registers, candidate, holds);
        wrong.into_iter().all(|step| original.contains(&step))
    };
    wrong(Holds::Address) && (either_is_number || wrong(Holds::Either))
}

/// Steps that do to something of a kind what only numbers allow.
fn computes_on(mut registers: [Holds; Reg::COUNT], steps: &[Step], kind: Holds) -> Vec<Step> {
    let mut found = Vec::new();
    for step in steps {
        let of = |reg: Reg| registers[reg.index()];
        let source = |src: Source| src.reg().map_or(Holds::Number, of);
        let (bad, result) = match step.insn {
            Insn::Alu { op: AluOp::Mov, width, src, .. } => (width == Width::W32 && source(src) == kind, source(src)),
            Insn::Alu { op: AluOp::Add | AluOp::Sub, width: Width::W64, dst, src } => (source(src) == kind, of(dst)),
            Insn::Alu { dst, src, .. } => (of(dst) == kind || source(src) == kind, Holds::Number),
            Insn::Neg { dst, .. } | Insn::Endian { dst, .. } => (of(dst) == kind, Holds::Number),
            Insn::MoveSignExtend { src, .. } => (of(src) == kind, Holds::Number),
            Insn::Load { size: Size::B8, .. } => (false, Holds::Either),
            Insn::LoadImm64 { .. } if step.reference != Reference::None => (false, Holds::Address),
            Insn::Store { size, src, .. } => (size != Size::B8 && source(src) == kind, Holds::Number),
            Insn::Branch { dst, src, .. } => (of(dst) == kind || source(src) == kind, Holds::Number),
            _ => (false, Holds::Number),
        };
        if bad {
            found.push(*step);
        }
        if let Some(dst) = step.insn.written() {
            registers[dst.index()] = result;
        }
    }
    found
}
