//! Queries over what the kernel does: logical plans, the splits of a plan between kernel and user space, and both halves.
//!
//! ```text
//!   Query (logical plan)  --Split-->  generate: programs and maps (the IR)     execute: the rest, in user space
//!                                          |                                        ^
//!                                          +---- records, or groups in a map -------+
//! ```
//!
//! The promise is verifier-safety: any valid query loads ("Kernel Extension DSLs Should Be Verifier-Safe!", eBPF'25). It
//! rests on the smallest split ([`split`]): reading, and nothing else, which is the same for every query of a table.
//! Larger splits are tried from there on; each does more in the kernel and gives the same answer.
//!
//! A front end makes a [`Query`]; `kiln-sql` makes one of SQL. This one is `SELECT comm, pid FROM forks WHERE pid > 1 ORDER
//! BY pid DESC LIMIT 2`. It runs here on three rows that were recorded, which needs neither root nor Linux:
//!
//! ```
//! use kiln_plan::execute::Limits;
//! use kiln_plan::expr::{BinaryOp, Expr};
//! use kiln_plan::query::{Order, Output, Shape};
//! use kiln_plan::{Executor, Query, Split, Value, tables};
//!
//! let table = tables::named("forks", None).expect("a table that every kernel has");
//! let column = |name: &str| table.column(name).expect("a column");
//! let output = |name: &str| {
//!     let at = column(name);
//!     Output { name: name.to_owned(), expr: Expr::Column(at), data_type: table.columns[at].data_type }
//! };
//! let query = Query {
//!     filter: Some(Expr::binary(BinaryOp::Greater, Expr::Column(column("pid")), Expr::Literal(Value::Uint(1)))),
//!     order: vec![Order { by: Expr::Column(1), descending: true }],
//!     limit: Some(2),
//!     ..Query::new(table.clone(), Shape::Rows, vec![output("comm"), output("pid")])
//! };
//!
//! // The plans: from reading every column in the kernel to deciding the condition there. `generate` writes the programs
//! // of one for a kernel's types, and `Executor::new` is its other half.
//! assert_eq!(Split::of(&query), [Split::Mvsf, Split::Columns, Split::Filter]);
//!
//! // The smallest plan's other half is the whole query.
//! let mut executor = Executor::replaying(query, &[], Limits::default());
//! for (pid, comm) in [(1, "init"), (7, "sh"), (9, "make")] {
//!     let mut row = vec![Value::Null; table.columns.len()];
//!     row[column("pid")] = Value::Uint(pid);
//!     row[column("comm")] = Value::text(comm);
//!     executor.row(row);
//! }
//! executor.finish();
//! let rows: Vec<_> = executor.take_rows().into_iter().map(|row| row.values).collect();
//! assert_eq!(rows, [[Value::text("make"), Value::Uint(9)], [Value::text("sh"), Value::Uint(7)]]);
//! assert_eq!(executor.lost(), Default::default());
//! ```
//!
//! Reading order: [`table`], [`tables`], [`query`], [`expr`], [`split`], [`mod@generate`], [`execute`]; then [`dispatch`],
//! the policies for packets.
#![forbid(unsafe_code)]

pub mod address;
pub mod congestion;
pub mod dispatch;
pub mod execute;
pub mod expr;
pub mod flow;
pub mod generate;
pub mod histogram;
pub mod later;
pub mod lookup;
pub mod network;
pub mod programs;
pub mod query;
pub mod split;
pub mod syscall;
pub mod table;
pub mod tables;
pub mod value;

pub use execute::{Executor, Row};
pub use flow::Flow;
pub use generate::layout::Origin;
pub use generate::{Generated, Settings, generate};
pub use histogram::Histogram;
pub use query::Query;
pub use split::Split;
pub use table::Table;
pub use value::{DataType, Value};
