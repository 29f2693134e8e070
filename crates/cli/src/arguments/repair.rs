//! `kiln repair`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use kiln_driver::kernels::Kernel;

use super::complete;

pub const EXAMPLES: &str = "\
Examples:
  kiln repair prog.o -o prog.ok.o     what the verifier rejects although it is
                                      safe
  kiln repair prog.o -o prog.ok.o --kernel 5.15
                                      for an older kernel
  kiln repair prog.o -o prog.ok.o --guards
                                      where nothing is proved: end the run
                                      instead
  kiln repair prog.o -o prog.ok.o --evidence proofs
                                      then: kiln verify-evidence proofs

Exit code 1 when a program is still rejected; the object is written all the
same, and that program is unchanged in it. Ctrl-C ends the search and writes
what was repaired.";

/// `kiln repair`.
#[derive(Args, Debug)]
pub struct RepairArguments {
    /// Where to write the result; `-` is standard output, and the report is left out.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// The kernels that decide, by default as for `kiln check`; of several, the oldest.
    #[arg(long, value_name = "RELEASE", value_delimiter = ',', add = complete::kernels())]
    pub kernel: Vec<Kernel>,
    /// Where a program would be unsafe, end its run with this value. Without VALUE: the one that does the least harm at
    /// the hook (XDP_ABORTED, TC_ACT_SHOT, 0 for tracing); hooks that allow or forbid something have none.
    #[arg(long, value_name = "VALUE", num_args = 0..=1, require_equals = true, allow_hyphen_values = true)]
    pub guards: Option<Option<i32>>,
    /// Maximum seconds, 60 by default.
    #[arg(long, value_name = "SECONDS")]
    pub budget: Option<f64>,
    /// Do not ask the running kernel at the end.
    #[arg(long)]
    pub offline: bool,
    /// Write a certificate into this folder: listings, and the proof that each function does what it did.
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub evidence: Option<PathBuf>,
}
