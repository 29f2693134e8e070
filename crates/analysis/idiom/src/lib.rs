//! Finds native operations in ordinary compiler output.
//!
//! A compiler writes a rotation as two copies shifted against each other and joined, with other instructions in
//! between, in either order, with whatever temporaries are free. [`recognize`] finds such instructions and returns
//! marks ([`kiln_program::operation`]); the program itself does not change.
//!
//! ```text
//!   r4 = r2 ; r4 >>= 51 ; r3 = r2 ; r3 <<= 13 ; r3 |= r4        rotate_left_64 d=r3 s=r2 t=r4 k=13
//! ```
//!
//! Recognition is a search for instances of proof sequences, from the last instruction backwards through its block.
//! Registers bound so far direct it. Whether the instructions found may stand together (dataflow, dead temporaries, no
//! jump among them) is decided by the same check that every mark has to pass, so that there is one rule only.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use kiln_isa::operation::{Arch, Binding, Form, From, Operation, Registry, Template};
use kiln_isa::{AluOp, Insn, Source, Width};
use kiln_program::operation::{Checker, MAX_SPAN, Mark, accesses_memory};
use kiln_program::{Function, InsnId, Node, Object, liveness};

/// Candidates that the search for one instance looks at, at most: a bound on hostile input.
const MAX_CANDIDATES: usize = 2048;

/// Finds operations of the registry in all functions. Marks that the object has are not looked at. No branch is thought
/// hard to predict.
pub fn recognize(object: &Object, registry: &Registry) -> Vec<Mark> {
    recognize_where(object, registry, &|_| false)
}

/// Finds operations of the registry in all functions, given which branches are hard to predict. Without its branch, a
/// sequence has to wait for what was compared, so it pays nowhere else, unless the program asks for it.
pub fn recognize_where(object: &Object, registry: &Registry, is_hard: &dyn Fn(InsnId) -> bool) -> Vec<Mark> {
    let search = |passes: &[Pass; 2]| {
        object.functions.iter().flat_map(|function| recognize_in(function, passes, is_hard)).collect()
    };
    match BUILTIN.iter().find(|(known, _)| known.is(registry)) {
        Some((known, passes)) => search(passes.get_or_init(|| Pass::both(known))),
        None => search(&Pass::both(registry)),
    }
}

/// Kiln's own operations, for any machine and for each, with what is searched for, once a search has needed it.
static BUILTIN: [(Registry, OnceLock<[Pass; 2]>); 3] = [
    (Registry::BUILTIN, OnceLock::new()),
    (Registry::BUILTIN.on(Arch::X86_64), OnceLock::new()),
    (Registry::BUILTIN.on(Arch::Aarch64), OnceLock::new()),
];

/// Replaces the marks of an object by those that [`recognize`] finds; returns how many there are now.
pub fn annotate(object: &mut Object, registry: &Registry) -> usize {
    object.operations = recognize(object, registry);
    object.operations.len()
}

/// Finds operations in one function.
fn recognize_in(function: &Function, passes: &[Pass; 2], is_hard: &dyn Fn(InsnId) -> bool) -> Vec<Mark> {
    let nodes = &function.nodes[..];
    let mut checker = Checker::new(function);
    let blocks = Blocks::of(nodes, &checker);
    let present = blocks.kinds.iter().copied().flatten().fold(Kinds::default(), Kinds::with);
    let mut ordered = Vec::new();
    let [mut marks, more] = passes.each_ref().map(|pass| {
        let mut marks = Vec::new();
        let mut viable = pass.viable(&present);
        if viable.endings.is_empty() {
            return marks;
        }
        if ordered.is_empty() {
            ordered = roots(nodes);
        }
        for root in ordered.iter().copied() {
            let Some(ending) = blocks.kinds[root].and_then(|kind| viable.get(kind)) else { continue };
            if checker.is_taken(root) {
                continue;
            }
            let paying = |form: &Sequence| !form.loses_branch || root > 0 && is_hard(nodes[root - 1].id);
            let previous = root.checked_sub(1).and_then(|at| blocks.kinds[at]);
            let forms = ending.within(&blocks.before[root], previous).iter();
            let mut likely = forms.filter(|form| (form.tail <= 1 || blocks.may_have(form, root)) && paying(form));
            marks.extend(likely.find_map(|form| find(nodes, &mut checker, pass, form, root)));
        }
        marks
    });
    if more.is_empty() {
        return marks.into_iter().map(|(_, mark)| mark).collect();
    }
    // Whoever loads the object checks its marks in this order, in which some of them may be in the way of others.
    marks.extend(more);
    marks.sort_by_key(|(_, mark)| checker.last_member(mark));
    let mut checker = Checker::new(function);
    marks.retain(|(operation, mark)| checker.add(operation, mark).is_ok());
    marks.into_iter().map(|(_, mark)| mark).collect()
}

