//! Verdicts of another kernel, recorded by `scripts/other-kernel`.
//!
//! ```text
//!   target/kernels/6.12/verdicts.jsonl    {"program":"lsm.o:test_int_hook","group":"selftests-6.12","says":"accept",..}
//!                       btf/vmlinux       its types
//!                       config            its configuration
//!                       release           6.12.117+deb12-cloud-amd64
//!                       own.jsonl, own/   the same of its own tests ([`super::own`])
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_driver::input::with_loaders_values;
use kiln_elf::KernelConfig;
use kiln_platform::{Found, KernelVersion, Profile};
use kiln_program::btf::Btf;
use kiln_verifier::Options;
use serde::Deserialize;

use super::Says;

/// A kernel that was asked in a virtual machine.
#[derive(Debug)]
pub struct OtherKernel {
    /// `uname -r`.
    pub release: String,
    /// Its types.
    pub types: Arc<Btf>,
    /// Its configuration.
    pub config: KernelConfig,
    version: KernelVersion,
    verdicts: HashMap<(String, String), Says>,
}

#[derive(Deserialize)]
struct Line {
    program: String,
    group: String,
    says: String,
    why: String,
}

/// The folder of recorded answers.
fn folder() -> PathBuf {
    std::env::var_os("KILN_KERNELS_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels"), PathBuf::from)
}

impl OtherKernel {
    /// The newest kernel that was asked, if any, of those whose rules Kiln follows by default, or older ones.
    pub fn newest() -> Option<OtherKernel> {
        let folders = std::fs::read_dir(folder()).ok()?.flatten().map(|entry| entry.path());
        folders
            .filter_map(|folder| OtherKernel::read(&folder, "verdicts.jsonl"))
            .filter(|kernel| kernel.version <= KernelVersion::DESCRIBED)
            .max_by_key(|kernel| kernel.version)
    }

    /// Reads what a kernel answered about its own tests, by its series, such as `7.3`; those that GCC compiled `with_gcc`.
    pub fn of_own_tests(series: &str, with_gcc: bool) -> Option<OtherKernel> {
        OtherKernel::read(&folder().join(series), if with_gcc { "own-gcc.jsonl" } else { "own.jsonl" })
    }

    fn read(folder: &Path, answers: &str) -> Option<OtherKernel> {
        let release = std::fs::read_to_string(folder.join("release")).ok()?.trim().to_owned();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u8>().ok());
        let version = KernelVersion::new(numbers.next()??, numbers.next()??);
        let types = Btf::parse(&std::fs::read(folder.join("btf/vmlinux")).ok()?).ok()?;
        let mut verdicts = HashMap::new();
        for line in std::fs::read_to_string(folder.join(answers)).ok()?.lines() {
            let line: Line = serde_json::from_str(line).ok()?;
            let says = match line.says.as_str() {
                "accept" => Says::Accept,
                "reject" if is_about_the_hook(&line.why) => Says::Nothing(line.why),
                "reject" => Says::Reject(line.why),
                _ => Says::Nothing(line.why),
            };
            verdicts.insert((line.group, line.program), says);
        }
        let config = KernelConfig::parse(&std::fs::read_to_string(folder.join("config")).ok()?);
        let config = with_loaders_values(config, [version.major.into(), version.minor.into(), 0]);
        Some(OtherKernel { release, types: Arc::new(types), config, version, verdicts })
    }

    /// Its verdict on a program, if it was asked.
    pub fn says(&self, group: &str, program: &str) -> Option<Says> {
        let key = (group.to_owned(), program.to_owned());
        self.verdicts.get(&key).filter(|says| !matches!(says, Says::Nothing(_))).cloned()
    }

    /// How Kiln verifies for it.
    pub fn options(&self) -> Options {
        Options {
            skip_facts: true,
            kernel_types: Some(Arc::clone(&self.types)),
            profile: Profile::of_running(self.version, Found::of_configuration(|option| self.config.is_set(option))),
            ..Options::default()
        }
    }
}

/// Messages from before verification. The kernel's error injection decides which functions sleepable programs may
/// trace, and which results may be changed; it is often not built in.
fn is_about_the_hook(message: &str) -> bool {
    message.ends_with("is not sleepable") || message.ends_with("is not modifiable")
}
