//! The arguments of `kiln serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};

use super::query::{duration, percent, ring_bytes};
use super::tls::TlsArguments;

/// Shown below `kiln serve --help`.
pub const EXAMPLES: &str = "\
Examples:
  kiln serve --listen 127.0.0.1:9436  a service, with a page for browsers
  kiln serve --postgres 127.0.0.1:5433  the same for psql and Grafana
  kiln serve install calls 'SELECT name, count(*) AS n FROM syscalls
      GROUP BY name WINDOW 1 SECOND'
  kiln serve list                     what runs, what it costs, what was lost;
                                      the page's address
  kiln serve show calls               its last windows (--format table, lines,
                                      csv, ndjson, json)
  kiln serve install calls 'SELECT ...' --replace --trial 60s --socket hosts
                                      on all hosts of a folder, or on none
  kiln serve rollback calls           the version before
  kiln serve stop calls               stops it, and shows its last windows

Ctrl-C ends the service; nothing stays attached, however it ends.";

/// `kiln serve`.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// What to ask of a service that runs; without it, this is the service.
    #[command(subcommand)]
    pub command: Option<ServeCommand>,
    /// The service's socket; only the user of the service can use it. Install, list, rollback and stop also take a folder of
    /// sockets, one for each host.
    #[arg(long, value_name = "PATH", default_value = "/run/kiln.sock", global = true, value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,
    /// Show a page at this address, such as 127.0.0.1:9436. The page only reads, and its address has a key.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Answer psql, Grafana and other clients of PostgreSQL at this address, such as 127.0.0.1:5433. Their password is
    /// printed with the address.
    #[arg(long, value_name = "ADDRESS")]
    pub postgres: Option<String>,
    /// Allow --listen and --postgres addresses that other machines can reach: with --tls-cert, both are encrypted.
    #[arg(long)]
    pub listen_anywhere: bool,
    /// What encrypts both.
    #[command(flatten)]
    pub tls: TlsArguments,
    /// Send the rows of all queries to an OTLP receiver such as an OpenTelemetry Collector, too.
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
    /// Maximum number of queries.
    #[arg(long, value_name = "NUMBER", default_value_t = 256)]
    pub max_queries: usize,
    /// Share of one processor that the programs of one query may take over half a second; a query that takes more ends.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "5%")]
    pub max_overhead: f64,
    /// Share of one processor that the programs of all queries may take; above it, the query that takes the most ends.
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "20%")]
    pub max_total_overhead: f64,
    /// Rows that a query keeps unless it asks for another number: for readers, groups of open windows, pairs without an
    /// end, and rows to be ordered, each.
    #[arg(long, value_name = "NUMBER", default_value_t = 16_384)]
    pub rows: usize,
    /// Maximum number of rows that all queries together may ask to keep.
    #[arg(long, value_name = "NUMBER", default_value_t = 4_194_304)]
    pub max_rows: usize,
    /// Size in bytes of each query's ring buffer between kernel and user space, a power of two.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = ring_bytes)]
    pub ring_bytes: u32,
}

/// What a service is asked.
#[derive(Subcommand, Debug)]
pub enum ServeCommand {
    /// Install a query; it runs until it is stopped.
    Install(InstallArguments),
    /// List the queries, what they cost, and what they lost.
    List,
    /// Show the last windows of a query.
    Show {
        /// The query's name.
        name: String,
    },
    /// Withdraw the latest version of a query: the one before runs again.
    Rollback {
        /// The query's name.
        name: String,
    },
    /// Stop a query, and show its last windows.
    Stop {
        /// The query's name.
        name: String,
    },
}

/// `kiln serve install`.
#[derive(Args, Debug)]
pub struct InstallArguments {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The query.
    pub sql: String,
    /// End it if its programs take more than this share of one processor over half a second, such as 2%.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub max_overhead: Option<f64>,
    /// How many rows it keeps.
    #[arg(long, value_name = "NUMBER")]
    pub rows: Option<usize>,
    /// Replace the query of this name. It runs again where the new version is above its limit or fails.
    #[arg(long)]
    pub replace: bool,
    /// Put it on trial for this long, by default 10s on a folder of sockets: if a host ends it, withdraw it from all hosts.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub trial: Option<Duration>,
}
