//! The command line, as data.

pub mod build;
pub mod complete;
mod congestion;
mod dispatch;
mod examples;
mod explain;
#[cfg(test)]
mod flags;
mod formats;
mod kv;
mod query;
mod repair;
mod run;
mod serve;
mod tls;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use kiln_checker::arguments::program_type;
use kiln_driver::ProgramType;
use kiln_driver::commands::dump as native_dump;
use kiln_driver::kernels::Kernel;

pub use congestion::CongestionArguments;
pub use dispatch::{DispatchArguments, SocketHook};
pub use explain::ExplainArguments;
pub use formats::{check as check_format, command};
pub use kv::{KvArguments, KvCommand, KvMemory, KvTopArguments, MemcachedArguments, RedisArguments};
pub use query::{QueryArguments, TablesArguments};
pub use repair::RepairArguments;
use run::{BENCH_EXAMPLES, RUN_EXAMPLES};
pub use run::{BenchArguments, FeedArguments, Place, RunArguments};
pub use serve::{InstallArguments, ServeArguments, ServeCommand};

/// Verifies, shrinks and runs eBPF programs, with a proof for every rewrite.
///
/// Exit codes: 0 done; 1 a program was rejected, a comparison failed or a limit was reached; 2 bad input or usage; 3 not supported here.
#[derive(Parser, Debug)]
#[command(name = "kiln", version, after_help = examples::ALL)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to print results.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// When to colour text.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// When text is coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one JSON document on standard output.
    Json,
    /// For code review: SARIF 2.1.0 (`kiln check` only).
    Sarif,
    /// Annotations of a GitHub workflow, and the text (`kiln check` only).
    Github,
    /// For GitLab: a Code Quality report (`kiln check` only).
    Gitlab,
    /// A table for each window, or for all rows (`kiln query` only).
    Table,
    /// One line per row, as it arrives (`kiln query` only).
    Lines,
    /// Comma-separated values, after a line of names (`kiln query` only).
    Csv,
    /// One JSON object per row, as it arrives (`kiln query` only).
    Ndjson,
    /// A Parquet file, named by --output (`kiln query` only).
    Parquet,
    /// An Arrow IPC stream (`kiln query` only).
    Arrow,
    /// A flame graph as SVG: a last column of numbers is what is counted, the others are frames (`kiln query` only).
    FlameGraph,
    /// The same for `go tool pprof` and its kin (`kiln query` only).
    Pprof,
}

