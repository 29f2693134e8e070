//! Dispatch policies: which executor gets a packet.
//!
//! ```text
//!   schedule(packet): hash(udp.payload[0]) % executors
//!        |
//!        +-- an expression over a packet's fields --> the number of an executor
//!                                                     (none: the kernel decides, as without a policy)
//! ```
//!
//! After Syrup's matching functions, without their pointers ("Kernel Extension DSLs Should Be Verifier-Safe!", section
//! 4.2). Every expression of the language can be computed in the kernel: it reads fields that [`program`] has checked
//! and copied to the frame, and computes without loops or faults. So every policy loads, and there is one split.
//! [`packet::fields`] computes the same in user space, for recorded packets and as the tests' reference.

pub mod field;
pub mod hook;
pub mod packet;
mod program;

use crate::expr::Expr;
use crate::split::number;
use crate::table::{Column, Read, Scan, Side, Source, Table};
use crate::value::{DataType, Value};

pub use field::{Above, Field, PAYLOAD_WORDS};
pub use hook::{Hook, Transport};
pub use program::{Generated, generate};

/// Executors of a policy at most.
pub const MAX_EXECUTORS: u32 = 256;

/// The fields as a table: a row is a packet.
pub fn table() -> Table {
    let column = |field: Field| Column {
        name: match field {
            Field::Payload(word) => format!("payload[{word}]"),
            field => Field::NAMED.iter().find(|(own, ..)| *own == field).map_or("", |(_, name, _)| name).to_owned(),
        },
        data_type: DataType::Uint,
        about: String::new(),
        source: Source::Read { at: Side::Exit, what: Read::Packet(field) },
        listed: true,
    };
    Table {
        name: "packet".to_owned(),
        about: "a packet".to_owned(),
        scan: Scan::Single(crate::table::Hook::Typed("xdp".to_owned())),
        columns: Field::all().map(column).collect(),
        only: None,
        interrupts: false,
    }
}

/// A policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// The number of the executor, over the columns of [`table`].
    pub chosen: Expr,
    /// Packets that it decides.
    pub above: Above,
    /// Executors that there are.
    pub executors: u32,
    /// Where it runs.
    pub at: Hook,
}

/// Why an expression is no policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoPolicy(pub String);

impl Policy {
    /// A policy, if its expression can be computed in the kernel.
    ///
    /// # Errors
    /// A sentence.
    pub fn new(chosen: &Expr, above: Above, executors: u32, at: Hook) -> Result<Policy, NoPolicy> {
        if !(1..=MAX_EXECUTORS).contains(&executors) {
            return Err(NoPolicy(format!("a policy has 1 to {MAX_EXECUTORS} executors, not {executors}")));
        }
        let table = table();
        let data_type = chosen.data_type(&table.types());
        if !matches!(data_type, DataType::Uint | DataType::Int) {
            return Err(NoPolicy(format!("a policy says the number of an executor, and this is {}", data_type.name())));
        }
        let chosen = number(chosen, &table).ok_or_else(|| {
            NoPolicy(
                "a policy has integers of one sign, divides and shifts by constants other than 0 only, and adds and \
                 multiplies only what cannot exceed 64 bits: take `^` or `hash(a, b)` for addresses and words"
                    .to_owned(),
            )
        })?;
        let mut policy = Policy { chosen: chosen.expr, above, executors, at };
        if above == Above::Ip && policy.fields().into_iter().any(Field::is_above_ip) {
            policy.above = Above::Ports;
        }
        if let Some(transport) = at.transport() {
            policy.above = transport.above();
        }
        let lacks = |field| Some(format!("{} cannot say this: {}", at.name(), at.lacks(field)?));
        policy.fields().into_iter().find_map(lacks).map_or(Ok(policy), |lacks| Err(NoPolicy(lacks)))
    }

    /// The fields that it reads.
    pub fn fields(&self) -> Vec<Field> {
        let mut columns = std::collections::BTreeSet::new();
        self.chosen.columns(&mut columns);
        let all: Vec<Field> = Field::all().collect();
        columns.into_iter().filter_map(|column| all.get(column).copied()).collect()
    }

    /// The executor for a packet with these fields; `None` where the kernel decides.
    pub fn executor(&self, row: &[Value]) -> Option<u32> {
        let chosen = self.chosen.evaluate(row).bits()?;
        u32::try_from(chosen).ok().filter(|chosen| *chosen < self.executors)
    }
}
