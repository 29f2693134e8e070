//! The kernel as an oracle: what its verifier says of a program, and why it was not asked where it was not.
//!
//! ```text
//!   load   ok                                          Accept
//!          failed, the verifier's log says why         Reject("R1 invalid mem access 'scalar'")
//!          failed, the log is empty                    NotAsked(no such function to attach to: bpf_testmod_fentry_test1)
//! ```
//!
//! A failure without a log comes from before the verifier: libbpf found no symbol or hook, a map could not be made, the
//! kernel was built without the program type, its policy forbids it. None of that says anything about the program.

use std::fmt;

use kiln_linux::{LOG_STATISTICS, LoadFailure, ObjectFile};
use kiln_program::{Object, Program};

use super::{Target, load_for, load_tersely};

/// What the kernel says of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It loads.
    Accept,
    /// The verifier refuses it, with the line of its log that says why.
    Reject(String),
    /// The verifier was not asked.
    NotAsked(NotAsked),
}

/// Why the verifier was not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAsked {
    /// The kernel refused before it looked at the program.
    Policy,
    /// It has no such kernel function, and the program calls it.
    Function(String),
    /// It has no such kernel symbol or configuration value.
    Symbol(String),
    /// There is nothing of that name to attach to.
    Hook(String),
    /// The program stands for a function of another program, which was not named.
    Target,
    /// A map could not be made.
    Map(String),
    /// No `struct_ops` map of this kernel has a slot for it.
    Slot(String),
    /// The kernel lacks the program type, or one of the flags.
    ProgramType(String),
    /// libbpf does not read the file.
    File(String),
    /// Something else: the last thing said.
    Other(String),
}

impl NotAsked {
    /// The reason without its name, for counting.
    pub fn class(&self) -> &'static str {
        match self {
            NotAsked::Policy => "the kernel forbids the hook (EPERM) before its verifier looks at the program",
            NotAsked::Function(_) => "the kernel lacks a kernel function that it calls",
            NotAsked::Symbol(_) => "the kernel lacks a symbol that it refers to",
            NotAsked::Hook(_) => "the kernel has nothing of that name to attach to",
            NotAsked::Target => "it stands for a function of another program, which is not known",
            NotAsked::Map(_) => "a map cannot be made without what user space decides",
            NotAsked::Slot(_) => "no struct_ops map of this kernel has a slot for it",
            NotAsked::ProgramType(_) => "the kernel was built without the program type",
            NotAsked::File(_) => "libbpf does not read the file",
            NotAsked::Other(_) => "something else",
        }
    }

    fn detail(&self) -> Option<&str> {
        match self {
            NotAsked::Policy | NotAsked::Target => None,
            NotAsked::Function(what)
            | NotAsked::Symbol(what)
            | NotAsked::Hook(what)
            | NotAsked::Map(what)
            | NotAsked::Slot(what)
            | NotAsked::ProgramType(what)
            | NotAsked::File(what)
            | NotAsked::Other(what) => Some(what),
        }
    }
}

impl fmt::Display for NotAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.detail() {
            Some(what) => write!(f, "{}: {what}", self.class()),
            None => f.write_str(self.class()),
        }
    }
}

/// Asks the running kernel about one program of an object file. `object` is the same file as read by Kiln.
pub fn ask(bytes: &[u8], object: &Object, program: &Program, target: Option<Target<'_>>) -> Answer {
    let failure = match load_tersely(bytes, object, program, target) {
        Ok(_) => return Answer::Accept,
        Err(failure) => failure,
    };
    match failure.reason_of(&program.name) {
        Some(reason) if is_no_message(reason) => {
            let again = load_for(bytes, object, program, target).err();
            let told = again.as_ref().and_then(|failure| failure.reason_of(&program.name));
            Answer::Reject(told.unwrap_or(reason).to_owned())
        }
        Some(reason) => Answer::Reject(reason.to_owned()),
        None => Answer::NotAsked(why_not_asked(&failure)),
    }
}

