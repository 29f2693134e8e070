//! Laws: what no window of a few instructions can see, because its reason lies in the graph, in liveness or in what the
//! verifier knows of all runs.
//!
//! A new law is one file and one row of [`LAWS`]. The file has a step: a function from a [`Context`] to the [`Change`]s
//! that it made. The row gives evidence its name, [`crate::passes`] its place in a round, and `docs/laws.md` its line
//! (`BLESS=1 cargo test -p kiln-superopt --test laws` writes it).
//!
//! A law's own conditions only have to be good enough to propose: that the function still does what it did is proved
//! afterwards, by [`kiln_equiv::simulation`]. [`trial`] tries changes that only pay together with what they make
//! possible.

pub mod atomics;
pub mod available_values;
pub mod context;
pub mod control_flow;
pub mod dead_code;
pub mod dead_store_before_helper;
pub mod equal_blocks;
pub mod first_element;
pub mod hoist;
pub mod inline;
pub mod jset;
pub mod jump_threading;
pub mod kept_addresses;
pub mod merged_checks;
pub mod narrow_loads;
pub mod null_answers;
pub mod packet_loads;
pub mod register_coalescing;
pub mod sink_constants;
pub mod skipped_operands;
pub mod stack_stores;
pub mod trial;

pub use context::{Change, Context, Law, LawRow};
use context::{Stage, Step, once, repeat};

