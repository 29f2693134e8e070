//! `kiln check --kernel`: every program against every kernel asked for.
//!
//! ```text
//!   program   5.15                6.1  6.6  6.12  6.18
//!   filter    kernel-lacks  yes  yes  yes   yes      loads on 6.1 and up
//! ```

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use kiln_platform::{KernelVersion, Profile};
use kiln_program::btf::Btf;
use kiln_program::{Object, Program};
use kiln_verifier::Prepared;
use serde::{Deserialize, Serialize};

use crate::check::{self, Checked, Verdict};
use crate::input::{Input, elf_error, outside_tables, release_config, running_kernel_config, running_kernel_types};
use crate::show::shown::Shown;
use crate::show::word::{self, Word};
use kiln_program::Error;

/// A kernel to check for, as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// A release.
    Release(KernelVersion),
    /// The one that runs here.
    Running,
    /// All named releases.
    All,
}

impl FromStr for Kernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "running" => return Ok(Kernel::Running),
            "all" => return Ok(Kernel::All),
            _ => {}
        }
        let (oldest, newest) = (Profile::OLDEST, KernelVersion::NEWEST);
        match text.parse() {
            Ok(version) if (oldest..=newest).contains(&version) => Ok(Kernel::Release(version)),
            Ok(version) => Err(format!("{version} is not between {oldest} and {newest}, which Kiln describes")),
            Err(_) => Err(format!("a release from {oldest} to {newest}, `running`, or `all` ({})", names())),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kernel::Release(version) => write!(f, "{version}"),
            Kernel::Running => f.write_str("running"),
            Kernel::All => f.write_str("all"),
        }
    }
}

fn names() -> String {
    Profile::NAMED.map(|version| version.to_string()).join(", ")
}

/// The types of the kernels that programs are verified for.
pub trait KernelTypes {
    /// The types of one kernel, and whose they are.
    ///
    /// # Errors
    /// Returns [`Error::InvalidInput`] if there are none of this release, or they cannot be read.
    fn of(&self, running: bool, release: KernelVersion) -> Result<(Option<Arc<Btf>>, Shown), Error>;

    /// Whether the user named them. Objects are fitted to types of other releases only then.
    fn are_named(&self) -> bool;
}

/// The types of the running kernel for all kernels, where they can be read.
#[derive(Clone, Copy, Debug)]
pub struct RunningTypes;

impl KernelTypes for RunningTypes {
    fn of(&self, _running: bool, _release: KernelVersion) -> Result<(Option<Arc<Btf>>, Shown), Error> {
        Ok(match running_kernel_types() {
            Some(types) => (Some(types), "BTF of the running kernel".into()),
            None if Path::new("/sys/kernel").exists() => (None, "without a kernel's BTF (--btf names one)".into()),
            None => (None, "without a kernel's BTF (mount /sys, or name one with --btf)".into()),
        })
    }

    fn are_named(&self) -> bool {
        false
    }
}

/// The name of the running kernel among profiles.
pub const RUNNING: &str = "running";

/// The profiles of the kernels asked for, oldest first, each once; the running one last. `running` asks it.
///
/// # Errors
/// What `running` returns, if the running kernel is asked for.
pub fn profiles(
    kernels: &[Kernel],
    running: impl FnOnce() -> Result<Profile, Error>,
) -> Result<Vec<(String, Profile)>, Error> {
    let mut releases: Vec<KernelVersion> = Vec::new();
    for kernel in kernels {
        match kernel {
            Kernel::Release(version) => releases.push(*version),
            Kernel::All => releases.extend(Profile::NAMED),
            Kernel::Running => {}
        }
    }
    releases.sort();
    releases.dedup();
    let mut profiles: Vec<_> =
        releases.into_iter().map(|version| (version.to_string(), Profile::of(version))).collect();
    if kernels.contains(&Kernel::Running) {
        profiles.push((RUNNING.to_owned(), running()?));
    }
    Ok(profiles)
}

/// Verdicts by program and kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Matrix {
    /// The kernels, as asked for.
    pub kernels: Vec<Shown>,
    /// The types that each kernel's verdicts are about, in the order of [`Matrix::kernels`].
    pub types: Vec<Shown>,
    /// Who named the kernels, if that is not the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_by: Option<Shown>,
    /// A row a program.
    pub programs: Vec<Row>,
    /// Where all programs load, in a sentence.
    pub loads_on: String,
}

