//! An [`Object`](crate::Object) as text, for reading, tests and version control.
//!
//! ```text
//! ; license GPL
//! ; map counters array key 4 value 8 entries 16
//! ; program xdp name count                      # the next function is its entry
//!   r1 = 0
//!   *(u32 *)(r10 - 4) = r1
//!   r1 = map[counters]
//!   r2 = r10
//!   r2 += -4
//!   call map_lookup_elem
//!   if r0 == 0 goto out
//!   r1 = *(u64 *)(r0 + 0)
//! out:
//!   r0 = 2
//!   exit
//! ```
//!
//! A line is a directive (it begins with `;`), a label (`name:`), or an instruction in LLVM's syntax
//! ([`kiln_isa::text`]). Names replace the numbers of encoded slots:
//!
//! | text | refers to |
//! |---|---|
//! | `goto out`, `if r1 > 5 goto out` | a label of the same function (a distance in slots, `goto +3`, works too) |
//! | `call map_lookup_elem`, `call 0x1` | a helper |
//! | `call add_one`, `r2 = fn[callback]` | a function |
//! | `call kfunc[bpf_rdonly_cast]`, `r1 = extern[jiffies]` | an extern |
//! | `r1 = map[counters]`, `r1 = map_value[.rodata] + 4` | a map, a byte of its first value |
//!
//! Names that are not words are quoted (`fn["a b"]`). If a name occurs twice, its index is printed instead (`fn[@3]`).
//! `#` and `//` begin comments. Directives, in any order unless said otherwise, with everything in brackets optional:
//!
//! | directive | meaning |
//! |---|---|
//! | `; object NAME`, `; license TEXT`, `; version N` | of the whole object; the license is `GPL` unless stated |
//! | `; map NAME TYPE [key N] [value N] [entries N] [flags N] [extra N] [pinned] [key_btf N] [value_btf N]` | a map |
//! | ... `[data HEX] [rodata HEX] [kconfig BYTES] [struct_ops HEX] [slot I=fn:NAME] [slot I=map:NAME]` | its contents |
//! | `; inner NAME TYPE ...` | the template of the maps that the map before it holds |
//! | `; extern NAME kfunc\|ksym\|typed_ksym\|kconfig [map NAME] [offset N] [weak] [btf N]` | an extern |
//! | `; program TYPE [name N] [section S] [attach A] [entry F] [sleepable] [frags] [target T] [noautoload]` | a program |
//! | `; function NAME [static\|global\|weak] [section S] [btf N]` | the instructions that follow are this function's |
//! | `; table MAP LABEL ...` | the entries of a map of type `insn_array`, where `gotox` in this function may lead |
//! | `; line [@I] L:C FILE TEXT [at N N]`, `; line @I`, `; line none` | the source line of what follows |
//! | `; core [@I] TYPE ACCESS KIND [at N]`, `; core @I` | the CO-RE record of the next instruction |
//! | `; insn N`, `; next_insn N` | the id of the next instruction; the object's next unused id |
//! | `; btf HEX` | more bytes of the `.BTF` section |
//!
//! A program without `entry` begins at the next function, which needs no directive of its own. Directives with a colon
//! after their first word (`; check: accept`) have no meaning here: the caller gets them as [`Annotation`]s, with the
//! instruction on the same line.
//!
//! [`print()`] and [`parse`] are inverse on valid objects; [`listing`] omits ids, debug info and BTF.

mod directives;
mod error;
mod names;
mod parse;
mod print;
mod words;

pub use error::TextError;
pub use parse::{Annotation, Parsed, parse, parse_annotated};
pub use print::{Labels, Names, listing, node_text, print};