/// All laws, in the order in which their steps are tried within a [`Stage`].
pub static LAWS: &[LawRow] = &[
    LawRow {
        name: "threaded-jump",
        statement: "A branch to an unconditional jump may go where the jump goes.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::thread_jumps(on.function))],
    },
    LawRow {
        name: "unreachable",
        statement: "No path reaches the instruction, so it may go.",
        needs_facts: false,
        steps: &[
            once(Stage::BeforeWindows, control_flow::remove_unreachable),
            once(Stage::Graph, |on| control_flow::remove_unreachable_blocks(on.function)),
        ],
    },
    LawRow {
        name: "jump-to-next",
        statement: "A branch to the instruction that follows it anyway does nothing; nor does an exit before an exit.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::remove_jumps_to_next(on.function))],
    },
    LawRow {
        name: "inverted-branch",
        statement: "A branch over an unconditional jump may be the opposite branch to where the jump goes.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::invert_branches(on.function))],
    },
    LawRow {
        name: "layout",
        statement: "A block that is only jumped to may stand where a jump to it stood.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::lay_out(on.function))],
    },
    LawRow {
        name: "jump-to-exit",
        statement: "A jump to an exit may be an exit.",
        needs_facts: false,
        steps: &[once(Stage::Graph, |on| control_flow::exit_early(on.function))],
    },
    LawRow {
        name: "unread-answer",
        statement: "A call of a helper that does nothing but answer may go, if nobody reads the answer.",
        needs_facts: true,
        steps: &[repeat(Stage::BeforeWindows, dead_code::remove_unread_calls)],
    },
    LawRow {
        name: "inlined-call",
        statement: "A static function that is called in one place may stand there, its stack bytes below its caller's.",
        needs_facts: true,
        steps: &[once(Stage::BeforeWindows, inline::inline_calls)],
    },
    LawRow {
        name: "constant-branch",
        statement: "One side of a branch is reached by no path, or constants decide it, so the branch always goes the other way.",
        needs_facts: false,
        steps: &[repeat(Stage::BeforeWindows, jump_threading::decide_branches)],
    },
    LawRow {
        name: "threaded-branch",
        statement: "A branch may go past branches that are decided on its way, if nothing computed on the way is needed there.",
        needs_facts: false,
        steps: &[repeat(Stage::BeforeWindows, jump_threading::thread_branches)],
    },
    LawRow {
        name: "narrow-load",
        statement: "A load from a context that is plain memory may load only the half that is wanted.",
        needs_facts: false,
        steps: &[repeat(Stage::BeforeWindows, narrow_loads::narrow_loads)],
    },
    LawRow {
        name: "cleared-half",
        statement: "The upper half of a register that is zero on every way here need not be cleared.",
        needs_facts: false,
        steps: &[repeat(Stage::BeforeWindows, narrow_loads::remove_cleared_halves)],
    },
    LawRow {
        name: "found-element",
        statement: "The first element of an array is always found, so what is done where it is not may be anything that loads.",
        needs_facts: true,
        steps: &[repeat(Stage::BeforeWindows, first_element::retarget_null_check)],
    },
    LawRow {
        name: "available-value",
        statement: "A register that holds a value on every way here need not be given it again, and may be copied instead of making it.",
        needs_facts: false,
        steps: &[
            repeat(Stage::Values, available_values::use_available_values),
            repeat(Stage::Values, available_values::read_copied_registers),
        ],
    },
    LawRow {
        name: "shared-register",
        statement: "A value may be in another register if nothing else is needed there meanwhile, so that a copy, or what makes the same value again, may go.",
        needs_facts: false,
        steps: &[
            repeat(Stage::Values, register_coalescing::share_registers),
            repeat(Stage::Values, register_coalescing::spare_registers),
        ],
    },
    LawRow {
        name: "packet-offset",
        statement: "A constant added to the offset of a classic packet load may be part of the load.",
        needs_facts: false,
        steps: &[repeat(Stage::Values, packet_loads::fold_offsets)],
    },
    LawRow {
        name: "skipped-operand",
        statement: "A way on which one operand makes a conjunction zero may lead behind it, if what it skips only computes the other.",
        needs_facts: false,
        steps: &[repeat(Stage::Stores, skipped_operands::skip_operands)],
    },
    LawRow {
        name: "repeated-store",
        statement: "A store of numbers that its stack bytes hold on every way there may go.",
        needs_facts: true,
        steps: &[repeat(Stage::Stores, stack_stores::remove_repeated_stores)],
    },
    LawRow {
        name: "covered-store",
        statement: "A store of a number with zeros above it may write these too, where zeros are or nothing reads; what is then overwritten unread may go.",
        needs_facts: true,
        steps: &[repeat(Stage::Stores, stack_stores::cover_stores)],
    },
    LawRow {
        name: "dead-store",
        statement: "A store to stack bytes that nothing reads afterwards may go.",
        needs_facts: false,
        steps: &[once(Stage::Stores, dead_code::remove_dead)],
    },
    LawRow {
        name: "dead-write",
        statement: "A write of a register that nothing reads afterwards may go, if the instruction does nothing else.",
        needs_facts: false,
        steps: &[],
    },
    LawRow {
        name: "shared-head",
        statement: "An instruction that both sides of a branch begin with may run before it, if the branch does not read its result.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, hoist::share_heads)],
    },
    LawRow {
        name: "shared-tail",
        statement: "Two runs of equal instructions that go on at the same place may be one run.",
        needs_facts: false,
        steps: &[
            once(Stage::Graph, |on| control_flow::share_exits(on.function)),
            once(Stage::Graph, |on| control_flow::share_tails(on.object, on.function)),
            repeat(Stage::Last, hoist::sink_tails),
        ],
    },
    LawRow {
        name: "alike-block",
        statement: "A branch may go to another block that does the same with the numbers that registers hold on that path.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, equal_blocks::branch_to_equal_block)],
    },
    LawRow {
        name: "hoisted-arm",
        statement: "One side of a branch that only sets registers may run before it, if the other side does not read them.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, hoist::hoist_arms)],
    },
    LawRow {
        name: "merged-checks",
        statement: "Of two checks of a packet's length that leave for the same place, the larger may stand for both.",
        needs_facts: true,
        steps: &[repeat(Stage::Last, merged_checks::merge_checks)],
    },
    LawRow {
        name: "turned-branch",
        statement: "A branch on a mask may mask by itself, with its sides in each other's place.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, jset::use_jset)],
    },
    LawRow {
        name: "late-constant",
        statement: "A register may be given a constant where ways that give it the same one meet, if nobody reads it on the way.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, sink_constants::sink_constants)],
    },
    LawRow {
        name: "null-answer",
        statement: "Where a branch finds R0 to be zero, a result may be made of that zero, by an operation that the other path shares.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, null_answers::reuse_null_answers)],
    },
    LawRow {
        name: "atomic-update",
        statement: "A load, an operation and a store of one place may be an atomic operation, if nothing reads what was loaded.",
        needs_facts: true,
        steps: &[repeat(Stage::Last, atomics::make_atomic)],
    },
    LawRow {
        name: "kept-address",
        statement: "Addresses that are made several times, or lie in one data section, may be made once, in a register that is free.",
        needs_facts: false,
        steps: &[repeat(Stage::Last, kept_addresses::keep_addresses)],
    },
    LawRow {
        name: "stepped-address",
        statement: "An address that a register's own is near to may be made by an addition.",
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
