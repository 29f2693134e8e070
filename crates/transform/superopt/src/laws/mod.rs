//! Laws: what no window of a few instructions can see, because its reason lies in the graph, in liveness or in what the
//! verifier knows of all runs.
//!
//! A new law is one file and one row of [`LAWS`]. The file has a step: a function from a [`Context`] to the [`Change`]s
//! that it made. The row gives evidence its name, [`crate::passes`] its place in a round, and `docs/reference/laws.md` its line
//! (`BLESS=1 cargo test -p kiln-superopt --test laws` writes it).
//!
//! A law's own conditions only have to be good enough to propose: that the function still does what it did is proved
//! afterwards, by [`kiln_equiv::simulation`]. [`trial`] tries changes that only pay together with what they make
//! possible.

pub mod alike_tails;
pub mod atomics;
pub mod available_values;
pub mod context;
pub mod control_flow;
pub mod dead_code;
pub mod dead_store_before_helper;
pub mod equal_blocks;
pub mod exchanged_operands;
pub mod first_element;
pub mod hoist;
pub mod inline;
pub mod joined_comparisons;
pub mod jset;
pub mod jump_threading;
pub mod kept_addresses;
pub mod merged_checks;
pub mod narrow_loads;
pub mod neutral_constants;
pub mod null_answers;
pub mod packet_loads;
pub mod register_coalescing;
pub mod shared_tails;
pub mod sink_constants;
pub mod skipped_operands;
pub mod stack_stores;
pub mod store_loops;
pub mod trial;

pub use context::{Change, Context, Law, LawRow};
use context::{Stage, Step, once, repeat};

