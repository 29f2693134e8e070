//! Who got something later than others: a helper that is older than its use in some program types.

use crate::{AttachType, KernelVersion, ProgramType};

/// A helper, the program types that may call it only since that release, the release.
type LaterRow = (&'static str, &'static [ProgramType], KernelVersion);

const fn since(major: u8, minor: u8) -> KernelVersion {
    KernelVersion::new(major, minor)
}

const HELPERS: &[LaterRow] = &[];

const FIELDS: &[LaterRow] = &[];

/// The first release in which programs of this type may call the helper, where that is later than the helper itself.
pub(super) fn helper_since(name: &str, program: ProgramType, _attach: Option<AttachType>) -> Option<KernelVersion> {
    lookup(HELPERS, name, program)
}

/// The first release in which programs of this type may access the field, where that is later than the field itself.
pub(super) fn field_since(name: &str, program: ProgramType) -> Option<KernelVersion> {
    lookup(FIELDS, name, program)
}

fn lookup(rows: &[LaterRow], name: &str, program: ProgramType) -> Option<KernelVersion> {
    rows.iter().find(|(row, types, _)| *row == name && types.contains(&program)).map(|(_, _, since)| *since)
}