/// Asks the running kernel about a program that Kiln does not read, of the object file `name`.
pub fn ask_unread(bytes: &[u8], name: &str, program: &str) -> Answer {
    let loaded = ObjectFile::open(name, bytes).and_then(|mut file| {
        file.only(&[program])?;
        file.size_empty_maps(kiln_platform::LOAD_TIME_ENTRIES);
        file.load_with_log(LOG_STATISTICS)
    });
    let Err(failure) = loaded else { return Answer::Accept };
    match failure.reason_of(program) {
        Some(reason) => Answer::Reject(reason.to_owned()),
        None => Answer::NotAsked(why_not_asked(&failure)),
    }
}

/// Whether a terse log lacks the reason: of contexts the kernel tells it in a full log only, where libbpf also puts the
/// name of a field that the kernel lacks in place of a function with an impossible number.
fn is_no_message(reason: &str) -> bool {
    reason.starts_with(';') || reason.starts_with("invalid func unknown")
}

/// What libbpf says where the verifier was not reached, and what that means.
fn why_not_asked(failure: &LoadFailure) -> NotAsked {
    let mut answer = None;
    for line in failure.messages.lines().map(|line| line.trim_start_matches("libbpf: ")) {
        let named = || line.split('\'').nth(1).unwrap_or_default().to_owned();
        let last_named = || line.rsplit('\'').nth(1).unwrap_or_default().to_owned();
        let found = if line.starts_with("extern (func ksym)") {
            NotAsked::Function(named())
        } else if line.starts_with("extern ") {
            NotAsked::Symbol(named())
        } else if line.contains("failed to find kernel BTF type ID of") || line.contains("failed to find BTF info for")
        {
            NotAsked::Hook(last_named())
        } else if line.contains("attach program FD is not set") || line.contains("no BTF-based attach target") {
            NotAsked::Target
        } else if line.starts_with("map ") && line.contains("failed to create") {
            NotAsked::Map(named())
        } else if line.contains("struct_ops init_kern") || line.contains("isn't referenced anywhere") {
            NotAsked::Slot(line.to_owned())
        } else if line.starts_with("elf: ") {
            NotAsked::File(line.to_owned())
        } else if line.contains("BPF program load failed: -EPERM") {
            NotAsked::Policy
        } else if line.contains("BPF program load failed: -EINVAL") {
            NotAsked::ProgramType(named())
        } else {
            continue;
        };
        answer.get_or_insert(found);
    }
    answer.unwrap_or_else(|| {
        let said = failure.messages.lines().last().map_or_else(|| failure.error.to_string(), str::to_owned);
        NotAsked::Other(said)
    })
}

#[cfg(test)]
mod tests {
    use kiln_inspect::input;

    use super::*;

    /// Terse logs leave out why a context is not accessed, and a full one says it.
    #[test]
    fn a_rejection_has_its_message() {
        if let Err(reason) = kiln_linux::available() {
            println!("skipped: {reason}");
            return;
        }
        let Some(bytes) = assembled() else { return };
        let input = input::parse("context.o", bytes, &[]).unwrap();
        let answer = ask(&input.bytes, &input.object, &input.object.programs[0], None);
        assert_eq!(answer, Answer::Reject("invalid bpf_context access off=2 size=1".to_owned()));
    }

    /// An object of clang's that reads the third byte of an XDP program's context.
    fn assembled() -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let (source, object) = (folder.path().join("context.c"), folder.path().join("context.o"));
        let code = "__attribute__((section(\"xdp\"))) int reads(volatile char *context) { return context[2]; }";
        std::fs::write(&source, code).unwrap();
        let mut clang = std::process::Command::new("clang-19");
        match clang.args(["-target", "bpf", "-O2", "-g", "-c"]).arg(&source).arg("-o").arg(&object).status() {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                println!("skipped: clang-19: {error}");
                return None;
            }
        }
        Some(std::fs::read(object).unwrap())
    }
}
