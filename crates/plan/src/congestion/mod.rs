//! Congestion control policies: how much a TCP connection may send.
//!
//! ```text
//!   (def (acked 0))                                     variables of a connection
//!   (when (> Flow.was_timeout 0) (:= Cwnd Flow.mss))    on each acknowledgement, the first clause that holds
//!   (when true (:= Cwnd (+ Cwnd Ack.bytes_acked)))
//! ```
//!
//! After CCP's datapath programs ("Restructuring Endpoint Congestion Control", SIGCOMM'18; "Kernel Extension DSLs Should Be
//! Verifier-Safe!", section 4.1). A policy becomes programs for the kernel's `tcp_congestion_ops`. It has no loops and
//! no pointers, and its variables have a fixed place in the connection, so every policy loads.
//!
//! All values are unsigned integers of 64 bits. Sums and products wrap, a difference that would be negative is 0, and so
//! is a division by 0.

mod program;

use crate::expr::Expr;
use crate::table::{Column, Scan, Source, Table};
use crate::value::DataType;

pub use program::{Generated, MEMBERS, STRUCTURE, generate};

/// Variables of a policy at most: the words of a connection's private data, without three of Kiln's own.
pub const MAX_VARIABLES: usize = 10;
/// Clauses of a policy at most.
pub const MAX_CLAUSES: usize = 64;
/// Bytes of a policy's name at most (`TCP_CA_NAME_MAX`, less the zero).
pub const MAX_NAME_BYTES: usize = 15;

/// What a policy can read at an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Signal {
    /// Packets that the acknowledgement is for.
    PacketsAcked,
    /// Their bytes, by the size of a segment.
    BytesAcked,
    /// Packets that were found to be lost.
    LostPackets,
    /// Packets that routers have marked (ECN).
    EcnPackets,
    /// The clock, in microseconds.
    Now,
    /// The last round trip, in microseconds; the mean where it was not measured.
    Rtt,
    /// The mean round trip, in microseconds.
    SmoothedRtt,
    /// Bytes a second that arrived over the last round trip.
    RateIncoming,
    /// Packets on their way.
    PacketsInFlight,
    /// Bytes on their way, by the size of a segment.
    BytesInFlight,
    /// Bytes of a segment.
    SegmentBytes,
    /// 1 if nothing was acknowledged for so long that the connection began anew, since the last acknowledgement.
    WasTimeout,
}

impl Signal {
    /// All of them, with their names and what they are.
    pub const ALL: [(Signal, &'static str, &'static str); 12] = [
        (Signal::PacketsAcked, "Ack.packets_acked", "packets that the acknowledgement is for"),
        (Signal::BytesAcked, "Ack.bytes_acked", "their bytes"),
        (Signal::LostPackets, "Ack.lost_pkts_sample", "packets that were found to be lost"),
        (Signal::EcnPackets, "Ack.ecn_packets", "packets that routers have marked"),
        (Signal::Now, "Ack.now", "the clock, in microseconds"),
        (Signal::Rtt, "Flow.rtt_sample_us", "the last round trip, in microseconds"),
        (Signal::SmoothedRtt, "Flow.srtt_us", "the mean round trip, in microseconds"),
        (Signal::RateIncoming, "Flow.rate_incoming", "bytes a second that arrived over the last round trip"),
        (Signal::PacketsInFlight, "Flow.packets_in_flight", "packets on their way"),
        (Signal::BytesInFlight, "Flow.bytes_in_flight", "bytes on their way"),
        (Signal::SegmentBytes, "Flow.mss", "bytes of a segment"),
        (Signal::WasTimeout, "Flow.was_timeout", "1 after a retransmission timeout"),
    ];
}

/// What a policy can set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// The congestion window, in bytes: what may be on its way.
    Window,
    /// Bytes a second that are sent.
    Rate,
    /// Microseconds since it was set to 0.
    Timer,
    /// A variable, by its number.
    Variable(usize),
}

impl Place {
    /// Those that every policy has, with their names and what they are.
    pub const NAMED: [(Place, &'static str, &'static str); 3] = [
        (Place::Window, "Cwnd", "the congestion window, in bytes"),
        (Place::Rate, "Rate", "bytes a second that are sent"),
        (Place::Timer, "Micros", "microseconds since it was set to 0"),
    ];

    /// Its column.
    pub fn column(self) -> usize {
        match self {
            Place::Variable(number) => Signal::ALL.len() + Place::NAMED.len() + number,
            named => Signal::ALL.len() + Place::NAMED.iter().position(|(own, ..)| *own == named).unwrap_or_default(),
        }
    }
}

/// A variable of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What it is when the connection begins.
    pub initial: u64,
    /// Whether reports have it.
    pub is_reported: bool,
    /// Whether it is `initial` again after a report.
    pub is_volatile: bool,
}

/// What a clause does.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Sets something.
    Assign(Place, Expr),
    /// Hands the reported variables to user space.
    Report,
}

/// A clause.
#[derive(Clone, PartialEq, Debug)]
pub struct Clause {
    /// Its condition.
    pub when: Expr,
    /// What is done where it holds.
    pub steps: Vec<Step>,
    /// Whether the clauses behind it are looked at, too.
    pub falls_through: bool,
}

/// A policy.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Policy {
    /// Its variables.
    pub variables: Vec<Variable>,
    /// Its clauses.
    pub clauses: Vec<Clause>,
}

impl Policy {
    /// What expressions are over, as a table: signals, places, variables.
    pub fn table(&self) -> Table {
        let signals = Signal::ALL.into_iter().map(|(_, name, _)| name);
        let places = Place::NAMED.into_iter().map(|(_, name, _)| name);
        let variables = self.variables.iter().map(|variable| variable.name.as_str());
        let column = |name: &str| Column {
            name: name.to_owned(),
            data_type: DataType::Uint,
            about: String::new(),
            source: Source::Given,
            listed: true,
        };
        Table {
            name: "acknowledgement".to_owned(),
            about: "an acknowledgement".to_owned(),
            scan: Scan::Rows,
            columns: signals.chain(places).chain(variables).map(column).collect(),
            only: None,
        }
    }

    /// All that it computes.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.clauses.iter().flat_map(|clause| {
            let assigned = clause.steps.iter().filter_map(|step| match step {
                Step::Assign(_, value) => Some(value),
                Step::Report => None,
            });
            std::iter::once(&clause.when).chain(assigned)
        })
    }

    /// Whether it sets a place.
    pub fn sets(&self, place: Place) -> bool {
        let steps = self.clauses.iter().flat_map(|clause| &clause.steps);
        steps.into_iter().any(|step| matches!(step, Step::Assign(own, _) if *own == place))
    }

    /// Whether it reports.
    pub fn reports(&self) -> bool {
        self.clauses.iter().any(|clause| clause.steps.contains(&Step::Report))
    }
}
