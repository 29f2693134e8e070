//! `kiln tables`: what can be asked, and what of it each kernel has.
//!
//! ```text
//!   each table, each kernel:  --MVSF--> programs --our verifier, for its release--> accepted, or what is lacking
//!                                           +------bpf(2), if wanted--------------> accepted by the running kernel
//! ```
//!
//! The smallest split of a table is the same for every query, so a table that was checked once loads for all of them.

use std::path::Path;
use std::time::Instant;

use kiln_plan::generate::{Failure, layout};
use kiln_plan::lookup::Lookup;
use kiln_plan::programs::Known;
use kiln_plan::table::{Source, Table};
use kiln_plan::{DataType, Generated, later, tables};
use kiln_platform::{KernelVersion, Profile};
use kiln_program::Object;
use kiln_program::btf::Btf;
use serde::Serialize;

use crate::target::{Choice, Types};
use kiln_inspect::input::running_kernel_types;
use kiln_inspect::kernels::Kernel;
use kiln_inspect::kernels::KernelTypes;
use kiln_inspect::show::shown::Shown;
use kiln_linux::running;
use kiln_live::files::{self, Files};
use kiln_live::lookups;
use kiln_live::plan::{self, StepProgram};
use kiln_program::Error;

/// A table, as `kiln tables` lists it.
#[derive(Clone, Debug, Serialize)]
pub struct TableDescription {
    /// Its name.
    pub name: Shown,
    /// What a row is.
    pub about: Shown,
    /// The tracepoints that it is made from.
    pub hooks: Vec<Shown>,
    /// Its columns.
    pub columns: Vec<ColumnDescription>,
    /// What this kernel lacks for it.
    pub lacks: Option<Shown>,
}

/// A column of a table.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnDescription {
    /// Its name.
    pub name: Shown,
    /// Its type.
    #[serde(rename = "type")]
    pub data_type: &'static str,
    /// What it says.
    pub about: Shown,
    /// Whether it is read in the kernel; else it is computed of other columns.
    pub read: bool,
    /// What this kernel lacks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<Shown>,
}

fn describe(table: &Table, types: Option<&Btf>) -> TableDescription {
    let missing = types.map(|types| layout::missing(table, types)).unwrap_or_default();
    let column = |(at, column): (usize, &kiln_plan::table::Column)| ColumnDescription {
        name: Shown::from(column.name.as_str()),
        data_type: column.data_type.name(),
        about: Shown::from(column.about.as_str()),
        read: matches!(column.source, Source::Read { .. }),
        lacks: missing.iter().find(|(own, _)| *own == at).map(|(_, why)| why.as_str().into()),
    };
    let lacks = types.and_then(|types| plan::mvsf(table, types, false).err());
    TableDescription {
        name: Shown::from(table.name.as_str()),
        about: Shown::from(table.about.as_str()),
        hooks: Shown::all(table.hooks().into_iter().map(kiln_plan::table::Hook::section)),
        columns: table.columns.iter().enumerate().map(column).collect(),
        lacks: lacks.map(|failure| failure.to_string().into()),
    }
}

fn describe_lookup(lookup: &Lookup) -> TableDescription {
    let column = |(name, data_type, about): &(String, DataType, String)| ColumnDescription {
        name: Shown::from(name.as_str()),
        data_type: data_type.name(),
        about: Shown::from(about.as_str()),
        read: false,
        lacks: None,
    };
    TableDescription {
        name: Shown::from(lookup.name.as_str()),
        about: Shown::from(lookup.about.as_str()),
        hooks: Vec::new(),
        columns: lookup.columns.iter().map(column).collect(),
        lacks: None,
    }
}

