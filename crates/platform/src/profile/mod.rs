//! Kernel profiles: what one release accepts, so that CI can say "loads on 5.15 and up" without booting anything.
//!
//! Every row of every table has the release that introduced it. A profile reads the tables as of its own release:
//!
//! ```text
//!   tables (helpers, kfuncs, map types, fields, features)      Profile 5.15
//!     helper loop            since 5.17    ------------------>  lacks: "the helper bpf_loop is in Linux 5.17 and later"
//!     helper timer_init      since 5.15    ------------------>  has
//!       ... in program types that got it later: `later.rs`
//! ```
//!
//! The profile of a running kernel also has the kernel's own answers ([`Found`]), because distributions backport some
//! features and disable others.
//!
//! ```
//! use kiln_platform::{Feature, Helper, KernelVersion, Profile, ProgramType};
//! let old = Profile::of(KernelVersion::new(5, 15));
//! assert!(!old.has(Feature::MayGoto));
//! let lack = old.lacks_helper(Helper::by_name("loop").unwrap(), ProgramType::Xdp, None).unwrap();
//! assert_eq!(lack.to_string(), "the helper bpf_loop is in Linux 5.17 and later");
//! ```

mod feature;
mod later;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::limits::Limits;
use crate::{
    AttachType, ContextAccess, FieldAccess, Helper, KernelVersion, Kfunc, MapType, ProgramType, ReturnRule, helper_id,
};
pub use feature::Feature;

/// What one kernel accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    version: KernelVersion,
    found: Option<Arc<Found>>,
}

/// Answers of a running kernel: whether it has a feature. The tables answer for all other features.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Helpers, by number and program type.
    pub helpers: BTreeMap<(u32, ProgramType), bool>,
    /// Map types.
    pub map_types: BTreeMap<MapType, bool>,
    /// Program types.
    pub program_types: BTreeMap<ProgramType, bool>,
    /// Features.
    pub features: BTreeMap<Feature, bool>,
    /// Functions of the kernel that programs may call, by name.
    pub kfuncs: BTreeMap<String, bool>,
}

/// Helpers that kernels have only if they were configured so, by number and program type: distributions differ in it.
const CONFIGURED: [(u32, ProgramType, &str); 1] =
    [(helper_id::OVERRIDE_RETURN, ProgramType::Kprobe, "CONFIG_BPF_KPROBE_OVERRIDE")];

impl Found {
    /// What a kernel's configuration answers; `is_set` says whether an option is.
    pub fn of_configuration(is_set: impl Fn(&str) -> bool) -> Found {
        let helpers = CONFIGURED.iter().map(|(helper, program, option)| ((*helper, *program), is_set(option)));
        Found { helpers: helpers.filter(|(_, has)| !has).collect(), ..Found::default() }
    }
}

/// Something that a kernel does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What, with its article: `the helper bpf_loop`.
    pub what: String,
    /// The first release that has it; `None` if this kernel was asked and does not have it.
    pub since: Option<KernelVersion>,
    /// The first release that has it no more, if that is why.
    pub until: Option<KernelVersion>,
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.until, self.since) {
            (Some(until), _) => write!(formatter, "{} is no more in Linux {until} and later", self.what),
            (None, Some(since)) => write!(formatter, "{} is in Linux {since} and later", self.what),
            (None, None) => write!(formatter, "{} is not in the running kernel, or not enabled there", self.what),
        }
    }
}

impl Default for Profile {
    /// The newest kernel the tables describe.
    fn default() -> Self {
        Profile::of(KernelVersion::DESCRIBED)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.version)
    }
}

impl Profile {
    /// The releases that the command line names: those with long-term maintenance.
    pub const NAMED: [KernelVersion; 5] = [
        KernelVersion::new(5, 15),
        KernelVersion::new(6, 1),
        KernelVersion::new(6, 6),
        KernelVersion::new(6, 12),
        KernelVersion::new(6, 18),
    ];

    /// The oldest release the tables are checked for.
    pub const OLDEST: KernelVersion = KernelVersion::new(4, 18);

    /// A release with everything switched on.
    pub const fn of(version: KernelVersion) -> Profile {
        Profile { version, found: None }
    }

    /// A kernel that was asked.
    pub fn of_running(version: KernelVersion, found: Found) -> Profile {
        Profile { version, found: Some(Arc::new(found)) }
    }

    /// Its release.
    pub const fn version(&self) -> KernelVersion {
        self.version
    }