/// One program on each kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub program: Shown,
    /// Its section.
    pub section: Shown,
    /// Its type, where known.
    #[serde(default, deserialize_with = "word::read_optional")]
    pub program_type: Option<Word>,
    /// Slots, subprograms included.
    pub slots: u32,
    /// A verdict a kernel, in the order of [`Matrix::kernels`].
    pub verdicts: Vec<Verdict>,
    /// Where it loads, in a sentence.
    pub loads_on: String,
}

impl Matrix {
    /// One verdict a program, as of a check for one kernel: that of the oldest kernel which rejects it, else the first.
    pub fn first_rejections(&self) -> Vec<Checked> {
        let one = |row: &Row| {
            let rejected = row.verdicts.iter().find(|verdict| matches!(verdict, Verdict::Rejected { .. }));
            Some(Checked {
                profile: None,
                sandboxed: None,
                program: row.program.clone(),
                section: row.section.clone(),
                program_type: row.program_type,
                slots: row.slots,
                verdict: rejected.or(row.verdicts.first())?.clone(),
                micros: 0,
                kernel: None,
            })
        };
        self.programs.iter().filter_map(one).collect()
    }
}

impl Matrix {
    /// Adds rows for programs that cannot be read: one verdict for all kernels.
    pub fn add_unreadable(&mut self, unreadable: Vec<Checked>) {
        let kernels = self.kernels.len();
        for checked in unreadable {
            self.loads_on = "not known".to_owned();
            self.programs.push(Row {
                program: checked.program,
                section: checked.section,
                program_type: checked.program_type,
                slots: checked.slots,
                verdicts: vec![checked.verdict; kernels],
                loads_on: "not known".to_owned(),
            });
        }
    }
}

/// Verifies programs for each of these kernels. `named_by` says who named them, if that is not the command line.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if there are no types of a kernel or a relocation is malformed.
pub fn check(
    input: &Input,
    programs: &[&Program],
    profiles: &[(String, Profile)],
    types: &dyn KernelTypes,
    named_by: Option<Shown>,
) -> Result<Matrix, Error> {
    let loaded = profiles.iter().map(|(name, profile)| as_loaded_on(input, name, profile, types));
    let loaded: Vec<Loaded> = loaded.collect::<Result<_, _>>()?;
    let prepared: Vec<Prepared<'_>> =
        loaded.iter().map(|loaded| Prepared::new(&loaded.object, &loaded.options)).collect();
    let rows: Vec<Row> = programs
        .iter()
        .map(|program| {
            let each = prepared.iter().zip(&loaded);
            let verdicts: Vec<Verdict> =
                each.map(|(prepared, loaded)| check::verdict_in(input, prepared, program, &loaded.options)).collect();
            let loads: Vec<Loads> = verdicts.iter().map(Loads::of).collect();
            Row {
                program: program.name.as_str().into(),
                section: program.section.as_str().into(),
                program_type: program.program_type.map(|known| known.name()),
                slots: input.object.program_slots(program),
                loads_on: loads_on(profiles, &loads),
                verdicts,
            }
        })
        .collect();
    let on =
        |kernel: usize| rows.iter().map(move |row| Loads::of(&row.verdicts[kernel])).min().unwrap_or(Loads::Unknown);
    let all: Vec<Loads> = (0..profiles.len()).map(on).collect();
    Ok(Matrix {
        kernels: profiles.iter().map(|(name, _)| name.as_str().into()).collect(),
        types: loaded.iter().map(|loaded| loaded.types.clone()).collect(),
        named_by,
        loads_on: loads_on(profiles, &all),
        programs: rows,
    })
}

/// An object as loaded on one kernel.
struct Loaded {
    object: Object,
    options: kiln_verifier::Options,
    types: Shown,
}