/// All tables of events and lookup tables, or the one of this name, or those of the static probes of a file
/// (`usdt.FILE`).
///
/// # Errors
/// [`Error::InvalidInput`] where there is none.
pub fn describe_tables(name: Option<&str>) -> Result<Vec<TableDescription>, Error> {
    let types = running_kernel_types();
    let types = types.as_deref();
    match name {
        None => {
            let events = tables::all();
            let events = events.iter().map(|table| describe(table, types));
            Ok(events.chain(lookups::all().iter().map(describe_lookup)).collect())
        }
        Some(name) => {
            if let Some(lookup) = lookups::all().iter().find(|lookup| lookup.name.eq_ignore_ascii_case(name)) {
                return Ok(vec![describe_lookup(lookup)]);
            }
            match name.strip_prefix(PROBES).map(Path::new).filter(|file| file.is_absolute() && file.is_file()) {
                Some(file) => describe_probes(file),
                None => Ok(vec![describe(&find(name, types)?, types)]),
            }
        }
    }
}

/// What names of tables of static probes begin with.
const PROBES: &str = "usdt.";

/// The tables of a file's static probes, each with the numbers among its own columns.
fn describe_probes(file: &Path) -> Result<Vec<TableDescription>, Error> {
    let column = |(index, signed): (usize, bool)| ColumnDescription {
        name: format!("arg{index}").into(),
        data_type: if signed { DataType::Int } else { DataType::Uint }.name(),
        about: format!("argument {index}").into(),
        read: true,
        lacks: None,
    };
    let table = |(probe, signs): (String, Vec<bool>)| TableDescription {
        name: format!("{PROBES}{}:{probe}", file.display()).into(),
        about: "a program passes a static probe".into(),
        hooks: vec![format!("usdt/{}:{probe}", file.display()).into()],
        columns: signs.into_iter().enumerate().map(column).collect(),
        lacks: None,
    };
    let all: Vec<TableDescription> = files::listed(file)?.into_iter().map(table).collect();
    let none = || Error::InvalidInput(format!("{}: it has no static probes of x86-64", file.display()));
    if all.is_empty() { Err(none()) } else { Ok(all) }
}

/// The table of this name.
fn find(name: &str, types: Option<&Btf>) -> Result<Table, Error> {
    let none = || Error::InvalidInput(format!("there is no table `{name}`; `kiln tables` lists those there are"));
    let found = tables::find(name, Known { types, programs: Some(&Files) });
    found.map_err(|missing| Error::InvalidInput(missing.why))?.ok_or_else(none)
}

/// What a kernel has of the tables.
#[derive(Clone, Debug, Serialize)]
pub struct CheckedTables {
    /// The kernel, as it was named.
    pub kernel: Shown,
    /// Whose types the programs are for.
    pub types: Shown,
    /// The tables of events.
    pub tables: Vec<CheckedTable>,
    /// Microseconds that writing and verifying all programs took.
    pub micros: u64,
    /// Microseconds that the running kernel took to load them all, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_micros: Option<u64>,
}

/// The smallest split of a table on a kernel.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckedTable {
    /// The table.
    pub table: Shown,
    /// Its programs: those of queries without stacks, then those of queries with both stacks.
    pub programs: Vec<StepProgram>,
    /// What the kernel lacks, if it cannot have the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lacks: Option<Shown>,
    /// Columns that the kernel cannot have, with what it lacks. Programs leave them out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<LackingColumn>,
    /// Why a verifier refuses its programs, which is an error of Kiln's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Shown>,
}

/// A column that a kernel cannot have.
#[derive(Clone, Debug, Serialize)]
pub struct LackingColumn {
    /// Its name.
    pub name: Shown,
    /// What the kernel lacks for it.
    pub lacks: Shown,
}

impl CheckedTables {
    /// Whether no table's programs were refused.
    pub fn all_accepted(&self) -> bool {
        self.tables.iter().all(|table| table.refused.is_none())
    }

    /// How many tables the kernel has.
    pub fn there(&self) -> usize {
        self.tables.iter().filter(|table| table.lacks.is_none()).count()
    }
}