/// The instructions in the order in which sequences are looked for that end at them: as they are, but branches side by
/// side from the last one on, so that a chain of them is found from its end.
fn roots(nodes: &[Node]) -> Vec<usize> {
    let is_branch = |at: usize| matches!(nodes[at].insn, Insn::Branch { .. });
    let mut all: Vec<usize> = (0..nodes.len()).collect();
    all.chunk_by_mut(|left, right| is_branch(*left) && is_branch(*right)).for_each(<[usize]>::reverse);
    all
}

/// Whether native code has no branch and the sequence has one.
fn loses_branch(form: &Form) -> bool {
    form.tail() > 1 && !form.leaves()
}

/// Whether a sequence begins with a copy of a register to itself, which no compiler writes.
fn is_requested(form: &Form) -> bool {
    matches!(form.code, [Template::Alu { ops: [AluOp::Mov], dst, src: From::Reg(src), .. }, ..] if dst == src)
}

/// A proof sequence.
struct Sequence {
    operation: &'static Operation,
    /// Which of the operation's proof sequences.
    number: usize,
    form: &'static Form,
    last: &'static Template,
    /// [`Form::tail`].
    tail: usize,
    /// How many branches are right before the last instruction.
    branches: usize,
    /// Native code has no branch, the sequence has one, and the program does not ask for it.
    loses_branch: bool,
    /// The kinds of instructions that each of its templates matches.
    kinds: Vec<Kinds>,
    /// The kinds that its templates match which match one only.
    needs: Kinds,
}

impl Sequence {
    /// The kinds that the instruction right before the last one may be of, if the sequence has several blocks: from the first
    /// branch on, members are side by side.
    fn previous(&self) -> Option<&Kinds> {
        self.kinds.len().checked_sub(2).filter(|_| self.tail > 1).map(|at| &self.kinds[at])
    }

    /// Whether a function with instructions of these kinds may have an instance of it.
    fn is_viable(&self, present: &Kinds) -> bool {
        let has_all = self.needs.0.iter().zip(present.0).all(|(needed, present)| needed & !present == 0);
        has_all && self.kinds.iter().all(|kinds| kinds.0.iter().zip(present.0).any(|(own, present)| own & present != 0))
    }
}

/// The sequences that may end with an instruction of one kind.
struct Ending<'p> {
    /// Those that the kinds of a function's instructions allow, in the registry's order.
    viable: Vec<&'p Sequence>,
    /// The kinds of a block's instructions that were asked for last, and that of the instruction before the sequence's last
    /// one. Code repeats itself: the next ones are mostly the same.
    asked: (Kinds, Option<usize>),
    /// Those of `viable` that these kinds allow, and those of several blocks that may have such an instruction there.
    within: Vec<&'p Sequence>,
}

impl<'p> Ending<'p> {
    fn within(&mut self, window: &Kinds, previous: Option<usize>) -> &[&'p Sequence] {
        let asked = (*window, previous);
        if self.asked != asked {
            let fits = |form: &&&Sequence| match form.previous() {
                Some(kinds) => previous.is_some_and(|kind| kinds.has(kind)),
                None => form.is_viable(window),
            };
            self.asked = asked;
            self.within.clear();
            self.within.extend(self.viable.iter().filter(fits));
        }
        &self.within
    }
}

