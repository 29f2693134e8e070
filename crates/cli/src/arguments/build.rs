//! `kiln build`'s flags.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use kiln_driver::Setting;

use super::ObjectArguments;

pub const EXAMPLES: &str = "\
Examples:
  kiln build prog.o -o native         NAME.so, NAME.a and NAME.h for each
                                      program, the fastest setting
  kiln build prog.o --native=size -o native
                                      as few bytes of code as possible
  kiln build prog.o --cpu x86-64-v2 -o native
                                      for other machines than this one

Environment: KILN_CLANG names clang (clang-19). Results are kept in
XDG_CACHE_HOME or ~/.cache, in kiln/native.";

/// How clang compiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Native {
    /// The fastest, measured here.
    Best,
    /// -O3 with vectorized loops.
    Fast,
    /// -O2 without vectors and copies of loops.
    Scalar,
    /// -Oz.
    Size,
}

impl Native {
    /// The setting, if one is named.
    pub fn setting(self) -> Option<Setting> {
        match self {
            Native::Best => None,
            Native::Fast => Some(Setting::Fast),
            Native::Scalar => Some(Setting::Scalar),
            Native::Size => Some(Setting::Size),
        }
    }
}

/// `kiln build`.
#[derive(Args, Debug)]
pub struct BuildArguments {
    /// The object.
    #[command(flatten)]
    pub object: ObjectArguments,
    /// How to compile.
    #[arg(long, value_enum, value_name = "SETTING", num_args = 0..=1, default_value_t = Native::Best,
        default_missing_value = "best", require_equals = true)]
    pub native: Native,
    /// The CPU that the code is for, by clang's name for it; by default this machine's.
    #[arg(long, value_name = "CPU")]
    pub cpu: Option<String>,
    /// The folder for the files; it is created if there is none.
    #[arg(long, short, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
}
