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
//! Reading order: [`loops`], `split` (accesses to the heap on some paths only), `callbacks`, `guard` (which accesses, which guards), `cancel` (deadline, landing pads), `frame` (stack slots and
//! scratch registers), `rebuild`.
//!
//! [`Options::heap`]: kiln_verifier::Options::heap
#![forbid(unsafe_code)]

mod callbacks;
mod cancel;
mod costs;
mod error;
mod evidence;
mod frame;
mod guard;
pub mod loops;
mod options;
mod probe;
mod rebuild;
mod slow;
mod split;
mod times;

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

/// Pages that all heaps of an object may have: 4 GiB on Linux, 1 TiB in the VM.
const fn most_pages(target: Target) -> u64 {
    match target {
        Target::Linux => 1 << 20,
        Target::Vm => 1 << 28,
    }
}

/// The object's heap: the first one if it has several, for the VM.
///
/// # Errors
/// [`Error::Unsupported`] for several arenas on Linux, where the kernel allows a program one; and for one without pages, or
/// more of them than the target allows.
pub fn heap(object: &Object, target: Target) -> Result<Option<MapId>, Error> {
    let unsupported = |what: String| Error::Unsupported { function: object.name.clone(), insn: None, what };
    let most = most_pages(target);
    let arenas = || object.maps.iter().enumerate().filter(|(_, map)| map.map_type == MapType::Arena);
    let mut pages = 0;
    for (_, map) in arenas() {
        pages += u64::from(map.max_entries);
        if map.max_entries == 0 || pages > most {
            let limit = match target {
                Target::Linux => "(4 GiB) on Linux; --target vm allows more",
                Target::Vm => "(1 TiB) together with the others",
            };
            let (name, own) = (&map.name, map.max_entries);
            return Err(unsupported(format!(
                "heap {name} has {own} pages of 4096 bytes; a heap has 1 to {most} {limit}"
            )));
        }
    }
    let mut found = arenas();
    let first = found.next();
    match found.next() {
        Some((_, second)) if target == Target::Linux => Err(unsupported(format!(
            "map {} is a second heap; the kernel allows a program one, --target vm several",
            second.name
        ))),
        _ => Ok(first.map(|(at, _)| MapId(at as u32))),
    }
}

/// Sandboxes every program of an object: explores it, then rewrites it with the result.
///
/// # Errors
/// See [`Error`].
pub fn sandbox(object: &Object, options: &Options) -> Result<Rewrite, Error> {
    heap(object, options.target)?;
    if let Some(function) = object.functions.iter().find(|function| function.jumps_indirectly()) {
        let what = "an indirect jump (gotox): compile with -mcpu=v3".to_owned();
        return Err(Error::Unsupported { function: function.name.clone(), insn: None, what });
    }
    let several_arenas = options.target == Target::Vm;
    let verifier = kiln_verifier::Options { several_arenas, ..options.verifier.clone() };
    let options = &Options { verifier, ..options.clone() };
    split::until_each_access_has_one_kind(object, |object| {
        probe::until_it_verifies(object, options, |probe| apply(object, probe, options))
    })
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
    let heap = heap(object, options.target)?;
    let mut new = object.clone();
    let cancellation = cancel::Plan::new(object, probe, options)?;
    if let Some(types) = cancellation.widened_types(object) {
        new.btf = Some(types);
    }
    let mut points_before = 0;
    let mut evidence = Vec::new();
    for id in slow::reachable(object) {
        let mut edit = rebuild::Edit::new(object, id, &probe.facts, &mut new.next_insn);
        let guards = guard::insert(&mut edit, &cancellation.places(probe, id), options)?;
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

    fn refused(text: &str, target: Target) -> Option<String> {
        let object = kiln_program::text::parse(text).expect("a program");
        sandbox(&object, &Options { target, ..Options::default() }).err().map(|error| error.to_string())
    }

    #[test]
    fn heaps_out_of_range_are_refused() {
        let (linux, vm) = (Target::Linux, Target::Vm);
        for (target, pages, said) in [
            (linux, 0, Some("has 0 pages")),
            (linux, 1, None),
            (linux, 1 << 20, None),
            (linux, (1 << 20) + 1, Some("4 GiB")),
            (vm, 0, Some("has 0 pages")),
            (vm, 1 << 21, None),
            (vm, (1 << 28) + 1, Some("1 TiB")),
        ] {
            let text = format!("; map heap arena entries {pages} flags 1024\n; program xdp\n r0 = 2\n exit\n");
            let refused = refused(&text, target);
            assert_eq!(refused.is_some(), said.is_some(), "{pages}: {refused:?}");
            assert!(said.is_none_or(|said| refused.is_some_and(|refused| refused.contains(said))), "{pages}");
        }
    }

    /// Kernels before 6.3 refuse to load what was never written on the stack, and also have no `may_goto`. The optimizer may remove
    /// a loop that no path reaches, with its `may_goto`, so the rest of the program must not keep it from them.
    #[test]
    fn a_loop_that_no_path_reaches_loads_nothing() {
        let text = "; program xdp\n r0 = 2\n r1 = 0\n if r1 == 0 goto out\nagain:\n r0 += 1\n if r0 != 7 goto again\nout:\n exit\n";
        let object = kiln_program::text::parse(text).expect("a program");
        let rewrite = sandbox(&object, &Options::default()).expect("sandboxes");
        let insns = || rewrite.object.functions.iter().flat_map(|function| &function.nodes).map(|node| node.insn);
        assert!(insns().any(|insn| matches!(insn, kiln_isa::Insn::MayGoto { .. })));
        assert!(!insns().any(|insn| matches!(insn, kiln_isa::Insn::Load { .. })), "{:?}", rewrite.object.functions);
    }

    #[test]
    fn several_heaps_are_for_the_vm() {
        let heap = |name: &str| format!("; map {name} arena entries 16 flags 1024\n");
        let text = heap("one") + &heap("two") + "; program xdp\n r1 = map[one]\n r2 = map[two]\n r0 = 2\n exit\n";
        assert!(refused(&text, Target::Linux).is_some_and(|why| why.contains("two is a second heap")));
        assert_eq!(refused(&text, Target::Vm), None);
    }
}