/// The sequences that a function may have, by the kind of their last instruction.
struct Viable<'p> {
    /// For each kind, one more than its place in `endings`; 0 for none.
    places: [u8; KINDS],
    endings: Vec<Ending<'p>>,
}

impl<'p> Viable<'p> {
    fn get(&mut self, kind: usize) -> Option<&mut Ending<'p>> {
        self.endings.get_mut(usize::from(self.places[kind]).checked_sub(1)?)
    }
}

/// A set of kinds of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Kinds([u64; KINDS.div_ceil(64)]);

impl Kinds {
    fn has(&self, kind: usize) -> bool {
        self.0[kind / 64] & 1 << (kind % 64) != 0
    }

    /// Its kinds, in order.
    fn iter(self) -> impl Iterator<Item = usize> {
        (0..).step_by(64).zip(self.0).flat_map(|(first, word)| {
            std::iter::successors(Some(word), |left| Some(left & left.wrapping_sub(1)))
                .take_while(|left| *left != 0)
                .map(move |left| first + left.trailing_zeros() as usize)
        })
    }

    fn with(mut self, kind: usize) -> Kinds {
        self.0[kind / 64] |= 1 << (kind % 64);
        self
    }
}

/// The kinds of a function's instructions, which exclude most sequences at most places.
struct Blocks {
    /// The kind of each instruction.
    kinds: Vec<Option<usize>>,
    /// The kinds of each instruction and of those of its block before it: what [`block_begin`] lets a sequence reach.
    before: Vec<Kinds>,
}

impl Blocks {
    fn of(nodes: &[Node], checker: &Checker<'_>) -> Blocks {
        let kinds: Vec<_> = nodes.iter().map(|node| kind_of(&node.insn)).collect();
        let mut before = Vec::with_capacity(nodes.len());
        let mut all = Kinds::default();
        for (at, kind) in kinds.iter().enumerate() {
            if at == 0 || checker.is_target(at) || nodes[at - 1].insn.is_control() {
                all = Kinds::default();
            }
            all = kind.map_or(all, |kind| all.with(kind));
            before.push(all);
        }
        Blocks { kinds, before }
    }

    /// Whether the instructions that a sequence ending at `root` may consist of are of the kinds that it needs.
    fn may_have(&self, sequence: &Sequence, root: usize) -> bool {
        let Some(branch) = (root + 1).checked_sub(sequence.tail) else { return false };
        // From the first branch on, members are side by side.
        let first = sequence.kinds[sequence.kinds.len() - sequence.tail];
        if !self.kinds[branch].is_some_and(|kind| first.has(kind)) {
            return false;
        }
        // So are branches before the last instruction.
        let last = sequence.kinds.len() - 1;
        for back in 1..=sequence.branches {
            let kind = root.checked_sub(back).and_then(|at| self.kinds[at]);
            if kind.is_none_or(|kind| !sequence.kinds[last - back].has(kind)) {
                return false;
            }
        }
        let mut window = self.before[branch];
        for kind in self.kinds[branch + 1..=root].iter().flatten() {
            window = window.with(*kind);
        }
        sequence.is_viable(&window)
    }
}

/// Proof sequences that are searched for together, by the kind of their last instruction ([`kind`]): few of them can end at a
/// given one. Those with several accesses to memory come after all others and take what these leave: an access that becomes
/// part of arithmetic is gone, one of a pair is only shared.
struct Pass {
    machines: Vec<Arch>,
    sequences: Vec<Sequence>,
    /// By the kind of the last instruction, places in `sequences`.
    endings: [Vec<usize>; KINDS],
}

impl Pass {
    fn both(registry: &Registry) -> [Pass; 2] {
        [false, true].map(|several| Pass::new(registry, several))
    }

