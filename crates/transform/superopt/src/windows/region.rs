//! A straight run of instructions being rewritten, and the proof of each change.
//!
//! A rule proposes a whole new run. Comparing the runs gives the changed pieces. Each piece is proved by itself, or all
//! together if they depend on each other:
//!
//! ```text
//!   before                     proposed                   pieces
//!   r2 = r10                   (gone)                     r2 = r10; r2 += -8   ->  nothing
//!   r2 += -8                   (gone)
//!   r1 = *(u64 *)(r6 + 0)      r1 = *(u64 *)(r6 + 0)
//!   *(u64 *)(r2 + 0) = r1      *(u64 *)(r10 - 8) = r1     the last one: equal only if r2 is known, so one window of all
//! ```
//!
//! **Which facts still hold.** Facts speak of the program that was verified. After a rewrite, bits that nothing reads may
//! hold other values than there, and so may registers that these bits are copied to. So a window's precondition has only
//! what the current program reads ([`Region::precondition`]), and registers that no rewritten value reaches
//! ([`Staleness`]); others count as unreadable, and facts of instructions inside a rewritten window are not used again
//! until the next verification. A rewrite that reads more bits at the start of a region than were read there makes the
//! register count as read everywhere. All this only keeps proposals from being refused: what is accepted is proved
//! without it (`crate::run`).

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use kiln_equiv::{Exit, Limits, Method, Proof, Verdict, Window, WindowRecord};
use kiln_isa::forms::version_of;
use kiln_isa::table::IsaVersion;
use kiln_isa::{AluOp, Insn, Reg, RegSet, Source, Width};
use kiln_program::{InsnId, Node, Object, Reference};
use kiln_verifier::{Facts, InsnFacts, Scalar, StackSet, Tnum, Value};

use crate::cost::{CostModel, Goal, Weight};
use crate::flow::calls::Calls;
use crate::flow::demand::{Afterwards, Demand, Exits};
use crate::flow::possible::{self, Possible};
use crate::windows::pieces::{Piece, pieces, split};
use crate::windows::staleness::Staleness;

/// A proved change of a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// Who proposed it.
    pub rule: String,
    /// The instruction that the rule looked at.
    pub at: InsnId,
    /// The old instructions.
    pub before: Vec<Node>,
    /// The new instructions.
    pub after: Vec<Node>,
    /// The proof.
    pub proof: Proof,
}

/// A run of a block, or of blocks that are entered only from the one before, including their branches.
pub struct Region<'a> {
    /// The object, for what instructions refer to.
    pub object: &'a Object,
    /// Facts, where the program was verified.
    pub facts: Option<&'a Facts>,
    /// The context as a value, and the registers that hold it where the run begins, if that is known.
    pub context: Option<(&'a Value, RegSet)>,
    /// The current instructions.
    pub nodes: Vec<Node>,
    /// What is read after the last instruction, and at branch targets that are not in `exits`.
    pub end: Demand,
    /// What is read at branch targets.
    pub exits: &'a Exits,
    /// What calls read.
    pub calls: &'a Calls,
    /// What of the facts no longer holds.
    pub stale: &'a mut Staleness,
    /// The limits of each question.
    pub limits: &'a Limits,
    /// Questions already answered with no.
    pub refuted: &'a HashSet<u64>,
    /// Questions answered with no here.
    pub newly_refuted: HashSet<u64>,
    /// Proved changes so far.
    pub steps: Vec<Step>,
    /// Questions asked.
    pub asked: u64,
    /// Which bits may be one at the start, and whether loads of four bytes give numbers.
    pub possible: (Possible, bool),
    /// The newest version of the instruction set that new instructions may be of.
    pub isa: IsaVersion,
    /// What instructions cost.
    pub model: &'a CostModel,
    /// Which of two runs is the better one.
    pub goal: Goal,
}

/// Instructions that a window may take in before what changed.
const CONTEXT: usize = 24;

/// What decides about a proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judge {
    /// Tests, the normal form, and then the solver.
    Solver,
    /// Tests and the normal form.
    NormalForm,
    /// No question: the matched rule is proved for all operands.
    Rule,
}

