//! The command line of `kiln-check`, and what `kiln` reads of its own in the same way.

use std::path::PathBuf;

use clap::{Parser, ValueHint};
use kiln_inspect::input::closest;
use kiln_inspect::kernels::Kernel;
use kiln_platform::ProgramType;

use crate::print::{self, Format};

const EXAMPLES: &str = "\
Examples:
  kiln-check prog.o                            every program, explained
  kiln-check --kernel 5.15,6.12 build/         all objects below a folder, for two releases
  kiln-check --btf vmlinux.btf --format json prog.o";

/// Verifies eBPF objects offline and explains rejections: `kiln check` alone, on any system.
///
/// It asks no kernel, compiles no C and writes no fixes; flags, words and documents are those of `kiln check`.
/// Exit codes: 0 done; 1 a program was rejected; 2 bad input or usage; 3 not supported here.
#[derive(Parser, Debug)]
#[command(name = "kiln-check", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// BPF object files, and folders of them.
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub objects: Vec<PathBuf>,
    /// The type of programs whose section name does not tell it, such as `xdp`, or `NAME=xdp` for one program.
    #[arg(long = "type", value_name = "[PROGRAM=]TYPE", value_parser = program_type)]
    pub types: Vec<(String, ProgramType)>,
    /// Only this program (repeatable).
    #[arg(long, short, value_name = "NAME")]
    pub program: Vec<String>,
    /// The kernels to check for: 4.18 to 7.3, or `all` (5.15, 6.1, 6.6, 6.12, 6.18); repeatable. By default those that
    /// KILN_KERNEL or the nearest kiln.toml names, or else one: the release that runs here, on other systems than Linux
    /// the one that the first line of the output names.
    #[arg(long, value_name = "RELEASE", value_delimiter = ',')]
    pub kernel: Vec<Kernel>,
    /// The kernel's BTF (a copy of /sys/kernel/btf/vmlinux): resolve CO-RE relocations against it, and take kernel
    /// structures and functions from it. A folder has a BTF for each release, in BTFHub's layout.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub btf: Option<PathBuf>,
    /// Apply the rules for unprivileged users: no pointer leaks, no loops, 4096 instructions.
    #[arg(long)]
    pub unprivileged: bool,
    /// Print how many instructions were processed for each source line, and what multiplies them.
    #[arg(long, conflicts_with = "kernel")]
    pub profile: bool,
    /// Warn about code that is accepted and doubtful all the same. Warnings do not change the exit code.
    #[arg(long)]
    pub lint: bool,
    /// Warn as with --lint, and make warnings of this rule (or `all`) errors: exit code 1.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub deny: Vec<String>,
    /// Leave this rule of the lint out; `// kiln: allow(RULE)` does so for one line of the source.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// A document of an earlier `--format json`: what it has is known, and does not change the exit code.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: Option<PathBuf>,
    /// Print only what is not accepted, and the last line, which counts.
    #[arg(long, short)]
    pub quiet: bool,
    /// Objects checked in parallel; by default one per processor.
    #[arg(long, short, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// How to print results.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Reads `[PROGRAM=]TYPE`; without a program, its name is empty.
///
/// # Errors
/// Returns the type that was probably meant, or all of them.
pub fn program_type(text: &str) -> Result<(String, ProgramType), String> {
    let (name, word) = text.split_once('=').unwrap_or(("", text));
    if let Some(program_type) = ProgramType::from_name(word) {
        return Ok((name.to_owned(), program_type));
    }
    let names = || ProgramType::ALL.iter().map(|known| known.name());
    Err(match closest(word, names()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the types are {}", names().collect::<Vec<_>>().join(", ")),
    })
}

/// Prints what is wrong with a command line, as a document too if it asks for one; or its help or version, which are
/// answers and no errors. Returns the exit code.
pub fn answer(error: &clap::Error) -> u8 {
    let code = if error.use_stderr() { 2 } else { 0 };
    if let Err(failure) = error.print() {
        let failure = kiln_inspect::Error::io("standard output", &failure);
        print::error(&failure, Format::Text);
        return failure.exit_code();
    }
    let wants = |format: &str| {
        std::env::args_os().any(|argument| argument == format || argument == *format!("--format={format}"))
    };
    let message = error.render().to_string();
    if code != 0 && wants("json") {
        print::error_document("usage", message.trim(), code, None);
    } else if code != 0 && wants("sarif") {
        print::failed_log(message.trim(), code);
    }
    code
}
