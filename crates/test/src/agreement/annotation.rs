//! A selftest author's expectation of the verifier: `__success`, `__failure` and `__msg("...")`.
//!
//! They are declaration tags on the program's function in the object's BTF: `comment:test_expect_success`,
//! `comment:test_expect_msg=R1 invalid mem access`. The tests belong to one kernel release, so an expectation is only a
//! second opinion: another release may give another verdict.

use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{Object, Program};

/// An author's expectation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Whether it loads.
    pub success: bool,
    /// What the verifier's log should contain.
    pub messages: Vec<String>,
}

/// The expectation for a program, where it is annotated.
pub fn expected(object: &Object, program: &Program) -> Option<Expected> {
    let function = TypeId(object.functions.get(program.entry.index())?.btf_id);
    let btf = Btf::parse(object.btf.as_deref()?).ok()?;
    let (mut success, mut messages) = (None, Vec::new());
    for id in btf.own_ids() {
        if !matches!(btf.kind(id), Kind::DeclTag { target, component: None } if *target == function) {
            continue;
        }
        // Newer selftests number the tags, to keep their order: `comment:3:test_expect_msg=...`.
        let Some(tag) = btf.name(id).strip_prefix("comment:") else { continue };
        let tag = tag.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
        match tag {
            "test_expect_success" => success = Some(true),
            "test_expect_failure" => success = Some(false),
            _ => messages.extend(tag.strip_prefix("test_expect_msg=").map(str::to_owned)),
        }
    }
    success.map(|success| Expected { success, messages })
}
