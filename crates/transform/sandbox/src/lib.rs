//! Heaps and unbounded loops for programs that the kernel's verifier would refuse (KFlex's instrumentation, for a stock kernel).
//!
//! The author writes plain C: pointers into a heap, `while` loops. clang compiles it, and this transform makes it loadable:
//!
//! ```text
//!   r3 = *(u64 *)(r2 + 0)      head, a number for the verifier      r3 = *(u64 *)(r2 + 0)
//! again:                                                          again:
//!                                                                   may_goto pad       cancellation point: bounds the loop
//!                                                                   tick               ... by this invocation's deadline
//!   if r3 == 0 goto out                                             if r3 == 0 goto out
//!   r0 = *(u32 *)(r3 + 0)                                           r0 = addr_space_cast(r3, 0, 1)   guard
//!                                                                   r0 = *(u32 *)(r0 + 0)
//!   if w0 == w4 goto found                                          if w0 == w4 goto found
//!   r3 = *(u64 *)(r3 + 8)                                           r3 = addr_space_cast(r3, 0, 1)   guard
//!                                                                   r3 = *(u64 *)(r3 + 8)
//!   goto again                                                      goto again
//!                                                                 pad:                 landing pad
//!                                                                   release what is held here
//!                                                                   r0 = 2             the hook's default: XDP_PASS
//!                                                                   exit
//! ```
//!
//! The heap is a BPF arena. Registers and memory keep the addresses that user space sees, so that pointers can be
//! compared, stored and shared; a guard turns one into the kernel's address right before an access. The verifier's
//! Facts tell which accesses go to the heap, and which guards and cancellation points are unnecessary: it explores the
//! program with [`Options::heap`] (a number used as an address is a heap address).
//!
//! Reading order: [`loops`], `guard` (which accesses, which guards), `cancel` (deadline, landing pads), `frame` (stack slots and
//! scratch registers), `rebuild`.
//!
//! [`Options::heap`]: kiln_verifier::Options::heap
#![forbid(unsafe_code)]

mod cancel;
mod error;
mod evidence;
mod frame;
mod guard;
pub mod loops;
mod options;
mod probe;
mod rebuild;

use std::collections::BTreeSet;

use kiln_platform::MapType;
use kiln_program::{FunctionId, MapId, Object};

pub use cancel::counted;
pub use error::Error;
pub use evidence::{Evidence, Point};
pub use kiln_heap::supply;
pub use options::{Options, Target};
pub use probe::Probe;

/// A sandboxed object, and the evidence for it.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// The new object.
    pub object: Object,
    /// What was done, function by function.
    pub evidence: Vec<Evidence>,
}

/// Pages of the largest heap: 4 GiB.
const MOST_PAGES: u32 = 1 << 20;

/// The object's heap.
///
/// # Errors
/// [`Error::Unsupported`] for several arenas: the kernel allows a program one; and for one without pages, or with more than
/// 4 GiB of them.
pub fn heap(object: &Object) -> Result<Option<MapId>, Error> {
    let out_of_range =
        object.maps.iter().find(|map| map.map_type == MapType::Arena && !(1..=MOST_PAGES).contains(&map.max_entries));
    if let Some(map) = out_of_range {
        return Err(Error::Unsupported {
            function: object.name.clone(),
            insn: None,
            what: format!(
                "heap {} has {} pages of 4096 bytes; a heap has 1 to {MOST_PAGES} (4 GiB)",
                map.name, map.max_entries
            ),
        });
    }
    let mut arenas = object.maps.iter().enumerate().filter(|(_, map)| map.map_type == MapType::Arena);
    let first = arenas.next();
    match arenas.next() {
        Some((_, second)) => Err(Error::Unsupported {
            function: object.name.clone(),
            insn: None,
            what: format!("map {} is a second heap; the kernel allows a program one", second.name),
        }),
        None => Ok(first.map(|(at, _)| MapId(at as u32))),
    }
}

/// Sandboxes every program of an object: explores it, then rewrites it with the result.
///
/// # Errors
/// See [`Error`].
pub fn sandbox(object: &Object, options: &Options) -> Result<Rewrite, Error> {
    probe::until_it_verifies(object, options, |probe| apply(object, probe, options))
}

