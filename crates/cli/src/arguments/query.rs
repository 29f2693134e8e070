//! The arguments of `kiln query` and `kiln tables`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use kiln_driver::kernels::Kernel;

use super::complete;
use kiln_driver::query::Split;
use kiln_driver::query::budget::Sample;

/// `kiln query`.
#[derive(Args, Debug)]
pub struct QueryArguments {
    /// The query.
    pub sql: String,
    /// End after this long, such as 500ms, 10s or 5m.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Only this process.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Only threads of this name.
    #[arg(long, value_name = "NAME")]
    pub comm: Option<String>,
    /// Only this cgroup (version 2) and those below it: a path, absolute or from the mount of cgroup2.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub cgroup: Option<PathBuf>,
    /// Only this container: its id, or the first characters of it.
    #[arg(long, value_name = "ID")]
    pub container: Option<String>,
    /// A lookup table: a file of comma-separated values whose first line names the columns. It can be given several times.
    #[arg(long, value_name = "NAME=FILE", value_parser = lookup)]
    pub lookup: Vec<(String, PathBuf)>,
    /// How much runs in the kernel: mvsf, columns, filter, pair or aggregate; by default as much as loads.
    #[arg(long, value_name = "SPLIT", value_parser = split)]
    pub split: Option<Split>,
    /// Print which splits were tried and why some were rejected.
    #[arg(long)]
    pub trace_plan: bool,
    /// Store all events of the query's tables in a file, for --replay: also those that WHERE, --pid, --comm or a command
    /// excludes.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["replay", "split"])]
    pub record: Option<PathBuf>,
    /// Query the events in a file instead of the running kernel. This needs no root, unless --split runs a part in the
    /// kernel on the recorded events.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = ["duration", "trace_plan", "command"])]
    pub replay: Option<PathBuf>,
    /// Size in bytes of the ring buffer between kernel and user space, a power of two.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = ring_bytes)]
    pub ring_bytes: u32,
    /// What the query may take of one processor, such as 2%. Events are counted for a moment before it begins: a query that
    /// cannot fit is refused. It ends if its programs take more than this over half a second.
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "replay")]
    pub max_overhead: Option<f64>,
    /// Begin a row at one event in this many, chosen at random, or `auto`: at as many as --max-overhead allows. Counts, sums
    /// and histograms are multiplied.
    #[arg(long, value_name = "NUMBER", value_parser = sample, conflicts_with_all = ["replay", "record"])]
    pub sample: Option<Sample>,
    /// Send the rows to an OTLP receiver such as an OpenTelemetry Collector instead of printing them, such as
    /// http://127.0.0.1:4318 or grpc://127.0.0.1:4317: groups as metrics, other rows as log records.
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Answer Prometheus at this address, under /metrics, instead of printing the rows, such as 127.0.0.1:9435. The query
    /// needs an aggregate and a WINDOW.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "replay")]
    pub prometheus: Option<String>,
    /// Maximum number of series for Prometheus; rows of further groups are counted and dropped.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, requires = "prometheus")]
    pub max_series: usize,
    /// The file that --format parquet, arrow, flame-graph or pprof writes.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["otlp", "prometheus"])]
    pub output: Option<PathBuf>,
    /// A command to run. The query covers only this command and its children, and ends with it.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Shown under `kiln tables --help`.
pub const TABLES_EXAMPLES: &str = "\
Examples:
  kiln tables                         all tables, and what this kernel lacks
  kiln tables tracepoint.sched.sched_switch
                                      the columns of one
  kiln tables --check --kernel all    which releases have which tables, without
                                      root
  kiln tables --check --with-kernel   the same for this kernel, which also loads
                                      the programs";

/// `kiln tables`.
#[derive(Args, Debug)]
pub struct TablesArguments {
    /// The table, such as syscalls or tracepoint.sched.sched_switch, or usdt.FILE: those of a file's static probes.
    pub table: Option<String>,
    /// Write the programs that read each table and verify them, and say which tables and columns a kernel lacks. Exit code 1
    /// if a program is refused, or if the table that was named is lacking.
    #[arg(long)]
    pub check: bool,
    /// The kernels to check for: 4.18 to 7.3, `running`, or `all` (5.15, 6.1, 6.6, 6.12, 6.18); repeatable. By default as
    /// for `kiln check`.
    #[arg(long, value_name = "RELEASE", value_delimiter = ',', requires = "check", add = complete::kernels())]
    pub kernel: Vec<Kernel>,
    /// A file with a kernel's BTF, or a folder with one for each release; by default the running kernel's.
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, requires = "check")]
    pub btf: Option<PathBuf>,
    /// Load the programs into the running kernel, too (needs privilege).
    #[arg(long, requires = "check", conflicts_with_all = ["kernel", "btf"])]
    pub with_kernel: bool,
}

fn split(text: &str) -> Result<Split, String> {
    let known = || Split::ALL.map(Split::name).join(", ");
    Split::ALL.into_iter().find(|split| split.name() == text).ok_or_else(|| format!("known are {}", known()))
}

/// `auto`, `100` or `1/100`.
fn sample(text: &str) -> Result<Sample, String> {
    if text == "auto" {
        return Ok(Sample::Auto);
    }
    let number = text.strip_prefix("1/").unwrap_or(text).parse().ok().filter(|number| (1..=1 << 20).contains(number));
    number.map(Sample::OneIn).ok_or_else(|| "a number from 1 to 1048576 or `auto` is expected".to_owned())
}

/// `teams=teams.csv`.
fn lookup(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text.split_once('=').unwrap_or_default();
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match is_name(name) && !file.is_empty() {
        true => Ok((name.to_owned(), PathBuf::from(file))),
        false => Err("a name and a file are expected, such as teams=teams.csv".to_owned()),
    }
}

/// `2%` or `0.5%` as a part of one.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let number = number.filter(|number| number.is_finite() && *number > 0.0);
    number.map(|number| number / 100.0).ok_or_else(|| "a part of one processor such as 2% is expected".to_owned())
}

pub(super) fn ring_bytes(text: &str) -> Result<u32, String> {
    let bytes: u32 = text.parse().map_err(|_| "a number of bytes is expected".to_owned())?;
    let fits = bytes.is_power_of_two() && (4096..=1 << 30).contains(&bytes);
    if fits { Ok(bytes) } else { Err("a power of two from 4096 to 1073741824 is expected".to_owned()) }
}

/// `500ms`, `10s`, `5m`, `1h`; a number alone is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let number: f64 =
        text[..text.len() - unit.len()].parse().map_err(|_| "a time such as 10s is expected".to_owned())?;
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time such as 500ms, 10s or 5m is expected".to_owned()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| "the time is too long".to_owned())
}
