//! The arguments of `kiln congestion`.

use std::time::Duration;

use clap::Args;

use super::query::duration;

/// Shown below `kiln congestion --help`.
pub const EXAMPLES: &str = "\
Examples:
  kiln congestion cubic.ccp           what runs in the kernel and what in user
                                      space (no root)
  kiln congestion aimd.ccp --name kiln_aimd
                                      connections can choose kiln_aimd until
                                      Ctrl-C (root)
  kiln congestion aimd.ccp --name kiln_aimd --duration 1m --format json
  kiln congestion '(when true (:= Cwnd (* 10 Flow.mss)))' --name ten
  kiln congestion --signals           what a policy can read and set

A connection chooses with setsockopt(TCP_CONGESTION), a route with `ip route ...
congctl NAME`.";

/// `kiln congestion`.
#[derive(Args, Debug)]
pub struct CongestionArguments {
    /// The policy, as text that begins with `(`, or a file with it.
    #[arg(required_unless_present = "signals")]
    pub policy: Option<String>,
    /// Register it under this name of at most 15 letters.
    #[arg(long)]
    pub name: Option<String>,
    /// End after this long, such as 500ms, 10s or 5m.
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "name")]
    pub duration: Option<Duration>,
    /// Connections that can have a part in user space at a time, where the policy has one; others run its clauses in
    /// the kernel only.
    #[arg(long, value_name = "N", default_value_t = kiln_driver::congestion::CONNECTIONS,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(kiln_driver::congestion::MAX_CONNECTIONS)))]
    pub connections: u32,
    /// List what a policy can read and set.
    #[arg(long, conflicts_with_all = ["policy", "name"])]
    pub signals: bool,
}
