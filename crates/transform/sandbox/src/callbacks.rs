//! Functions that a helper runs before it returns, such as `bpf_loop`.
//!
//! They run again and again without a loop in the program, up to 8,388,608 times. So each of them begins with a cancellation
//! point, unless it is short and seldom run. It gets the invocation's block (see [`crate::cancel`]) through the address that helpers
//! pass on, which is one of the caller's stack frame:
//!
//! ```text
//!   the author's:   bpf_loop(n, each, &data, 0)            each(index, data)
//!   with a block:   bpf_loop(n, each, &passed, 0)          each(index, passed):  block = passed[1]; data = passed[0]
//!                   passed = { &data, block }
//! ```

use std::collections::{BTreeMap, BTreeSet};

use kiln_isa::{AluOp, Insn, Reg, Source, Width};
use kiln_platform::{ArgKind, Helper, helper_id};
use kiln_program::{Cfg, Function, FunctionId, InsnId, Node, Object, Reference, liveness};
use kiln_verifier::{Facts, Value};

use crate::costs;
use crate::error::Error;
use crate::loops;

/// The helpers, and where the functions that they run get the address that is passed on.
const HELPERS: [(u32, Reg); 4] = [
    (helper_id::LOOP, Reg::R2),
    (helper_id::FOR_EACH_MAP_ELEM, Reg::R4),
    (helper_id::USER_RINGBUF_DRAIN, Reg::R2),
    (helper_id::FIND_VMA, Reg::R3),
];

/// How many nanoseconds all runs of a function for one call may take, so that it needs no cancellation point.
const SHORT_NS: u64 = 50_000;

/// A call of such a helper.
pub(crate) struct Site {
    helper: u32,
    /// The register of the address that it passes on.
    pub argument: Reg,
    /// The functions that it may run.
    pub functions: BTreeSet<FunctionId>,
}

/// The calls of such helpers in an object, and the functions that they run.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub sites: BTreeMap<InsnId, Site>,
    /// The register in which each function gets the address that is passed on.
    pub passed_in: BTreeMap<FunctionId, Reg>,
}

impl Callbacks {
    /// # Errors
    /// [`Error::Unsupported`] if it cannot be told which function a helper runs.
    pub fn of(object: &Object) -> Result<Callbacks, Error> {
        let mut all = Callbacks::default();
        for function in &object.functions {
            for node in &function.nodes {
                let own = node.helper().and_then(|id| HELPERS.into_iter().find(|(own, _)| *own == id));
                let Some((helper, passed_in)) = own else { continue };
                let unsupported = |what: &str| Error::Unsupported {
                    function: function.name.clone(),
                    insn: Some(node.id),
                    what: what.to_owned(),
                };
                let [callback, argument] =
                    arguments(helper).ok_or_else(|| unsupported("a helper without a function"))?;
                let functions = loaded(function, node.id, callback)
                    .ok_or_else(|| unsupported("it is not clear which function the helper runs"))?;
                for id in &functions {
                    if *all.passed_in.entry(*id).or_insert(passed_in) != passed_in {
                        return Err(unsupported("different helpers run one function"));
                    }
                }
                all.sites.insert(node.id, Site { helper, argument, functions });
            }
        }
        Ok(all)
    }

    /// Where a function begins that such a helper runs more than once.
    pub fn begins(&self, object: &Object, id: FunctionId) -> Option<InsnId> {
        let repeats = |site: &Site| site.helper != helper_id::FIND_VMA && site.functions.contains(&id);
        let first = object.function(id).nodes.first()?.id;
        self.sites.values().any(repeats).then_some(first)
    }

    /// Whether each call of a helper runs a function for a short time only: it has no loops and calls no other function.
    pub fn is_short(&self, object: &Object, id: FunctionId, facts: &Facts) -> bool {
        let function = object.function(id);
        let calls = |node: &Node| node.callee().is_some() || self.sites.contains_key(&node.id);
        if function.nodes.iter().any(calls) || !loops::headers(function).is_empty() {
            return false;
        }
        let own = self.sites.iter().filter(|(_, site)| site.functions.contains(&id));
        let turns = own.map(|(at, _)| self.turns(*at, facts)).max();
        let ns = function.nodes.iter().map(|node| costs::node_ns(object, node, facts)).fold(0, u64::saturating_add);
        turns.is_some_and(|turns| turns.saturating_mul(ns) <= SHORT_NS)
    }