    fn new(registry: &Registry, several: bool) -> Pass {
        let (mut sequences, mut endings) = (Vec::new(), [const { Vec::new() }; KINDS]);
        for operation in registry.operations().filter(|operation| operation.has_several_accesses() == several) {
            for (number, form) in operation.forms.iter().enumerate() {
                let Some(last) = form.code.last() else { continue };
                let loses_branch = loses_branch(form) && !is_requested(form);
                kinds(last).into_iter().for_each(|ending| endings[ending].push(sequences.len()));
                let set = |template| kinds(template).into_iter().fold(Kinds::default(), Kinds::with);
                let (tail, kinds) = (form.tail(), form.code.iter().map(set).collect());
                let is_branch = |template: &&Template| matches!(template, Template::Branch { .. });
                let branches = form.code.iter().rev().skip(1).take_while(is_branch).count();
                let only = form.code.iter().map(self::kinds).filter(|kinds| kinds.len() == 1);
                let needs = only.flatten().fold(Kinds::default(), Kinds::with);
                let row = Sequence { operation, number, form, last, tail, branches, loses_branch, kinds, needs };
                sequences.push(row);
            }
        }
        Pass { machines: registry.machines().collect(), sequences, endings }
    }

    /// The sequences that a function with instructions of these kinds may have, in the registry's order, by the kind of their
    /// last instruction.
    fn viable(&self, present: &Kinds) -> Viable<'_> {
        let mut all = Viable { places: [0; KINDS], endings: Vec::new() };
        for kind in present.iter() {
            let sequences = self.endings[kind].iter().map(|at| &self.sequences[*at]);
            let viable: Vec<_> = sequences.filter(|sequence| sequence.is_viable(present)).collect();
            if !viable.is_empty() {
                // The window of an instruction has its own kind at least.
                all.endings.push(Ending { viable, asked: Default::default(), within: Vec::new() });
                all.places[kind] = all.endings.len() as u8;
            }
        }
        all
    }
}

// A kind of instruction: its group, and what else a template says of it, below 8.
const NEG: usize = 0;
const LOAD: usize = 1;
const STORE: usize = 2;
const SWAP: usize = 3;
const BRANCH: usize = 4;
const ALU: usize = 5;
const KINDS: usize = 8 * (ALU + 16);

/// The kind of an instruction, if templates have it.
fn kind_of(insn: &Insn) -> Option<usize> {
    let is_imm = |src: &Source| matches!(src, Source::Imm(_));
    Some(match insn {
        Insn::Alu { op, width, src, .. } => alu(*op, *width, is_imm(src)),
        Insn::Neg { width, .. } => kind(NEG, *width as usize),
        Insn::Load { size, .. } => kind(LOAD, *size as usize),
        Insn::Store { size, .. } => kind(STORE, *size as usize),
        Insn::Endian { size, .. } => kind(SWAP, *size as usize),
        Insn::Branch { width, src, .. } => branch(*width, is_imm(src)),
        _ => return None,
    })
}

fn kind(group: usize, part: usize) -> usize {
    8 * group + part % 8
}

fn branch(width: Width, is_imm: bool) -> usize {
    kind(BRANCH, 2 * (width as usize) + usize::from(is_imm))
}

fn alu(op: AluOp, width: Width, is_imm: bool) -> usize {
    kind(ALU + (op as usize) % 16, 2 * (width as usize) + usize::from(is_imm))
}

/// The kinds of instructions that a template matches.
fn kinds(template: &Template) -> Vec<usize> {
    let is_imm = |src: From| matches!(src, From::Imm(_));
    match *template {
        Template::Alu { ops, widths, src, .. } => {
            let of = |op: &AluOp| widths.iter().map(|width| alu(*op, *width, is_imm(src))).collect::<Vec<_>>();
            ops.iter().flat_map(of).collect()
        }
        Template::Neg { widths, .. } => widths.iter().map(|width| kind(NEG, *width as usize)).collect(),
        Template::Load { size, .. } => vec![kind(LOAD, size as usize)],
        Template::Store { size, .. } => vec![kind(STORE, size as usize)],
        Template::Swap { size, .. } => vec![kind(SWAP, size as usize)],
        Template::Branch { width, src, .. } => vec![branch(width, is_imm(src))],
    }
}