impl Format {
    /// The format of a check that an error is printed in: text for those that no check has.
    pub fn of_check(self) -> kiln_checker::print::Format {
        use kiln_checker::print::Format as Checks;
        match self {
            Format::Json => Checks::Json,
            Format::Sarif => Checks::Sarif,
            Format::Github => Checks::Github,
            Format::Gitlab => Checks::Gitlab,
            _ => Checks::Text,
        }
    }
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Verify offline, without root: a verdict for each program, explained.
    #[command(after_help = examples::CHECK)]
    Check(CheckArguments),
    /// Write a smaller drop-in object, every rewrite with its evidence.
    #[command(after_help = examples::OPTIMIZE)]
    Optimize(OptimizeArguments),
    /// Make a safe program that the verifier rejects one that loads, with the proof that it does the same.
    #[command(after_help = repair::EXAMPLES)]
    Repair {
        /// What to repair.
        #[command(flatten)]
        object: ObjectArguments,
        /// How, and where to.
        #[command(flatten)]
        arguments: RepairArguments,
    },
    /// Guard heap accesses and make loops cancellable, so that plain pointers and loops load.
    #[command(after_help = examples::SANDBOX)]
    Sandbox(SandboxArguments),
    /// Compile C for BPF: clang with the right flags, then sandbox and optimize.
    #[command(after_help = examples::CC)]
    Cc(CcArguments),
    /// Check the proofs of an optimization again, with another solver.
    #[command(after_help = examples::EVIDENCE)]
    VerifyEvidence(EvidenceArguments),
    /// Search many programs for rewrites, offline, and make rules for kiln optimize of them.
    #[command(after_help = examples::LEARN)]
    Learn(LearnArguments),
    /// Compile programs to native code through clang: a shared object, a static library and a C header.
    #[command(after_help = build::EXAMPLES)]
    Build(build::BuildArguments),
    /// Run one program on one input, in the embedded VM or the kernel.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// Measure programs before and after optimization, in the VM and the kernel.
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArguments),
    /// Disassemble, with source lines, maps, relocations and facts.
    #[command(after_help = examples::DUMP)]
    Dump(DumpArguments),
    /// Query in SQL what the kernel does: system calls, scheduling, block I/O, TCP, any tracepoint.
    #[command(after_help = examples::QUERY)]
    Query(QueryArguments),
    /// Run queries as a service: installed, listed and stopped over a local socket, shown in a page of its own.
    #[command(after_help = serve::EXAMPLES)]
    Serve(ServeArguments),
    /// Run a key-value store: memcached's protocol, with get and set in XDP if asked for.
    #[command(after_help = kv::EXAMPLES)]
    Kv(KvArguments),
    /// List the tables that kiln query knows, or the columns of one; check them for this kernel or others.
    #[command(after_help = query::TABLES_EXAMPLES)]
    Tables(TablesArguments),
    /// Say which processor or socket gets each packet, by a policy of one expression.
    #[command(after_help = dispatch::EXAMPLES)]
    Dispatch(DispatchArguments),
    /// Say how much a TCP connection may send, by a policy in the language of CCP.
    #[command(after_help = congestion::EXAMPLES)]
    Congestion(CongestionArguments),
    /// List native operations, or mark them in an object.
    #[command(after_help = examples::OPS)]
    Ops(OpsArguments),
    /// Explain the code of a rejection or a rule of the lint, and what usually fixes it; without a code, list all.
    ///
    /// With --log: explain what a kernel's verifier printed, for who has only the log.
    #[command(after_help = explain::EXAMPLES)]
    Explain(ExplainArguments),
    /// Serve an editor: verdicts on C sources when they are saved, over the Language Server Protocol.
    #[command(after_help = examples::LSP)]
    Lsp {
        /// Speak on standard input and output, which is the only way; editors add it by themselves.
        #[arg(long)]
        stdio: bool,
    },
    /// Check what this machine can do, and print the command that fixes each gap.
    ///
    /// Exit code 1 if something is missing that the commands need; what only some programs need does not count.
    Doctor {
        /// Look at what developing and testing Kiln needs, too.
        #[arg(long)]
        dev: bool,
        /// Measure what instructions, helpers, tracepoints and records cost on this machine instead, for the estimates of
        /// `kiln query`. Needs root, and takes some seconds.
        #[arg(long, conflicts_with = "dev")]
        calibrate: bool,
        /// Where the measurements are written; by default KILN_COST_MODEL or ~/.config/kiln/machine.cost, which `kiln query`
        /// reads.
        #[arg(short, long, value_name = "FILE", requires = "calibrate", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Print a shell's completion script.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages of all commands.
    Manual {
        /// The folder, which exists.
        folder: PathBuf,
    },
}

/// Which object, and what its programs are.
#[derive(Args, Debug)]
pub struct ObjectArguments {
    /// A BPF object file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub object: PathBuf,
    /// The type of programs whose section name does not tell it, such as `xdp`, or `NAME=xdp` for one program.
    #[arg(long = "type", value_name = "[PROGRAM=]TYPE", value_parser = program_type, add = complete::types())]
    pub types: Vec<(String, ProgramType)>,
    /// Only this program (repeatable).
    #[arg(long, short, value_name = "NAME", add = complete::programs())]
    pub program: Vec<String>,
}