/// The object with the values that a loader adds on a kernel, its version above all, so that code for other versions is
/// never reached, and fitted to the kernel's types where these are known.
fn as_loaded_on(input: &Input, name: &str, profile: &Profile, types: &dyn KernelTypes) -> Result<Loaded, Error> {
    let running = name == RUNNING;
    let (kernel_types, mut said) = types.of(running, profile.version())?;
    if running && profile.version() > KernelVersion::NEWEST {
        said = format!("{said}, rules of {}", outside_tables(profile.version())).into();
    }
    let mut object = input.object.clone();
    match (&kernel_types, running || types.are_named()) {
        (Some(target), true) => {
            kiln_elf::resolve_core(&mut object, target).map_err(|error| elf_error(&input.object.name, error))?;
        }
        (Some(_), false) => said = format!("{said}; fields are where the compiler saw them").into(),
        (None, _) => {}
    }
    match (running, running_kernel_config()) {
        (true, Some(config)) => kiln_elf::resolve_kconfig(&mut object, config),
        _ => kiln_elf::resolve_kconfig(&mut object, &release_config(profile.version())),
    };
    let profile = profile.clone();
    let options =
        kiln_verifier::Options { explain: true, profile, skip_facts: true, kernel_types, ..input.verifier_options() };
    Ok(Loaded { object, options, types: said })
}

/// Whether a program loads, worst first, so that `min` gives the verdict for several programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loads {
    No,
    Unknown,
    Yes,
}

impl Loads {
    fn of(verdict: &Verdict) -> Loads {
        match verdict {
            Verdict::Accepted { .. } => Loads::Yes,
            Verdict::Rejected { .. } => Loads::No,
            Verdict::Unsupported { .. } | Verdict::Invalid { .. } => Loads::Unknown,
        }
    }
}

/// `6.1 and up` where it loads on that release and all later ones that were asked for.
fn loads_on(profiles: &[(String, Profile)], loads: &[Loads]) -> String {
    let named: Vec<(&str, Loads)> = profiles.iter().map(|(name, _)| name.as_str()).zip(loads.iter().copied()).collect();
    let (running, releases): (Vec<_>, Vec<_>) = named.into_iter().partition(|(name, _)| *name == RUNNING);
    let loads_there = |(_, loads): &&(&str, Loads)| *loads == Loads::Yes;
    let tail = releases.iter().rev().take_while(loads_there).count();
    let (head, last) = releases.split_at(releases.len() - tail);
    let mut places: Vec<String> = head.iter().filter(loads_there).map(|(name, _)| (*name).to_owned()).collect();
    places.extend(last.first().map(|(first, _)| match releases.len() {
        1 => (*first).to_owned(),
        _ => format!("{first} and up"),
    }));
    if running.iter().any(|entry| loads_there(&entry)) {
        places.push("the running kernel".to_owned());
    }
    match (places.is_empty(), loads.contains(&Loads::Unknown)) {
        (true, true) => "not known".to_owned(),
        (true, false) => "none of them".to_owned(),
        (false, _) => places.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::Loads::{No, Unknown, Yes};
    use super::*;

    fn sentence(names: &[&str], loads: &[Loads]) -> String {
        let profiles: Vec<_> = names.iter().map(|name| ((*name).to_owned(), Profile::default())).collect();
        loads_on(&profiles, loads)
    }

    #[test]
    fn where_a_program_loads_is_said_in_words() {
        let named = ["5.15", "6.1", "6.6"];
        assert_eq!(sentence(&named, &[Yes, Yes, Yes]), "5.15 and up");
        assert_eq!(sentence(&named, &[No, Yes, Yes]), "6.1 and up");
        assert_eq!(sentence(&named, &[Yes, No, Yes]), "5.15, 6.6 and up");
        assert_eq!(sentence(&named, &[Yes, No, No]), "5.15");
        assert_eq!(sentence(&named, &[No; 3]), "none of them");
        assert_eq!(sentence(&named, &[No, Unknown, Unknown]), "not known");
        assert_eq!(sentence(&["6.1"], &[Yes]), "6.1");
        assert_eq!(sentence(&["6.1", "running"], &[Yes, Yes]), "6.1, the running kernel");
    }

    #[test]
    fn kernels_are_named_by_release() {
        assert_eq!("6.1".parse(), Ok(Kernel::Release(KernelVersion::new(6, 1))));
        assert_eq!("all".parse(), Ok(Kernel::All));
        for text in ["", "5", "4.17", "7.4", "latest", "6.1-rc1x.y.z.99999999999"] {
            let parsed = text.parse::<Kernel>();
            assert!(parsed.is_err() || text.starts_with("6.1-"), "{text}: {parsed:?}");
        }
        let profiles = profiles(&[Kernel::All, "5.15".parse().unwrap()], || Ok(Profile::default())).unwrap();
        let names: Vec<_> = profiles.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["5.15", "6.1", "6.6", "6.12", "6.18"]);
    }
}
