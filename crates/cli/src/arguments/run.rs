//! `kiln run` and `kiln bench`: programs, and what they are given.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use kiln_driver::ProgramType;

use super::build::Native;
use super::{ObjectArguments, program_type};

pub const RUN_EXAMPLES: &str = "\
Examples:
  kiln run prog.o --packet-file packet.bin
  kiln run prog.o --packet 'ffffffffffff 020000000001 0800 45000014...' --maps
  kiln run prog.o -p ingress --packet-file - --in kernel < packet.bin
  kiln run prog.o --packet-file capture.pcapng --pcap-out out.pcap
                                      every packet, and what each returned
  kiln run prog.o --packet-file p.bin --map 'ports:0={\"port\": 80}' \\
      --set debug=true --map stats
  kiln run prog.o --packet-file p.bin --maps-file stats=dump.json
                                      as bpftool map dump -j prints it
  kiln run tracing.o --context-file record.bin";

pub const BENCH_EXAMPLES: &str = "\
Examples:
  kiln bench prog.o
  kiln bench *.o --offline --format json
  kiln bench --profile -o here.cost   then: kiln optimize --cost-model here.cost
                                      ...";

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Place {
    /// The embedded VM, compiled to machine code.
    Jit,
    /// The embedded VM: the JIT's code or clang's, whichever is measured to be faster (KILN_CLANG names another clang).
    Native,
    /// The embedded VM's reference interpreter.
    Interpreter,
    /// The running kernel, by test run (needs privilege).
    Kernel,
}

/// `kiln run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// The object.
    #[command(flatten)]
    pub object: ObjectArguments,
    /// The packet: raw bytes from this file (`-` is standard input). Of a capture (pcap or pcapng), every packet is run, one
    /// after the other on the same maps.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "packet")]
    pub packet_file: Option<PathBuf>,
    /// Write the packets of a capture as the program left them, without those that it dropped, as pcap.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "packet_file")]
    pub pcap_out: Option<PathBuf>,
    /// The packet, in hexadecimal.
    #[arg(long, value_name = "HEX")]
    pub packet: Option<String>,
    /// The context for program types without packets: raw bytes from this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub context_file: Option<PathBuf>,
    /// Where it runs.
    #[arg(long = "in", value_enum, default_value_t = Place::Jit)]
    pub place: Place,
    /// The same as --in native: the fastest of the JIT's and clang's code, measured on this input; or clang's with a setting.
    #[arg(long, value_enum, value_name = "SETTING", num_args = 0..=1, require_equals = true,
        default_missing_value = "best", conflicts_with = "place")]
    pub native: Option<Native>,
    /// Instructions that it may execute in the VM before it is stopped; 1,000,000,000 by default, with --quantum any number.
    #[arg(long, value_name = "INSTRUCTIONS")]
    pub insn_budget: Option<u64>,
    /// Seconds after which the VM cancels a run in a loop that has a cancellation point (kiln sandbox) or may_goto.
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub quantum: Option<f64>,
    /// Bytes that one map or heap may have in the VM. A heap takes memory page by page, when it is touched.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub map_bytes: u64,
    /// How often to run it; the time is the average.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Hide the program's constants in its machine code (constant blinding), against those who would jump into them.
    #[arg(long)]
    pub blind: bool,
    /// Name the program's code for perf, in /tmp/perf-PID.map.
    #[arg(long)]
    pub perf_map: bool,
    /// Write the program's code for `perf inject --jit`, to jit-PID.dump in this folder.
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub jitdump: Option<PathBuf>,
    /// Print the maps afterwards.
    #[arg(long)]
    pub maps: bool,
    /// What maps and global variables hold before.
    #[command(flatten)]
    pub feed: FeedArguments,
}

/// What maps and global variables hold before a run.
#[derive(Args, Debug)]
pub struct FeedArguments {
    /// Set an entry of a map before the run (NAME:KEY=VALUE, numbers, addresses or JSON by the map's types; a prog array
    /// takes the name of a program), or print this map afterwards (NAME). Repeatable.
    #[arg(long, value_name = "NAME[:KEY=VALUE]")]
    pub map: Vec<String>,
    /// Set entries of maps before the run: a file of lists as bpftool prints them, by map name, or NAME=FILE for one list.
    #[arg(long, value_name = "[NAME=]FILE", value_hint = ValueHint::FilePath)]
    pub maps_file: Vec<String>,
    /// Set a global variable before the run, as a loader does before it loads the program. Repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

/// `kiln bench`.
#[derive(Args, Debug)]
pub struct BenchArguments {
    /// BPF object files.
    #[arg(required_unless_present = "profile", value_hint = ValueHint::FilePath)]
    pub objects: Vec<PathBuf>,
    /// Instead measure the costs of instructions and helpers on this machine, for `kiln optimize --cost-model`.
    #[arg(long, conflicts_with = "objects")]
    pub profile: bool,
    /// Where to write the cost model; by default to standard output.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "profile")]
    pub output: Option<PathBuf>,
    /// The type of programs whose section name does not tell it.
    #[arg(long = "type", value_name = "[PROGRAM=]TYPE", value_parser = program_type)]
    pub types: Vec<(String, ProgramType)>,
    /// Maximum seconds to optimize one object.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub budget: f64,
    /// Runs per sample.
    #[arg(long, value_name = "COUNT", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Samples, interleaved; the median is reported.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub samples: u32,
    /// Do not measure in the kernel.
    #[arg(long)]
    pub offline: bool,
    /// The packet: raw bytes from this file; of a capture, its first packet. By default the busiest of a fixed set.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "packet")]
    pub packet_file: Option<PathBuf>,
    /// The packet, in hexadecimal.
    #[arg(long, value_name = "HEX")]
    pub packet: Option<String>,
    /// The context for program types without packets: raw bytes from this file; by default zeros.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub context_file: Option<PathBuf>,
    /// What maps and global variables hold before.
    #[command(flatten)]
    pub feed: FeedArguments,
}
