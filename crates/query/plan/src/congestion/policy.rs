//! What a policy says: variables, clauses at each acknowledgement, and clauses at each report.

use crate::expr::Expr;
use crate::table::{Column, Scan, Source, Table};
use crate::value::DataType;

/// Variables of a policy at most: the words of a connection's private data, without three of Kiln's own.
pub const MAX_VARIABLES: usize = 10;
/// Clauses of a policy at most.
pub const MAX_CLAUSES: usize = 64;
/// Variables of user space at most.
pub const MAX_USER_VARIABLES: usize = 16;
/// Places of a policy's clauses at most that report: each is written out in the program.
pub const MAX_REPORTS: usize = 64;
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
    /// Microseconds since user space last answered; the greatest number if it never did.
    Silent,
}

impl Signal {
    /// All of them, with their names and what they are.
    pub const ALL: [(Signal, &'static str, &'static str); 13] = [
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
        (Signal::Silent, "User.silent_us", "microseconds since user space answered; +infinity before its first answer"),
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
    /// A variable of user space, by its number.
    User(usize),
}

/// The columns of a report besides what policies name: whose it is, and what user space has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Identity {
    /// The connection's identity.
    Id,
    /// The local port, the remote one in network order, and the address family, from the lowest bits on.
    Ports,
    /// The first half of the local address.
    Local,
    /// Its second half.
    LocalEnd,
    /// The first half of the remote address.
    Remote,
    /// Its second half.
    RemoteEnd,
    /// Whether the clauses that run in user space are to be looked at.
    Wanted,
}

impl Identity {
    /// All of them.
    pub(crate) const ALL: [Identity; 7] = [
        Identity::Id,
        Identity::Ports,
        Identity::Local,
        Identity::LocalEnd,
        Identity::Remote,
        Identity::RemoteEnd,
        Identity::Wanted,
    ];

    /// Its column: behind all that a policy can name.
    pub(crate) const fn column(self) -> usize {
        Place::User(MAX_USER_VARIABLES).column() + self as usize
    }
}

impl Place {
    /// Those that every policy has, with their names and what they are.
    pub const NAMED: [(Place, &'static str, &'static str); 3] = [
        (Place::Window, "Cwnd", "the congestion window, in bytes"),
        (Place::Rate, "Rate", "bytes a second that are sent"),
        (Place::Timer, "Micros", "microseconds since it was set to 0"),
    ];

    /// Its column.
    pub const fn column(self) -> usize {
        let first = Signal::ALL.len();
        match self {
            Place::Window => first,
            Place::Rate => first + 1,
            Place::Timer => first + 2,
            Place::Variable(number) => first + Place::NAMED.len() + number,
            Place::User(number) => first + Place::NAMED.len() + MAX_VARIABLES + number,
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

/// A variable of a connection that user space keeps: a floating-point number.
#[derive(Clone, PartialEq, Debug)]
pub struct UserVariable {
    /// Its name.
    pub name: String,
    /// What it is when the connection begins.
    pub initial: f64,
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
    /// Its clauses at each acknowledgement.
    pub clauses: Vec<Clause>,
    /// Its variables in user space.
    pub user_variables: Vec<UserVariable>,
    /// Its clauses at each report.
    pub on_report: Vec<Clause>,
}

impl Policy {
    /// What expressions are over, as a table: signals, places, variables, those of user space. Variables that the policy
    /// does not have are without a name.
    pub fn table(&self) -> Table {
        let signals = Signal::ALL.into_iter().map(|(_, name, _)| name);
        let places = Place::NAMED.into_iter().map(|(_, name, _)| name);
        let names = self.variables.iter().map(|variable| variable.name.as_str());
        let variables = names.chain(std::iter::repeat("")).take(MAX_VARIABLES);
        let kernel = signals.chain(places).chain(variables).map(|name| (name, DataType::Uint));
        let user = self.user_variables.iter().map(|variable| (variable.name.as_str(), DataType::Float));
        let column = |(name, data_type): (&str, DataType)| Column {
            name: name.to_owned(),
            data_type,
            about: String::new(),
            source: Source::Given,
            listed: true,
        };
        Table {
            name: "acknowledgement".to_owned(),
            about: "an acknowledgement".to_owned(),
            scan: Scan::Rows,
            columns: kernel.chain(user).map(column).collect(),
            only: None,
            interrupts: false,
        }
    }

    /// Its clauses, those at reports last.
    fn all_clauses(&self) -> impl Iterator<Item = &Clause> {
        self.clauses.iter().chain(&self.on_report)
    }

    /// All that it computes.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.all_clauses().flat_map(Clause::expressions)
    }

    /// Whether it sets a place.
    pub fn sets(&self, place: Place) -> bool {
        self.all_clauses().flat_map(Clause::places).any(|own| own == place)
    }

    /// At how many places it reports.
    pub fn reports(&self) -> usize {
        self.clauses.iter().flat_map(|clause| &clause.steps).filter(|step| **step == Step::Report).count()
    }
}

impl Clause {
    /// What it computes.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let assigned = self.steps.iter().filter_map(|step| match step {
            Step::Assign(_, value) => Some(value),
            Step::Report => None,
        });
        std::iter::once(&self.when).chain(assigned)
    }

    /// What it sets.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.steps.iter().filter_map(|step| match step {
            Step::Assign(place, _) => Some(*place),
            Step::Report => None,
        })
    }
}