/// `kiln check`.
#[derive(Args, Debug)]
pub struct CheckArguments {
    /// BPF object files, and folders of them; C sources, which are compiled as kiln cc does, with the flags of the nearest
    /// compile_commands.json or kiln.toml.
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub objects: Vec<PathBuf>,
    /// The type of programs whose section name does not tell it, such as `xdp`, or `NAME=xdp` for one program.
    #[arg(long = "type", value_name = "[PROGRAM=]TYPE", value_parser = program_type, add = complete::types())]
    pub types: Vec<(String, ProgramType)>,
    /// Only this program (repeatable).
    #[arg(long, short, value_name = "NAME", add = complete::programs())]
    pub program: Vec<String>,
    /// Check the object as a loader passes it on after it has set this variable, such as a `const volatile` one;
    /// repeatable. VALUE is JSON or text, as for `kiln run`.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "with_kernel")]
    pub set: Vec<String>,
    /// The object with the function that freplace programs stand for: the one that their section names, or FUNCTION.
    #[arg(long, value_name = "PROG.o[:FUNCTION]", value_hint = ValueHint::FilePath)]
    pub replaces: Option<String>,
    /// Print only what is not accepted, and the last line, which counts.
    #[arg(long, short)]
    pub quiet: bool,
    /// Objects checked in parallel; by default one per processor.
    #[arg(long, short, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// A document of an earlier `kiln check --format json`: what it has is known, and does not change the exit code.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub baseline: Option<PathBuf>,
    /// Keep the verdicts of several objects in this folder; by default where KILN_CACHE says, or in ~/.cache/kiln/verdicts.
    /// Only entries that were made with the user's own key are used again.
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub cache: Option<PathBuf>,
    /// Use no kept verdicts and keep none.
    #[arg(long, conflicts_with = "cache")]
    pub no_cache: bool,
    /// Check again whenever an object, a source or what it includes changes, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// Ask the running kernel too, and print both verdicts (needs privilege).
    #[arg(long)]
    pub with_kernel: bool,
    /// Print how many instructions were processed for each source line, and what multiplies them.
    #[arg(long, conflicts_with = "kernel")]
    pub profile: bool,
    /// Write the profile of all programs as one flame graph, an SVG that a browser opens.
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath, conflicts_with = "kernel")]
    pub flame_graph: Option<PathBuf>,
    /// The kernels to check for: 4.18 to 7.3, `running`, or `all` (5.15, 6.1, 6.6, 6.12, 6.18); repeatable. By default
    /// those that KILN_KERNEL or the nearest kiln.toml names, or else the running one.
    #[arg(long, value_name = "RELEASE", value_delimiter = ',', conflicts_with = "with_kernel", add = complete::kernels())]
    pub kernel: Vec<Kernel>,
    /// The kernel's BTF (such as /sys/kernel/btf/vmlinux): resolve CO-RE relocations against it, and take kernel
    /// structures and functions from it instead of the running kernel. A folder has a BTF for each release, in BTFHub's
    /// layout (.btf or .btf.tar.xz); without --kernel, all of them are checked for.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    pub btf: Option<PathBuf>,
    /// Apply the rules for unprivileged users: no pointer leaks, no loops, 4096 instructions.
    #[arg(long, conflicts_with = "with_kernel")]
    pub unprivileged: bool,
    /// Write edits into C sources that make rejected programs load, after showing them. Each was compiled and checked. Only
    /// those that add what is missing, such as a check, unless --unsafe-fixes is given.
    #[arg(long, conflicts_with_all = ["watch", "unprivileged"])]
    pub fix: bool,
    /// With --fix: edits too that change what the source says, such as a type, a result or a section.
    #[arg(long, requires = "fix")]
    pub unsafe_fixes: bool,
    /// With --fix: show the edits and write nothing.
    #[arg(long, requires = "fix")]
    pub dry_run: bool,
    /// Warn about code that is accepted and doubtful all the same. Warnings do not change the exit code.
    #[arg(long)]
    pub lint: bool,
    /// Warn as with --lint, and make warnings of this rule (or `all`) errors: exit code 1.
    #[arg(long, value_name = "RULE", value_delimiter = ',', add = complete::rules())]
    pub deny: Vec<String>,
    /// Leave this rule of the lint out; `// kiln: allow(RULE)` does so for one line of the source.
    #[arg(long, value_name = "RULE", value_delimiter = ',', add = complete::rules())]
    pub allow: Vec<String>,
}