/// Instructions that no window may hold. A branch may be its last.
pub fn is_cut(node: &Node) -> bool {
    let compares = matches!(node.insn, Insn::Branch { .. }) && node.core.is_none();
    matches!(node.insn, Insn::LoadPacket { .. } | Insn::AddressSpaceCast { .. }) || node.insn.is_control() && !compares
}

/// Whether windows that need not reach across calls end here: at calls and at what [`is_cut`] names.
pub fn is_barrier(node: &Node) -> bool {
    matches!(node.insn, Insn::Call(_)) || is_cut(node)
}

/// Whether straight-line code ends here: at branches and at what [`is_barrier`] names.
fn is_end(node: &Node) -> bool {
    matches!(node.insn, Insn::Branch { .. }) || is_barrier(node)
}

/// Whether an instruction destroys the value of one of these registers without writing it.
pub fn ends(node: &Node, regs: &[Reg]) -> bool {
    let clobbers = matches!(node.insn, Insn::Call(_)) && regs.iter().any(|reg| RegSet::CALLER_SAVED.contains(*reg));
    clobbers || is_cut(node)
}

impl<'a> Region<'a> {
    /// All that rules look at here, besides what is stale, as a hash.
    pub(super) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let demand = |demand: &Demand, hasher: &mut DefaultHasher| {
            Reg::all().for_each(|reg| demand.of(reg).hash(hasher));
        };
        demand(&self.end, &mut hasher);
        self.possible.hash(&mut hasher);
        self.context.map(|(_, registers)| registers).hash(&mut hasher);
        self.stale.pinned.hash(&mut hasher);
        for node in &self.nodes {
            (node.id, node.insn, node.reference, node.core).hash(&mut hasher);
            self.facts.and_then(|facts| facts.at(node.id)).hash(&mut hasher);
            (self.stale.insns.contains(&node.id), self.stale.after.contains(&node.id)).hash(&mut hasher);
            if let Some(exit) = node.target().and_then(|target| self.exits.get(&target)) {
                demand(exit, &mut hasher);
            }
        }
        hasher.finish()
    }

    /// Accepts a proposed run, without its dead instructions, if the goal prefers it and it is proved equal.
    ///
    /// `context`: whether the proposal relies on instructions before those that it changes. The window then includes
    /// them.
    pub fn attempt(&mut self, rule: &str, at: InsnId, proposed: &[Node], context: bool) -> bool {
        let better = self.better(proposed);
        better.is_some_and(|after| self.replace(rule, at, after, context))
    }

    /// A proposed run without its dead instructions, if the goal prefers it.
    fn better(&self, proposed: &[Node]) -> Option<Vec<Node>> {
        let after = self.afterwards().without_dead(proposed);
        let weigh = |nodes: &[Node]| Weight::of(nodes, self.model);
        self.goal.prefers(weigh(&after), weigh(&self.nodes)).then_some(after)
    }

    /// Accepts a run that a proved rule proposes, if it weighs less. The normal form is tried first. `exact`: the
    /// rule's own proof covers this use, so it counts if the normal form does not decide.
    pub fn attempt_rule(&mut self, rule: &str, at: InsnId, proposed: &[Node], exact: bool) -> bool {
        let Some(after) = self.better(proposed) else { return false };
        self.replace_by(rule, at, after.clone(), true, Judge::NormalForm)
            || exact && self.replace_by(rule, at, after, true, Judge::Rule)
    }

    /// Accepts a proposed run if it is proved equal.
    pub fn replace(&mut self, rule: &str, at: InsnId, after: Vec<Node>, context: bool) -> bool {
        self.replace_by(rule, at, after, context, Judge::Solver)
    }

    fn replace_by(&mut self, rule: &str, at: InsnId, after: Vec<Node>, context: bool, judge: Judge) -> bool {
        if after.iter().any(|node| version_of(&node.insn) > self.isa && !self.nodes.contains(node)) {
            return false;
        }
        // Short windows first, then those that reach across branches and calls.
        let straight = self.nodes.iter().rev().skip(1);
        let has = |insn: fn(&Insn) -> bool| straight.clone().any(|node| insn(&node.insn));
        let branches = has(|insn| matches!(insn, Insn::Branch { .. }));
        let calls = has(|insn| matches!(insn, Insn::Call(_)));
        // A use of a proved rule is one window.
        let apart = branches && judge != Judge::Rule;
        let cuts: [(bool, fn(&Node) -> bool); 3] = [(apart, is_end), (calls, is_barrier), (true, is_cut)];
        let mut cuts = cuts.into_iter().filter(|(wanted, _)| *wanted).map(|(_, cut)| cut);
        let Some(steps) = cuts.find_map(|cut| self.proved(&after, context, judge, cut)) else { return false };
        let demand = self.afterwards().each(&after);
        for (piece, proof) in steps {
            self.forget(&after, &demand, &piece);
            let before = self.nodes[piece.before.clone()].to_vec();
            self.steps.push(Step { rule: rule.to_owned(), at, before, after: after[piece.after].to_vec(), proof });
        }
        self.nodes = after;
        true
    }

    /// The pieces of a change, each proved. The run may be the body of a loop, so registers that the new run reads at
    /// its start also count as read at its end.
    fn proved(
        &mut self,
        after: &[Node],
        context: bool,
        judge: Judge,
        cut: fn(&Node) -> bool,
    ) -> Option<Vec<(Piece, Proof)>> {
        loop {
            let steps = self.pieces_proved(after, context, judge, cut)?;
            let more = self.newly_read(after).difference(self.stale.pinned);
            if more == RegSet::EMPTY {
                return Some(steps);
            }
            self.stale.pinned = self.stale.pinned.union(more);
        }
    }

    /// The pieces of a change between cuts, each proved: by itself, in one window with dependent pieces, or with the
    /// code before it.
    fn pieces_proved(
        &mut self,
        after: &[Node],
        context: bool,
        judge: Judge,
        cut: fn(&Node) -> bool,
    ) -> Option<Vec<(Piece, Proof)>> {
        let pieces = pieces(&self.nodes, after, cut)?;
        let demand = self.afterwards().each(after);
        let mut steps = Vec::new();
        for piece in &pieces {
            let fine = match judge {
                _ if judge == Judge::Rule => vec![piece.clone()],
                _ => split(&self.nodes, after, piece),
            };
            let proved = fine.iter().map(|piece| Some((piece.clone(), self.prove(after, &demand, piece, judge)?)));
            let proved: Vec<(Piece, Proof)> = match proved.collect::<Option<_>>() {
                Some(proved) => proved,
                None => {
                    let whole = (fine.len() > 1).then(|| piece.clone());
                    let larger = [whole, context.then(|| self.with_context(piece, cut))];
                    let found = larger.into_iter().flatten().find_map(|piece| {
                        let proof = self.prove(after, &demand, &piece, judge)?;
                        Some((piece, proof))
                    });
                    vec![found?]
                }
            };
            steps.extend(proved);
        }
        Some(steps)
    }

    /// The piece with the instructions before it, back to a cut. They are equal in both runs.
    fn with_context(&self, piece: &Piece, cut: fn(&Node) -> bool) -> Piece {
        let earlier = self.nodes[..piece.before.start].iter().rev().take(CONTEXT);
        let more = earlier.take_while(|node| !cut(node)).count();
        Piece { before: piece.before.start - more..piece.before.end, after: piece.after.start - more..piece.after.end }
    }

    /// Proves one piece equal, given what the new program reads after it.
    fn prove(&mut self, after: &[Node], demand: &[Demand], piece: &Piece, judge: Judge) -> Option<Proof> {
        let end = match piece.after.end {
            0 => self.afterwards().before(after),
            end => demand[end - 1],
        };
        let (mut old, mut new) = (self.nodes[piece.before.clone()].to_vec(), after[piece.after.clone()].to_vec());
        let bits = |demand: &Demand| std::array::from_fn(|at| Reg::new(at as u8).map_or(0, |reg| demand.of(reg) as u8));
        let exit = |(at, node): (usize, &Node)| {
            let stack_live = self.stack_after(piece.before.start + at + 1);
            Some(Exit { target: node.target()?, bits: bits(&self.afterwards().at_exit(node)?), stack_live })
        };
        let exits: Vec<Exit> = old.iter().enumerate().filter_map(exit).collect();
        let key = question(&old, &new, &end, &exits);
        if judge != Judge::Rule && (self.refuted.contains(&key) || self.newly_refuted.contains(&key)) {
            self.limits.answers.iter().for_each(|answers| answers.remembered());
            return None;
        }
        let written: RegSet = old.iter().chain(&new).filter_map(|node| node.insn.written()).collect();
        for reg in written.iter() {
            if let Some(mask) = mask_to(reg, end.of(reg)) {
                old.push(mask.clone());
                new.push(mask);
            }
        }
        let precondition = self.precondition(piece.before.start);
        let stack_live = self.stack_after(piece.before.end);
        let window = Window {
            before: &old,
            after: &new,
            facts: Some(&precondition),
            live_after: end.live(),
            stack_live_after: stack_live,
            exits: &exits,
            object: self.object,
        };
        if judge == Judge::Rule {
            let record = self.limits.keep_query.then(|| Box::new(WindowRecord::of(&window)));
            return Some(Proof { method: Method::Rule, record, micros: 0 });
        }
        self.asked += 1;
        let solver_steps = if judge == Judge::Solver { self.limits.solver_steps } else { 0 };
        match kiln_equiv::check(&window, &Limits { solver_steps, ..self.limits.clone() }) {
            Verdict::Equal(proof) => Some(proof),
            // The solver may still prove another one.
            Verdict::Unknown(_) if judge == Judge::NormalForm => None,
            Verdict::Different(_) | Verdict::Unknown(_) => {
                self.newly_refuted.insert(key);
                None
            }
        }
    }

    /// What is read after the run.
    pub fn afterwards(&self) -> Afterwards<'a> {
        Afterwards { end: self.end, exits: self.exits, pinned: self.stale.pinned, calls: self.calls }
    }

    /// What is known before the instruction at a position, as far as it still holds.
    pub fn precondition(&self, at: usize) -> InsnFacts {
        let demand = self.afterwards().before(&self.nodes[at..]);
        let known = self.known(at);
        let context = self.context.filter(|_| known.is_none());
        let context = context.map(|(value, begin)| (value, self.context_holders(at, begin)));
        let registers = std::array::from_fn(|index| {
            let reg = Reg::new(index as u8).expect("there are eleven");
            let value = known.map_or(Value::Unknown, |known| known.registers[index].clone());
            if let Some((context, _)) = context.filter(|(_, holders)| holders.contains(reg)) {
                return context.clone();
            }
            match demand.of(reg) {
                _ if reg == Reg::R10 => value,
                64 => value,
                // An unchanged register may be read more.
                _ if known.is_some() && !self.stale.registers.contains(reg) => value,
                0 => Value::Uninit,
                bits => low_part(&value, bits),
            }
        });
        let stack = known.filter(|_| !self.stale.stack).map(|known| known.stack.clone()).unwrap_or_default();
        let mut facts = InsnFacts {
            registers,
            stack,
            packet_bytes: known.map_or(0, |known| known.packet_bytes),
            live_after: RegSet::ALL,
            stack_live_after: StackSet::ALL,
        };
        possible::sharpen(&mut facts, &self.possible_at(at), &demand);
        facts
    }

    /// Which bits of registers may be one before the instruction at a position.
    pub fn possible_at(&self, at: usize) -> Possible {
        let (mut bits, numbers) = self.possible;
        self.nodes[..at].iter().for_each(|node| possible::step(&mut bits, node, numbers));
        bits
    }

    /// Facts before the instruction at a position, where they are not stale.
    pub fn known(&self, at: usize) -> Option<&'a InsnFacts> {
        let id = self.nodes.get(at)?.id;
        self.facts?.at(id).filter(|_| !self.stale.insns.contains(&id))
    }

    /// The registers that hold the context before the instruction at a position, if these hold it where the run begins.
    /// They are known also where other facts are stale: accesses to the context are rewritten one by one, as the proof of
    /// the whole function knows.
    fn context_holders(&self, at: usize, begin: RegSet) -> RegSet {
        self.nodes[..at].iter().fold(begin, |mut holds, node| {
            if matches!(node.insn, Insn::Call(_) | Insn::LoadPacket { .. }) {
                holds = holds.difference(RegSet::CALLER_SAVED);
            }
            match node.insn {
                Insn::Alu { op: AluOp::Mov, width: Width::W64, dst, src: Source::Reg(src) } if holds.contains(src) => {
                    holds.insert(dst);
                }
                _ => node.insn.written().iter().for_each(|dst| holds.remove(*dst)),
            }
            holds
        })
    }

    /// What a register is known to hold before the instruction at a position.
    pub fn value(&self, at: usize, reg: Reg) -> Option<&'a Value> {
        let usable = self.stale.registers.contains(reg);
        self.known(at)
            .filter(|_| !usable || self.reads_before_write(at, reg))
            .map(|known| &known.registers[reg.index()])
    }

    fn reads_before_write(&self, at: usize, reg: Reg) -> bool {
        self.afterwards().before(&self.nodes[at..]).of(reg) == 64
    }

    /// A register's constant before the instruction at a position.
    pub fn constant(&self, at: usize, reg: Reg) -> Option<u64> {
        match self.value(at, reg)? {
            Value::Scalar(scalar) => scalar.as_constant(),
            _ => None,
        }
    }

    /// Stack bytes that may be read after the instructions before a position.
    pub(crate) fn stack_after(&self, end: usize) -> StackSet {
        let last = end.checked_sub(1).map(|last| self.nodes[last].id);
        let known = last.filter(|id| !self.stale.after.contains(id)).and_then(|id| self.facts?.at(id));
        known.map_or(StackSet::ALL, |known| known.stack_live_after)
    }

    /// Registers of which a new run reads more bits at its start than this run.
    fn newly_read(&self, after: &[Node]) -> RegSet {
        let [old, new] = [self.nodes.as_slice(), after].map(|nodes| self.afterwards().before(nodes));
        Reg::all().filter(|reg| new.of(*reg) > old.of(*reg)).collect()
    }

    /// Records which facts a proved piece makes stale.
    fn forget(&mut self, after: &[Node], demand: &[Demand], piece: &Piece) {
        let old = &self.nodes[piece.before.clone()];
        let new = &after[piece.after.clone()];
        let end = piece.after.end.checked_sub(1).map_or(Demand::NONE, |last| demand[last]);
        let exits: Vec<Demand> = old.iter().filter_map(|node| self.afterwards().at_exit(node)).collect();
        self.stale.rewritten(old, new, |reg| exits.iter().chain([&end]).any(|demand| demand.of(reg) < 64));
    }
}