/// An instance of a form whose last instruction is at `root`, accepted by the checker.
fn find(
    nodes: &[Node],
    checker: &mut Checker<'_>,
    pass: &Pass,
    sequence: &Sequence,
    root: usize,
) -> Option<(&'static Operation, Mark)> {
    let &Sequence { operation, number, form, last, tail, .. } = sequence;
    let mut binding = Binding::default();
    if !checker.matches(&mut binding, last, root) {
        return None;
    }
    // From the first branch on, members are side by side.
    let branch = (root + 1).checked_sub(tail)?;
    if (branch + 1..=root).any(|at| checker.is_target(at)) {
        return None;
    }
    let first = block_begin(nodes, checker, branch);
    let mut search = Search { nodes, pass, operation, form, number, first, members: vec![root], candidates: 0 };
    search.extend(checker, form.code.len() - 1, binding).map(|mark| (operation, mark))
}

/// The first instruction that may stand in a region with the one at `root`.
fn block_begin(nodes: &[Node], checker: &Checker<'_>, root: usize) -> usize {
    let mut at = root;
    while at > 0 && root - at + 1 < MAX_SPAN && !checker.is_target(at) && !nodes[at - 1].insn.is_control() {
        at -= 1;
    }
    at
}

/// The search for the instructions of one form.
struct Search<'a> {
    nodes: &'a [Node],
    pass: &'a Pass,
    operation: &'static Operation,
    form: &'static Form,
    number: usize,
    first: usize,
    members: Vec<usize>,
    candidates: usize,
}

impl Search<'_> {
    /// Finds instructions for the first `open` templates, the nearest first.
    fn extend(&mut self, checker: &mut Checker<'_>, open: usize, binding: Binding) -> Option<Mark> {
        let Some(next) = open.checked_sub(1) else { return self.accept(checker, binding) };
        let (root, template) = (self.members[0], &self.form.code[next]);
        let written = template.dst().and_then(|index| binding.reg(index));
        let last = self.members[self.members.len() - 1];
        let places = match template {
            Template::Branch { .. } => last.saturating_sub(1)..last,
            _ => self.first..root,
        };
        for at in places.rev() {
            self.candidates += 1;
            if self.candidates > MAX_CANDIDATES {
                return None;
            }
            if self.members.contains(&at) || checker.is_taken(at) {
                continue;
            }
            let (insn, mut more) = (&self.nodes[at].insn, binding);
            if checker.matches(&mut more, template, at) {
                self.members.push(at);
                if let Some(mark) = self.extend(checker, next, more) {
                    return Some(mark);
                }
                self.members.pop();
            }
            // What stays between an instruction and those that use its result must not touch it, and what stays between an
            // access and the last instruction must not access memory.
            if written.is_some_and(|reg| liveness::read(insn).union(liveness::written(insn)).contains(reg))
                || template.accesses_memory() && accesses_memory(insn)
            {
                return None;
            }
        }
        None
    }

    fn accept(&self, checker: &mut Checker<'_>, binding: Binding) -> Option<Mark> {
        let operands = binding.complete(self.operation, self.form)?;
        let pays = |arch| {
            let native = self.operation.native(arch, |_| true, &operands);
            let cost: usize = self.form.code.iter().map(Template::cost).sum();
            native.is_some_and(|native| native.code.len() < cost || self.operation.has_several_accesses())
        };
        if !self.pass.machines.iter().copied().any(pays) {
            return None;
        }
        let mut members = self.members.clone();
        members.sort_unstable();
        let mark = Mark {
            operation: self.operation.name.to_owned(),
            form: u8::try_from(self.number).ok()?,
            operands: operands.values()[..self.operation.operands.len()].to_vec(),
            members: members.iter().map(|at| self.nodes[*at].id).collect(),
        };
        checker.add(self.operation, &mark).ok().map(|()| mark)
    }
}