/// `kiln optimize`.
#[derive(Args, Debug)]
pub struct OptimizeArguments {
    /// BPF object files, and folders of them.
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub objects: Vec<PathBuf>,
    /// The type of programs whose section name does not tell it, such as `xdp`, or `NAME=xdp` for one program.
    #[arg(long = "type", value_name = "[PROGRAM=]TYPE", value_parser = program_type, add = complete::types())]
    pub types: Vec<(String, ProgramType)>,
    /// Only this program (repeatable).
    #[arg(long, short, value_name = "NAME", add = complete::programs())]
    pub program: Vec<String>,
    /// Where to write the result; `-` is standard output, and the table is left out. For several objects or a folder,
    /// the folder to write them into, each below it as it was below its own.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// What to optimize for.
    #[arg(long, value_name = "GOAL", value_enum, default_value_t = Goal::Balanced)]
    pub goal: Goal,
    /// The costs of instructions and helpers for time estimates: a file of `kiln bench --profile`. By default Kiln's
    /// own table for this architecture.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub cost_model: Option<PathBuf>,
    /// Maximum seconds. By default 10 for objects up to 200 slots, and up to 60 for larger ones, which is seldom used
    /// up. A longer budget lets the search continue. With `--evidence`, half of it is for optimizing, and functions
    /// without a certificate in time stay unchanged. Without `--budget`, certificates have as long as optimizing took,
    /// and 20 seconds at least.
    #[arg(long, value_name = "SECONDS")]
    pub budget: Option<f64>,
    /// The kernels that the result must load on, by default as for `kiln check`. Instructions that the oldest one lacks
    /// are not used.
    #[arg(long, value_name = "RELEASE", value_delimiter = ',', add = complete::kernels())]
    pub kernel: Vec<Kernel>,
    /// Do not ask the running kernel at the end.
    #[arg(long)]
    pub offline: bool,
    /// Write a certificate into this folder: listings, and the proof that each function does what it did. A function
    /// without such a proof stays unchanged.
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub evidence: Option<PathBuf>,
    /// Write a report: listings before and after side by side, each change with its rule or law and its proof. It is
    /// one HTML file that needs no network.
    #[arg(long, value_name = "FILE.html", value_hint = ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// Use the rules of this file instead of Kiln's own; each is proved before it is used.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rules: Option<PathBuf>,
    /// Print every rewrite, and every try that was not kept.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print where the time went.
    #[arg(long)]
    pub timings: bool,
}

/// `kiln sandbox`.
#[derive(Args, Debug)]
pub struct SandboxArguments {
    /// A BPF object file. All of its programs are sandboxed.
    #[arg(value_hint = ValueHint::FilePath)]
    pub object: PathBuf,
    /// The type of programs whose section name does not tell it, such as `xdp`, or `NAME=xdp` for one program.
    #[arg(long = "type", value_name = "[PROGRAM=]TYPE", value_parser = program_type, add = complete::types())]
    pub types: Vec<(String, ProgramType)>,
    /// Where to write the result.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Where the result is to run.
    #[arg(long, value_enum, default_value_t = SandboxTarget::Linux)]
    pub target: SandboxTarget,
    /// Seconds that one run may spend in loops, callees included, before it is cancelled; 0.01 by default. With --target vm,
    /// `kiln run --quantum` says it.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub quantum: Option<f64>,
    /// What a cancelled program returns; by default the hook's value for "no program" (XDP_PASS).
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub cancelled_return: Option<i32>,
    /// After this many cancelled runs, every further run returns at once as if it were cancelled.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..1 << 31))]
    pub detach_after: Option<u32>,
    /// Keep guards and cancellation points that are provably unnecessary.
    #[arg(long)]
    pub keep_all: bool,
    /// Print every cancellation point with its source line.
    #[arg(long)]
    pub explain: bool,
    /// Do not ask the running kernel at the end.
    #[arg(long)]
    pub offline: bool,
}