/// Sandboxes an object for a verifier that can be asked whether a result is too large for it, such as the running kernel's. If it
/// is, the numbers that loops change are hidden from it in every iteration ([`Options::hide`]): a comparison tells the verifier
/// that a number is exactly 156, say, and then it explores 155 more iterations one by one, on each path through the loop.
///
/// # Errors
/// See [`Error`]; [`Error::Unsupported`] if the result is still too large.
pub fn sandbox_for(
    object: &Object,
    options: &Options,
    mut is_too_large: impl FnMut(&Object) -> bool,
) -> Result<Rewrite, Error> {
    let rewrite = sandbox(object, options)?;
    if !is_too_large(&rewrite.object) {
        return Ok(rewrite);
    }
    let mut why = String::new();
    // Then also loops have cancellation points that ours follows to their end.
    for elide in [options.elide, false] {
        match sandbox(object, &Options { hide: true, elide, ..options.clone() }) {
            Ok(rewrite) if !is_too_large(&rewrite.object) => return Ok(rewrite),
            Ok(_) => "also with the numbers of its loops hidden".clone_into(&mut why),
            Err(error) => why = format!("its loops need their numbers ({error})"),
        }
    }
    Err(Error::Unsupported {
        function: object.name.clone(),
        insn: None,
        what: format!("it is too complex for the kernel's verifier; {why}: split it"),
    })
}

/// Rewrites an object with the result of exploring it.
///
/// # Errors
/// [`Error::Unsupported`].
pub fn apply(object: &Object, probe: &Probe, options: &Options) -> Result<Rewrite, Error> {
    let heap = heap(object)?;
    let mut new = object.clone();
    let cancellation = cancel::Plan::new(object, probe);
    let mut points_before = 0;
    let mut evidence = Vec::new();
    let reached: BTreeSet<FunctionId> =
        object.programs.iter().flat_map(|program| object.reachable_functions(program.entry)).collect();
    for id in reached {
        let mut edit = rebuild::Edit::new(object, id, &probe.facts, &mut new.next_insn);
        let none = BTreeSet::new();
        let guards = guard::insert(&mut edit, probe.points.get(&id).unwrap_or(&none), options)?;
        let points = cancel::insert(&mut edit, &cancellation, probe, options, points_before)?;
        points_before += points.len();
        if guards.guards > 0 && heap.is_none() {
            return Err(
                edit.unsupported(None, "heap accesses in an object without a heap: declare one with kiln_heap()")
            );
        }
        if let Some(heap) = heap
            && needs_reference(object, id, heap)
        {
            edit.refer_to(heap);
        }
        let bounded = probe.bounded.get(&id).map_or(0, BTreeSet::len);
        let nodes = edit.finish()?;
        let function = &mut new.functions[id.index()];
        let before = function.slots();
        function.nodes = nodes;
        evidence.push(Evidence {
            function: function.name.clone(),
            accesses: guards.accesses,
            guards: guards.guards,
            new_pointers: guards.new_pointers,
            elided_guards: guards.accesses - guards.guards,
            points,
            bounded_loops: bounded,
            slots: [before, function.slots()],
        });
    }
    Ok(Rewrite { object: new, evidence })
}

/// Whether the function is the entry of a program that does not mention its heap. The kernel requires that it does, to
/// know the arena.
fn needs_reference(object: &Object, id: FunctionId, heap: MapId) -> bool {
    use kiln_program::Reference;
    let mentions = |entry: FunctionId| {
        let functions = object.reachable_functions(entry);
        let mut nodes = functions.iter().flat_map(|id| &object.function(*id).nodes);
        nodes.any(|node| match node.reference {
            Reference::Map(map) | Reference::MapValue { map, .. } => map == heap,
            _ => false,
        })
    };
    object.programs.iter().any(|program| program.entry == id) && !mentions(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_out_of_range_are_refused() {
        for (pages, said) in [(0, Some("has 0 pages")), (1, None), (1 << 20, None), ((1 << 20) + 1, Some("4 GiB"))] {
            let text = format!("; map heap arena entries {pages} flags 1024\n; program xdp\n r0 = 2\n exit\n");
            let object = kiln_program::text::parse(&text).expect("a program");
            let refused = sandbox(&object, &Options::default()).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), said.is_some(), "{pages}: {refused:?}");
            assert!(said.is_none_or(|said| refused.is_some_and(|refused| refused.contains(said))), "{pages}");
        }
    }
}