    /// How often such a call runs a function at most.
    pub fn turns(&self, at: InsnId, facts: &Facts) -> u64 {
        let helper = self.sites.get(&at).map(|site| site.helper);
        match (helper, facts.at(at).map(|known| &known.registers[1])) {
            (Some(helper_id::LOOP), Some(Value::Scalar(turns))) => turns.umax,
            (Some(helper_id::FIND_VMA), _) => 1,
            _ => u64::MAX,
        }
    }

    /// The functions that a call has run.
    pub fn functions_of(&self, node: &Node) -> impl Iterator<Item = FunctionId> {
        self.sites.get(&node.id).into_iter().flat_map(|site| site.functions.iter().copied())
    }
}

/// The registers of the function and of the address that is passed on.
fn arguments(helper: u32) -> Option<[Reg; 2]> {
    let kinds = Helper::by_id(helper)?.prototype.args;
    let callback = kinds.iter().position(|kind| *kind == ArgKind::Callback)?;
    let mut registers = Reg::all().skip(1 + callback);
    Some([registers.next()?, registers.next()?])
}

/// The functions whose addresses a register may hold before an instruction; `None` if it may hold others.
fn loaded(function: &Function, at: InsnId, reg: Reg) -> Option<BTreeSet<FunctionId>> {
    let cfg = Cfg::new(function);
    let mut found = BTreeSet::new();
    let end = function.position(at)?;
    let mut waiting = vec![(cfg.block_of[end], end, reg)];
    let mut seen = BTreeSet::new();
    while let Some((block, end, reg)) = waiting.pop() {
        if !seen.insert((block, end, reg)) {
            continue;
        }
        let begin = cfg.blocks[block.index()].range.start;
        let before = function.nodes[begin..end].iter().enumerate().rev();
        match before.into_iter().find(|(_, node)| liveness::written(&node.insn).contains(reg)) {
            Some((_, Node { insn: Insn::LoadImm64 { .. }, reference: Reference::Function(id), .. })) => {
                found.insert(*id);
            }
            Some((
                at,
                Node { insn: Insn::Alu { op: AluOp::Mov, width: Width::W64, src: Source::Reg(from), .. }, .. },
            )) => {
                waiting.push((block, begin + at, *from));
            }
            Some(_) => return None,
            None if begin == 0 => return None,
            None => {
                let ways = &cfg.blocks[block.index()].predecessors;
                waiting.extend(ways.iter().map(|way| (*way, cfg.blocks[way.index()].range.end, reg)));
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callbacks(body: &str) -> Result<Callbacks, Error> {
        let each = "; function each\n r0 = 0\n exit\n; function other\n r0 = 0\n exit\n";
        let text = format!("; program xdp\n; function main\n{body} r0 = 2\n exit\n{each}");
        Callbacks::of(&kiln_program::text::parse(&text).expect("a program"))
    }

    #[test]
    fn a_function_is_found_behind_copies_and_branches() {
        let two = " r6 = fn[each]\n r1 = *(u32 *)(r1 + 0)\n if r1 == 0 goto call\n r6 = fn[other]\ncall:\n r2 = r6\n \
                   r1 = 9\n r3 = 0\n r4 = 0\n call loop\n";
        let all = callbacks(two).expect("both are known");
        assert!(all.passed_in.len() == 2 && all.passed_in.values().all(|reg| *reg == Reg::R2));
        let site = all.sites.values().next().expect("a call");
        assert!(site.functions.len() == 2 && site.argument == Reg::R3);
    }

    #[test]
    fn a_function_from_memory_is_refused() {
        let spilled =
            " r2 = fn[each]\n *(u64 *)(r10 - 8) = r2\n r2 = *(u64 *)(r10 - 8)\n r1 = 9\n r3 = 0\n r4 = 0\n call loop\n";
        assert!(callbacks(spilled).is_err_and(|error| error.to_string().contains("not clear which function")));
    }
}