/// Where a sandboxed object is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SandboxTarget {
    /// Linux 6.12 and later, and the VM.
    Linux,
    /// The VM only.
    Vm,
}

/// `kiln cc`.
#[derive(Args, Debug)]
pub struct CcArguments {
    /// clang's arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub arguments: Vec<String>,
}

/// What to optimize for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Goal {
    /// Fewest slots; it may run longer, or take the kernel's verifier longer.
    Size,
    /// Least estimated time; it may take more slots.
    Speed,
    /// Fewest instructions for the kernel's verifier to process; it may take more slots.
    Complexity,
    /// Fewer slots, if neither time nor processed instructions get worse.
    Balanced,
}

/// `kiln learn`.
#[derive(Args, Debug)]
pub struct LearnArguments {
    /// Object files, and folders of them.
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub corpora: Vec<PathBuf>,
    /// The rule file to extend or create.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Maximum seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    pub budget: f64,
    /// Windows searched in parallel; by default one per processor.
    #[arg(long, short, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

/// `kiln verify-evidence`.
#[derive(Args, Debug)]
pub struct EvidenceArguments {
    /// The folder that kiln optimize --evidence wrote.
    #[arg(value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// The object before optimization: the evidence must begin with it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub original: Option<PathBuf>,
    /// The object after optimization: the evidence must end with it, instruction by instruction.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub object: Option<PathBuf>,
    /// The solver: cvc5, bitwuzla, z3, or the path of another that reads SMT-LIB 2 from its input.
    #[arg(long, value_name = "SOLVER", value_hint = ValueHint::ExecutablePath)]
    pub solver: Option<String>,
    /// Maximum seconds for one query.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub timeout: f64,
    /// Functions checked in parallel; by default one per processor.
    #[arg(long, short, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
}

/// `kiln ops`.
#[derive(Args, Debug)]
pub struct OpsArguments {
    /// A BPF object file; without one, the operations themselves are listed.
    #[arg(value_hint = ValueHint::FilePath)]
    pub object: Option<PathBuf>,
    /// Where to write the object with marks. Its programs keep their meaning.
    #[arg(long, short, value_name = "FILE", requires = "object", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Whose JIT compiles the marked operations.
    #[arg(long, value_enum, requires = "object", default_value = "kiln")]
    pub target: OpsTarget,
}

/// A JIT that compiles native operations.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpsTarget {
    /// Kiln's.
    Kiln,
    /// Linux's, with the patches in kernel/. The instructions of each operation are moved side by side.
    Linux,
}

/// `kiln dump`.
#[derive(Args, Debug)]
pub struct DumpArguments {
    /// The object.
    #[command(flatten)]
    pub object: ObjectArguments,
    /// Print what the verifier knows before each instruction.
    #[arg(long)]
    pub facts: bool,
    /// Do not print source lines.
    #[arg(long)]
    pub no_source: bool,
    /// Print the machine instructions that the VM's JIT makes of each instruction.
    #[arg(long)]
    pub native: bool,
    /// The machine to compile for; by default this one.
    #[arg(long, value_enum, requires = "native")]
    pub machine: Option<Machine>,
}

/// A machine that the JIT has.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Machine {
    /// x86-64.
    #[value(name = "x86-64", alias = "x86_64")]
    X86,
    /// 64-bit Arm.
    #[value(name = "arm64", alias = "aarch64")]
    Arm,
}

impl Machine {
    /// As the driver calls it.
    pub fn arch(self) -> native_dump::Arch {
        match self {
            Machine::X86 => native_dump::Arch::X86_64,
            Machine::Arm => native_dump::Arch::Aarch64,
        }
    }
}