    /// The kernel's own answers, if it was asked.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_deref()
    }

    /// How large a program may be, and how long its verification.
    pub fn limits(&self) -> &'static Limits {
        Limits::of(self.version)
    }

    /// Whether it has a feature.
    #[inline]
    pub fn has(&self, feature: Feature) -> bool {
        let listed = self.version >= feature.since() || feature.also() == Some(self.version);
        self.answered(|found| found.features.get(&feature)).unwrap_or(listed)
    }

    /// Why it does not have a feature.
    pub fn lacks(&self, feature: Feature) -> Option<Lack> {
        self.lacking(feature.what().to_owned(), feature.since(), Some(self.has(feature)))
    }

    /// Why programs of this type, at this attach type, cannot call a helper that newer ones may.
    pub fn lacks_helper(&self, helper: &Helper, program: ProgramType, attach: Option<AttachType>) -> Option<Lack> {
        let name = format!("the helper bpf_{}", helper.name);
        let answer = self.answered(|found| found.helpers.get(&(helper.id, program)));
        // libbpf calls the older helper where the kernel has only that.
        let replaced = match helper.id {
            helper_id::PROBE_READ_KERNEL | helper_id::PROBE_READ_USER => Helper::by_id(helper_id::PROBE_READ),
            helper_id::PROBE_READ_KERNEL_STR | helper_id::PROBE_READ_USER_STR => {
                Helper::by_id(helper_id::PROBE_READ_STR)
            }
            _ => None,
        };
        let replaced = replaced.filter(|older| older.allowed_in(program));
        let first = replaced.unwrap_or(helper).since;
        match later::helper_since(helper.name, program, attach) {
            Some(since) if self.version >= first => {
                self.lacking(format!("{name} in {program} programs"), since, answer)
            }
            _ => self.lacking(name, first, answer),
        }
    }

    /// Why a kernel function cannot be called.
    pub fn lacks_kfunc(&self, kfunc: &Kfunc) -> Option<Lack> {
        let answer = self.answered(|found| found.kfuncs.get(kfunc.name));
        let what = format!("the kernel function {}", kfunc.name);
        match kfunc.until.filter(|until| self.version >= *until && answer != Some(true)) {
            None => self.lacking(what, kfunc.since, answer),
            until => Some(Lack { what, since: None, until }),
        }
    }

    /// Why maps of a type cannot be made.
    pub fn lacks_map_type(&self, map_type: MapType) -> Option<Lack> {
        let answer = self.answered(|found| found.map_types.get(&map_type));
        self.lacking(format!("the map type {map_type}"), map_type.since(), answer)
    }

    /// Why programs of a type cannot be loaded.
    pub fn lacks_program_type(&self, program_type: ProgramType) -> Option<Lack> {
        let answer = self.answered(|found| found.program_types.get(&program_type));
        self.lacking(format!("the program type {program_type}"), program_type.since(), answer)
    }

    /// Why programs cannot be attached so.
    pub fn lacks_attach_type(&self, attach: AttachType) -> Option<Lack> {
        self.lacking(format!("the attach type {attach}"), attach.since(), None)
    }

    /// Why a field of the context cannot be read, or written.
    pub fn lacks_field(&self, access: &FieldAccess, program: ProgramType, write: bool) -> Option<Lack> {
        let rewritten = program.context().access == ContextAccess::Rewritten;
        if rewritten
            && access.is_behind_start()
            && let Some(lack) = self.lacks(Feature::PartsOfFields)
        {
            return Some(lack);
        }
        let field = access.field;
        let since = later::access_since(access, program, write).unwrap_or(field.since).max(field.since);
        self.lacking(format!("the context field `{}` in {program} programs", field.name), since, None)
    }

    /// What programs of a type may return.
    pub fn return_rule(&self, program: ProgramType, attach: Option<AttachType>) -> ReturnRule {
        match attach {
            Some(AttachType::CgroupInet4Bind | AttachType::CgroupInet6Bind) if !self.has(Feature::BindFlags) => {
                ReturnRule::Range { minimum: 0, maximum: 1 }
            }
            Some(AttachType::CgroupInetEgress) if !self.has(Feature::EgressFlags) => {
                ReturnRule::Range { minimum: 0, maximum: 1 }
            }
            _ => program.return_rule(attach),
        }
    }

    #[inline]
    fn answered<'a>(&'a self, answer: impl FnOnce(&'a Found) -> Option<&'a bool>) -> Option<bool> {
        answer(self.found.as_deref()?).copied()
    }

    /// The kernel's own answer counts; without one, the tables do.
    fn lacking(&self, what: String, since: KernelVersion, answer: Option<bool>) -> Option<Lack> {
        let has = answer.unwrap_or(self.version >= since);
        // If the release should have it, the kernel was built without it.
        (!has).then(|| Lack { what, since: (self.version < since).then_some(since), until: None })
    }
}