/// Writes the smallest split of every table, or of the one of this name, and verifies it, for each kernel of the choice,
/// or else for each release that the types are of, or else for the running kernel. `with_kernel` loads the programs of
/// the running kernel, too.
///
/// # Errors
/// [`Error::InvalidInput`] where there is no such table, or no types of a kernel; [`Error::Unsupported`] where no types
/// can be read; [`Error::Os`] where the kernel cannot be asked.
pub fn check(
    name: Option<&str>,
    choice: &Choice,
    types: &Types,
    with_kernel: bool,
) -> Result<Vec<CheckedTables>, Error> {
    if with_kernel {
        running::require_kernel()?;
    }
    let mut kernels: Vec<Option<KernelVersion>> = Vec::new();
    let own = types.kernels();
    let asked = if choice.kernels.is_empty() { &own } else { &choice.kernels };
    for kernel in asked {
        match kernel {
            Kernel::Release(release) => kernels.push(Some(*release)),
            Kernel::All => kernels.extend(Profile::NAMED.map(Some)),
            Kernel::Running => kernels.push(None),
        }
    }
    // The running kernel, which has no release here, comes last.
    kernels.sort_by_key(|release| (release.is_none(), *release));
    kernels.dedup();
    if kernels.is_empty() {
        kernels.push(None);
    }
    kernels.into_iter().map(|release| check_on(name, release, types, with_kernel)).collect()
}

/// Checks the tables on a release, or on the running kernel.
fn check_on(
    name: Option<&str>,
    release: Option<KernelVersion>,
    types: &Types,
    with_kernel: bool,
) -> Result<CheckedTables, Error> {
    let begun = Instant::now();
    let version = release.map_or_else(running::release, Ok)?;
    let (btf, of) = types.of(release.is_none(), version)?;
    let lacks = || Error::Unsupported("tables need the types of a kernel (--btf names them)".to_owned());
    let btf = btf.ok_or_else(lacks)?;
    let tables = match name {
        Some(name) => vec![find(name, Some(&btf))?],
        None => tables::all(),
    };
    // The types of another kernel say nothing about what this one has: the table of releases does.
    let judged_by = release.filter(|_| types.are_running());
    // What was written, with the number of its table.
    let mut generated = Vec::new();
    let mut checked = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        let mut one = CheckedTable { table: table.name.as_str().into(), ..CheckedTable::default() };
        match judged_by.map_or_else(|| Ok(table.clone()), |release| later::as_of(table, release)) {
            Ok(table) => generated.extend(one.write(&table, &btf).into_iter().map(|generated| (at, generated))),
            Err(why) => one.lacks = Some(why.into()),
        }
        checked.push(one);
    }
    // The kernel is asked once for all tables: they need the same of it.
    let objects: Vec<&Object> = generated.iter().map(|(_, generated)| &generated.object).collect();
    let profile = release.map_or_else(
        || running::profile(&objects, running_kernel_types().as_deref()),
        |release| Ok(Profile::of(release)),
    )?;
    for (at, generated) in &generated {
        match plan::verified_for(&generated.object, Some(&btf), profile.clone()) {
            Ok(programs) => checked[*at].programs.extend(programs),
            Err(reason) => checked[*at].refused = Some(reason.into()),
        }
    }
    let mut report = CheckedTables {
        kernel: release.map_or_else(|| "running".to_owned(), |release| release.to_string()).into(),
        types: of,
        tables: checked,
        micros: begun.elapsed().as_micros() as u64,
        kernel_micros: None,
    };
    if with_kernel && release.is_none() {
        let begun = Instant::now();
        for (at, generated) in &generated {
            if let Err(failure) = kiln_linux::load_images(&generated.object) {
                report.tables[*at].refused = Some(format!("the kernel: {}", failure.why()).into());
            }
        }
        report.kernel_micros = Some(begun.elapsed().as_micros() as u64);
    }
    Ok(report)
}

impl CheckedTable {
    /// Writes the programs of the smallest split, without stacks and with both, and says what the kernel lacks.
    fn write(&mut self, table: &Table, types: &Btf) -> Vec<Generated> {
        let mut all = Vec::new();
        for with_stacks in [false, true] {
            match plan::mvsf(table, types, with_stacks) {
                Ok(generated) => all.push(generated),
                Err(Failure::Kernel(why)) => self.lacks = Some(why.into()),
                Err(other) => self.refused = Some(other.to_string().into()),
            }
        }
        let lacking = |(column, lacks): (usize, String)| LackingColumn {
            name: table.columns[column].name.as_str().into(),
            lacks: lacks.into(),
        };
        self.columns = layout::missing(table, types).into_iter().map(lacking).collect();
        all
    }
}