/// All laws, in the order in which their steps are tried within a [`Stage`].
pub static LAWS: &[LawRow] = &[
    LawRow {
        name: "threaded-jump",
        statement: "Jump threading: a branch to an unconditional jump goes to the jump's target.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::thread_jumps(on.function))],
    },
    LawRow {
        name: "unreachable",
        statement: "An instruction that no path reaches is removed.",
        needs_facts: false,
        steps: &[
            once(Stage::BeforeWindows, control_flow::remove_unreachable).using_facts(),
            once(Stage::Graph, |on| control_flow::remove_unreachable_blocks(on.function)),
        ],
    },
    LawRow {
        name: "jump-to-next",
        statement: "A branch to the next instruction is removed, and so is an exit before an exit.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::remove_jumps_to_next(on.function))],
    },
    LawRow {
        name: "inverted-branch",
        statement: "A branch over an unconditional jump becomes the opposite branch to the jump's target.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::invert_branches(on.function))],
    },
    LawRow {
        name: "layout",
        statement: "Block placement: a block that is entered only by jumps moves to the place of one of them.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::lay_out(on.function))],
    },
    LawRow {
        name: "jump-to-exit",
        statement: "A jump to an exit becomes an exit.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::exit_early(on.function))],
    },
    LawRow {
        name: "unread-answer",
        statement: "A call of a helper that only returns a value is removed if the value is dead.",
        needs_facts: true,
        steps: &[repeat(Stage::BeforeWindows, dead_code::remove_unread_calls)],
    },
    LawRow {
        name: "inlined-call",
        statement: "A static function that is called in one place is inlined, with its stack bytes below its caller's.",
        needs_facts: true,
        steps: &[once(Stage::BeforeWindows, inline::inline_calls)],
    },
    LawRow {
        name: "constant-branch",
        statement: "A branch that facts or constants decide becomes a jump, or is removed.",
        needs_facts: false,
        steps: &[repeat(Stage::BeforeWindows, jump_threading::decide_branches)],
    },
    LawRow {
        name: "threaded-branch",
        statement: "Jump threading: a branch skips branches that are decided on its path, if the skipped results are dead at the new target.",
        needs_facts: false,
        steps: &[repeat(Stage::BeforeWindows, jump_threading::thread_branches)],
    },
    LawRow {
        name: "narrow-load",
        statement: "A load from a context that is plain memory loads only the half that is read.",
        needs_facts: false,
        steps: &[repeat(Stage::BeforeWindows, narrow_loads::narrow_loads)],
    },
    LawRow {
        name: "cleared-half",
        statement: "Clearing the upper half of a register is removed if it is zero on every path.",
        needs_facts: false,
        steps: &[repeat(Stage::BeforeWindows, narrow_loads::remove_cleared_halves)],
    },
    LawRow {
        name: "found-element",
        statement: "A lookup of element 0 of an array never returns null, so its null check may lead to any code that loads.",
        needs_facts: true,
        steps: &[repeat(Stage::BeforeWindows, first_element::retarget_null_check)],
    },
    LawRow {
        name: "available-value",
        statement: "Common-subexpression elimination: a value that a register holds on every path is not computed again, but used or copied.",
        needs_facts: false,
        steps: &[
            repeat(Stage::Values, available_values::use_available_values),
            repeat(Stage::Values, available_values::read_copied_registers),
        ],
    },
    LawRow {
        name: "shared-register",
        statement: "Register coalescing: a value moves to a register that is free for its lifetime, so that a copy or a recomputation is removed.",
        needs_facts: false,
        steps: &[
            repeat(Stage::Values, register_coalescing::share_registers),
            repeat(Stage::Values, register_coalescing::spare_registers),
        ],
    },
    LawRow {
        name: "exchanged-operands",
        statement: "An operation on a copy exchanges its operands, if the other register is then free for the result.",
        needs_facts: false,
        steps: &[repeat(Stage::Values, exchanged_operands::exchange_operands)],
    },
    LawRow {
        name: "packet-offset",
        statement: "A constant added to the offset of a classic packet load becomes part of the load.",
        needs_facts: false,
        steps: &[repeat(Stage::Values, packet_loads::fold_offsets)],
    },
    LawRow {
        name: "skipped-operand",
        statement: "A path on which one operand makes a conjunction zero skips it, if the skipped code only computes the other operand.",
        needs_facts: false,
        steps: &[repeat(Stage::Stores, skipped_operands::skip_operands)],
    },
    LawRow {
        name: "repeated-store",
        statement: "A store of values that its stack bytes hold on every path is removed.",
        needs_facts: true,
        steps: &[repeat(Stage::Stores, stack_stores::remove_repeated_stores)],
    },
    LawRow {
        name: "covered-store",
        statement: "A store becomes wider if the bytes above are zero or dead; stores that it then overwrites unread are removed.",
        needs_facts: true,
        steps: &[repeat(Stage::Stores, stack_stores::cover_stores)],
    },
    LawRow {
        name: "dead-store",
        statement: "A store to dead stack bytes is removed.",
        needs_facts: false,
        steps: &[once(Stage::Stores, dead_code::remove_dead).using_facts()],
    },
    LawRow {
        name: "dead-write",
        statement: "An instruction that only writes a dead register is removed.",
        needs_facts: false,
        steps: &[],
    },
    LawRow {
        name: "shared-head",
        statement: "Code hoisting: an instruction with which both sides of a branch begin runs before the branch, if the branch does not read its result.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, hoist::share_heads)],
    },
    LawRow {
        name: "shared-tail",
        statement: "Tail merging: of two runs of equal instructions that go on at the same places, one is kept.",
        needs_facts: false,
        steps: &[
            once(Stage::Graph, |on| control_flow::share_exits(on.function)),
            once(Stage::Graph, shared_tails::share_tails),
            repeat(Stage::Last, hoist::sink_tails),
        ],
    },
    LawRow {
        name: "alike-tail",
        statement: "Of two runs that are equal except for their registers, and for a constant added at the end of one, one is kept.",
        needs_facts: false,
        steps: &[repeat(Stage::BeforeWindows, alike_tails::share_alike)],
    },
    LawRow {
        name: "alike-block",
        statement: "A branch goes to another block that does the same with the values on that path.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, equal_blocks::branch_to_equal_block)],
    },
    LawRow {
        name: "hoisted-arm",
        statement: "A side of a branch that only sets registers runs before the branch, if the other side does not read them.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, hoist::hoist_arms)],
    },
    LawRow {
        name: "neutral-constant",
        statement: "Operations with a constant that is zero on one side of a branch run on the other side only.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, neutral_constants::skip_neutral)],
    },
    LawRow {
        name: "merged-checks",
        statement: "Of two checks of a packet's length with the same target, only the larger stays.",
        needs_facts: true,
        steps: &[repeat(Stage::Last, merged_checks::merge_checks)],
    },
    LawRow {
        name: "turned-branch",
        statement: "A mask and a comparison with zero become BPF's `jset` branch, with the sides exchanged.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, jset::use_jset)],
    },
    LawRow {
        name: "late-constant",
        statement: "Constant sinking: a constant that all joining paths set is set after the join, if no path reads it before.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, sink_constants::sink_constants)],
    },
    LawRow {
        name: "null-answer",
        statement: "Where a branch has found R0 to be zero, a result is computed from that zero by an operation that the other path shares.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, null_answers::reuse_null_answers)],
    },
    LawRow {
        name: "atomic-update",
        statement: "A load, an operation and a store of one location become an atomic operation, if the loaded value is dead.",
        needs_facts: true,
        steps: &[repeat(Stage::Last, atomics::make_atomic)],
    },
    LawRow {
        name: "joined-comparison",
        statement: "Two comparisons of adjacent stack bytes with constants and one target become one comparison.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, joined_comparisons::join_comparisons)],
    },
    LawRow {
        name: "store-loop",
        statement: "For size, a row of stores that clear adjacent stack bytes becomes a loop.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, store_loops::loop_stores)],
    },
    LawRow {
        name: "kept-address",
        statement: "An address that is computed several times, or several addresses of one data section, are computed once in a free register.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, kept_addresses::keep_addresses)],
    },
    LawRow {
        name: "recomputed-address",
        statement: "Rematerialization: an address in the frame that only one copy reads is computed there.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, kept_addresses::recompute_addresses)],
    },
    LawRow {
        name: "stepped-address",
        statement: "An address near another one in a register is computed by an addition.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, kept_addresses::step_addresses)],
    },
];

/// The row of a law.
///
/// # Panics
/// If there is none: names come from the table.
pub(crate) fn law(name: &str) -> Law {
    Law::of(LAWS.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no law is called {name}")))
}

/// The steps of a stage with their laws, in the order of the table.
pub(crate) fn steps(stage: Stage) -> impl Iterator<Item = (&'static LawRow, &'static Step)> {
    LAWS.iter()
        .flat_map(|row| row.steps.iter().map(move |step| (row, step)))
        .filter(move |(_, step)| step.stage == stage)
}
