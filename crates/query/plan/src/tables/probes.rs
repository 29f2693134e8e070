//! Tables of static probes (USDT), which programs and libraries have at places of their own choice.
//!
//! ```text
//!   places of one probe:   -4@%eax 8@%rdi      -4@-20(%rbp) 8@%rdi      -4@%eax 8@%rdi
//!   what each is attached with (`Read::Cookie`):
//!                          0                   1                        0
//! ```

use super::Missing;
use super::build::{column, single, with_stacks};
use crate::programs::{Argument, Known, Probe};
use crate::table::{Hook, PATH_BYTES, Place, Read, Scalar, Side, Table};
use crate::value::DataType;

/// What the names of tables of static probes begin with.
pub(super) const PREFIX: &str = "usdt.";
/// Bytes of texts in a row, all together.
const TEXT_BYTES: u16 = 256;
/// Different kinds of places that a program tells apart.
const MAX_KINDS: usize = 16;
const HELP: &str = "FROM usdt.'/usr/lib/x86_64-linux-gnu/libc.so.6:libc:setjmp'";

/// The table of a static probe, `FILE:PROVIDER:NAME`.
pub(super) fn of(target: &str, known: Known<'_>) -> Result<Table, Missing> {
    let missing = |why: String| Missing { why, help: HELP };
    let mut parts = target.rsplitn(3, ':');
    let (Some(name), Some(provider), Some(file)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(missing(format!("`{PREFIX}{target}` is no static probe of a file")));
    };
    if !file.starts_with('/') || provider.is_empty() || name.is_empty() {
        return Err(missing(format!("`{PREFIX}{target}` is no static probe of a file")));
    }
    let programs =
        known.programs.ok_or_else(|| missing("static probes are in files, which are not read here".into()))?;
    let probes = programs.probes(file, provider, name).map_err(missing)?;
    let kinds = kinds(&probes);
    if kinds.len() > MAX_KINDS {
        let why = format!("`{provider}:{name}` has its arguments at more than {MAX_KINDS} different places");
        return Err(missing(why));
    }
    let place = |probe: &Probe| Place {
        offset: probe.offset,
        semaphore: probe.semaphore,
        cookie: kinds.iter().position(|kind| **kind == probe.arguments).unwrap_or(0) as u64,
    };
    let places = probes.iter().map(place).collect();
    let hook = Hook::Probe { file: file.to_owned(), name: format!("{provider}:{name}"), places };
    let about = "a program passes a static probe";
    Ok(with_stacks(single(&format!("{PREFIX}{target}"), about, hook, columns(&kinds))))
}

/// The different arguments of a probe's places.
fn kinds(probes: &[Probe]) -> Vec<&Vec<Argument>> {
    let mut kinds = Vec::new();
    for probe in probes {
        if !kinds.contains(&&probe.arguments) {
            kinds.push(&probe.arguments);
        }
    }
    kinds
}

/// A column for each argument that all places have and, of those that may be addresses, one of the text there.
fn columns(kinds: &[&Vec<Argument>]) -> Vec<crate::table::Column> {
    let count = kinds.iter().map(|arguments| arguments.len()).min().unwrap_or(0);
    let own = |index: usize| kinds.iter().map(move |arguments| &arguments[index]);
    let may_be_address = |index: &usize| own(*index).all(|one| one.kind == Scalar::unsigned(8));
    let texts: Vec<usize> = (0..count).filter(may_be_address).collect();
    let number = |index: usize| {
        let data_type = if own(index).any(|one| one.kind.signed) { DataType::Int } else { DataType::Uint };
        let about = format!("argument {index}");
        column(&format!("arg{index}"), data_type, Side::Exit, read(kinds, index), &about)
    };
    let most = (TEXT_BYTES / (texts.len().max(1) as u16) / 8 * 8).min(PATH_BYTES);
    let text = |index: &usize| {
        let what = Read::UserText { address: Box::new(read(kinds, *index)), bytes: most };
        let about = format!("argument {index} as text; empty where no text is, or none that the program has touched");
        column(&format!("text{index}"), DataType::Text, Side::Exit, what, &about)
    };
    (0..count).map(number).chain(texts.iter().map(text)).collect()
}

/// Reads an argument, by the place that the program runs at.
fn read(kinds: &[&Vec<Argument>], index: usize) -> Read {
    let first = kinds[0][index].read.clone();
    let others = kinds.iter().enumerate().skip(1).filter(|(_, arguments)| arguments[index].read != first);
    others.fold(first.clone(), |otherwise, (cookie, arguments)| Read::Choice {
        by: Box::new(Read::Cookie),
        equals: cookie as i32,
        then: Box::new(arguments[index].read.clone()),
        otherwise: Box::new(otherwise),
    })
}
