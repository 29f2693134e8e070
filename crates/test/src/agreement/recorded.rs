//! Verdicts of another kernel, recorded by `scripts/other-kernel`.
//!
//! ```text
//!   target/kernels/6.12/verdicts.jsonl    {"program":"lsm.o:test_int_hook","group":"selftests-6.12","says":"accept",..}
//!                       btf/vmlinux       its types
//!                       linux-image-*/boot/config-*
//!                       release           6.12.117+deb12-cloud-amd64
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_elf::KernelConfig;
use kiln_platform::{KernelVersion, Profile};
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
            .filter_map(|folder| OtherKernel::read(&folder))
            .filter(|kernel| kernel.version <= KernelVersion::DESCRIBED)
            .max_by_key(|kernel| kernel.version)
    }

    fn read(folder: &Path) -> Option<OtherKernel> {
        let release = std::fs::read_to_string(folder.join("release")).ok()?.trim().to_owned();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u8>().ok());
        let version = KernelVersion::new(numbers.next()??, numbers.next()??);
        let types = Btf::parse(&std::fs::read(folder.join("btf/vmlinux")).ok()?).ok()?;
        let mut verdicts = HashMap::new();
        for line in std::fs::read_to_string(folder.join("verdicts.jsonl")).ok()?.lines() {
            let line: Line = serde_json::from_str(line).ok()?;
            let says = match line.says.as_str() {
                "accept" => Says::Accept,
                "reject" if is_about_the_hook(&line.why) => Says::Nothing(line.why),
                "reject" => Says::Reject(line.why),
                _ => Says::Nothing(line.why),
            };
            verdicts.insert((line.group, line.program), says);
        }
        let config = config_of(folder).unwrap_or_default();
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
            profile: Profile::of(self.version),
            ..Options::default()
        }
    }
}

/// Messages from before verification. The kernel's error injection decides which functions sleepable programs may
/// trace, and which results may be changed; it is often not built in.
fn is_about_the_hook(message: &str) -> bool {
    message.ends_with("is not sleepable") || message.ends_with("is not modifiable")
}

/// The configuration file of the kernel's package.
fn config_of(folder: &Path) -> Option<KernelConfig> {
    let packages = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path().join("boot"));
    let files = packages.filter_map(|boot| std::fs::read_dir(boot).ok()).flatten().flatten();
    let mut configs = files
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("config-")));
    Some(KernelConfig::parse(&std::fs::read_to_string(configs.next()?).ok()?))
}
