//! Rewrite rules: windows whose registers and immediates stand for anything, proved once for all of them.
//!
//! ```text
//!   rule store-immediate
//!     w1 = $a
//!     *(u32 *)(r2 + @o) = w1
//!   =>
//!     *(u32 *)(r2 + @o) = $a
//!   dead r1
//!   distinct r1 r2
//! ```
//!
//! R0 to R9 in a rule are placeholders, R10 is itself. A placeholder that is only read may bind R10. `$a` is an
//! immediate (sign-extended to 64 bits; in `r1 = $a ll` all 64 bits), `@o` an offset, to which a constant from -128 to 127
//! may be added (`@o + 4`). In the new window an immediate may be computed: `$(a & b)`. Conditions restrict what binds:
//!
//! - `dead r1 ...`: registers that nothing reads afterwards. All others must be as the old window leaves them.
//! - `narrow r1 ...`: registers of which only the lower 32 bits are read afterwards.
//! - `distinct r1 r2 ...`: placeholders that bind different registers. All others may bind the same register:
//!   the proof goes through every way to identify them.
//! - `where CONDITION`: a comparison in the instruction set's words (`$a u< 32` is written `$a < 32`, signed ones are
//!   `s<`), over immediates and the values that registers hold before the window: `r2 < 256` must then follow from
//!   facts. `fits EXPRESSION` says that 32 bits, sign-extended, hold it. `where $b == EXPRESSION` over other immediates
//!   defines one by them.
//!
//! A rule may end with a branch out of the window, written `if r1 == $a goto out`: both windows then go to the same place.
//!
//! How it works: a [`Pattern`] is an instruction that says which of its fields are placeholders. Matching makes a
//! [`Binding`] of them, and [`Rule::instantiate`] fills it in. The proof gives the symbolic machine a variable for each
//! placeholder (`crate::window::state::Holes`).

mod definition;
mod expression;
mod pattern;
mod print;
mod proof;
pub mod text;

pub use crate::rule::definition::Rule;
pub use crate::rule::expression::{Condition, Expression};
pub use crate::rule::pattern::{Binding, HOLES, Immediate, Offset, Pattern, immediate_of, shape};
pub use crate::rule::proof::{RuleVerdict, prove_rule, rule_queries};
pub use crate::rule::text::RuleError;
