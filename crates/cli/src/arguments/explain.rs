//! `kiln explain`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::complete;

pub const EXAMPLES: &str = "\
Examples:
  kiln explain possibly-null
  kiln explain --log load.log         what libbpf, bpftool or a loader printed
  bpftool prog load p.o /sys/fs/bpf/p 2>&1 | kiln explain --log -
  kiln explain --log load.log --object p.o
                                      and Kiln's own verdict on the program";

/// `kiln explain`.
#[derive(Args, Debug)]
pub struct ExplainArguments {
    /// The code, such as possibly-null.
    #[arg(conflicts_with = "log", add = complete::codes())]
    pub code: Option<String>,
    /// A file with the log of a kernel's verifier (`-`: standard input), of any release and loader.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// The BPF object file that was loaded: Kiln's own verdict follows.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "log")]
    pub object: Option<PathBuf>,
}
