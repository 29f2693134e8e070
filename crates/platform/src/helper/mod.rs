//! Every helper of Linux 6.18, by prototype.
//!
//! A helper is one row of a table, grouped by theme:
//!
//! ```text
//!   helper(1, "map_lookup_elem", 3, 19)           number, name, first kernel
//!       .args(&[ConstMapPtr, MapKey])             what r1.. must be
//!       .returns(MapValueOrNull)                  what r0 is afterwards
//!       .packet_memory()                          flags
//!       .effect(Effect::ReadsMemory)              what a call can change besides r0
//!       .cost(Cost::Constant)                     what bounds the time that a call takes
//!       .stable(InLastingElements)                what else those may rely on who move, join or drop calls
//!       .allowed(ALL),                            who may call it
//! ```
//!
//! Where a row is silent, the worst is assumed: the call may read and change anything, its result is never the same
//! twice, and it may take any time.
//!
//! Where the kernel has several prototypes for one number (a socket cookie asks for the context in one program type
//! and for a socket in another), [`Helper::prototype_for`] chooses.
//!
//! ```
//! use kiln_platform::{Helper, ProgramType};
//! let redirect_map = Helper::by_name("redirect_map").unwrap();
//! assert_eq!(redirect_map.id, 51);
//! assert!(redirect_map.allowed_in(ProgramType::Xdp));
//! assert!(!redirect_map.allowed_in(ProgramType::SchedCls));
//! ```
//!
//! To add a helper, write its row in the file of its theme, and name it in `map_type.rs` if it accepts only certain map
//! types. `tests/prototypes.rs` then asks a kernel that has it whether the row is right.

mod cgroup;
mod dynptr;
pub mod id;
mod kernel_data;
mod maps;
mod packet;
mod properties;
mod prototype;
mod row;
mod socket;
mod tracing;
mod tunnel;
mod xdp;

pub use properties::{Capability, Cost, Effect, FilledBuffer, Fills, Follows, Helper, Stable};
pub use prototype::{ArgKind, DynptrUse, Memory, Prototype, ReturnKind, Variant};

impl Helper {
    /// The helper with this number.
    pub fn by_id(id: u32) -> Option<&'static Helper> {
        BY_ID.get(usize::try_from(id).ok()?).copied().flatten()
    }

    /// The helper with this name, with or without `bpf_`.
    pub fn by_name(name: &str) -> Option<&'static Helper> {
        let bare = name.strip_prefix("bpf_").unwrap_or(name);
        Helper::all().find(|helper| helper.name == bare)
    }

    /// Every helper, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = &'static Helper> {
        BY_ID.iter().copied().flatten()
    }
}

/// The first number of helpers that are not the kernel's. The kernel's end far below it.
pub const FIRST_OWN_HELPER: u32 = 1 << 16;

impl Helper {
    /// A helper that an embedder adds: its number, from [`FIRST_OWN_HELPER`] on, its name, and what its arguments must be.
    /// It returns an integer, and every program type may call it. It may write memory arguments of its prototype that are
    /// for writing, and nothing else of the program's.
    ///
    /// ```
    /// use kiln_platform::{ArgKind, Helper};
    /// static ADD: Helper = Helper::own(65_536, "add", &[ArgKind::Anything, ArgKind::Anything]);
    /// ```
    ///
    /// # Panics
    /// If the number is the kernel's or there are more than five arguments: while compiling, for a `static`.
    pub const fn own(id: u32, name: &'static str, args: &'static [ArgKind]) -> Helper {
        assert!(id >= FIRST_OWN_HELPER, "numbers below 65536 are the kernel's");
        assert!(args.len() <= 5, "a helper has five arguments at most");
        row::helper(id, name, 3, 18).args(args).allowed(row::ALL)
    }
}

/// One more than the highest helper number. The tables have a row for each number from 1.
pub const HELPER_COUNT: usize = row_count() + 1;

const TABLES: [&[Helper]; 9] = [
    maps::HELPERS,
    kernel_data::HELPERS,
    tracing::HELPERS,
    packet::HELPERS,
    tunnel::HELPERS,
    xdp::HELPERS,
    socket::HELPERS,
    cgroup::HELPERS,
    dynptr::HELPERS,
];

const fn row_count() -> usize {
    let (mut rows, mut table) = (0, 0);
    while table < TABLES.len() {
        rows += TABLES[table].len();
        table += 1;
    }
    rows
}

static BY_ID: [Option<&'static Helper>; HELPER_COUNT] = index_by_id();

/// Two rows with one number, or a number out of bounds, fail to compile.
const fn index_by_id() -> [Option<&'static Helper>; HELPER_COUNT] {
    let mut index: [Option<&'static Helper>; HELPER_COUNT] = [None; HELPER_COUNT];
    let mut table = 0;
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            let helper = &TABLES[table][row];
            assert!(index[helper.id as usize].is_none(), "two helpers have the same number");
            index[helper.id as usize] = Some(helper);
            row += 1;
        }
        table += 1;
    }
    index
}