/// Facts of what the current program reads. Rewrites may have changed everything else.
pub(crate) fn demanded_facts(known: Option<&InsnFacts>, demand: &Demand) -> InsnFacts {
    let registers = std::array::from_fn(|index| {
        let reg = Reg::new(index as u8).expect("there are eleven");
        let value = known.map_or(Value::Unknown, |known| known.registers[index].clone());
        match demand.of(reg) {
            _ if reg == Reg::R10 => value,
            64 => value,
            0 => Value::Uninit,
            bits => low_part(&value, bits),
        }
    });
    let (live_after, stack_live_after) = (RegSet::ALL, StackSet::ALL);
    InsnFacts { registers, stack: Default::default(), packet_bytes: 0, live_after, stack_live_after }
}

/// What is known of a register of which only some low bits are certain.
fn low_part(value: &Value, bits: u32) -> Value {
    let Value::Scalar(scalar) = value else { return Value::Unknown };
    let mask = !0 << bits.min(63);
    let tnum = Tnum { value: scalar.tnum.value & !mask, mask: scalar.tnum.mask | mask };
    Value::Scalar(Scalar { tnum, ..Scalar::UNKNOWN })
}

/// Instructions that, appended to both windows, make the bits above the demanded ones equal.
pub(crate) fn mask_to(reg: Reg, bits: u32) -> Option<Node> {
    let insn = match bits {
        1..=31 => {
            Insn::Alu { op: AluOp::And, width: Width::W32, dst: reg, src: Source::Imm(((1u32 << bits) - 1) as i32) }
        }
        32 => Insn::Alu { op: AluOp::Mov, width: Width::W32, dst: reg, src: Source::Reg(reg) },
        _ => return None,
    };
    Some(Node::new(InsnId(u32::MAX), insn, Reference::None))
}

fn question(old: &[Node], new: &[Node], end: &Demand, exits: &[Exit]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    for node in old.iter().chain(new) {
        (node.id, node.insn, node.reference).hash(&mut hasher);
    }
    (old.len(), Reg::all().map(|reg| end.of(reg)).collect::<Vec<_>>()).hash(&mut hasher);
    exits.iter().for_each(|exit| exit.bits.hash(&mut hasher));
    hasher.finish()
}
