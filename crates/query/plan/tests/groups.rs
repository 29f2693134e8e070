//! User space's half of a `GROUP BY`: each record is counted, and memory is kept to. `cargo xtask bench query` measures it.

use kiln_plan::execute::{Executor, Limits};
use kiln_plan::expr::{BinaryOp, Expr};
use kiln_plan::generate::layout::{Record, SlotKind};
use kiln_plan::query::{Aggregate, AggregateFunction, Groups, Output, Shape, Window};
use kiln_plan::table::Scalar;
use kiln_plan::{DataType, Query, Table, Value, tables};

/// Groups of system calls: a name, their keys, and what is computed besides `count(*)`.
const QUERIES: [(&str, &[&str], &[(AggregateFunction, &str)]); 4] = [
    ("number", &["pid"], &[]),
    ("text", &["comm"], &[(AggregateFunction::Sum, "ret"), (AggregateFunction::Max, "ret")]),
    ("slowest", &["pid", "name"], &[(AggregateFunction::Max, "latency_ns")]),
    ("histogram", &["name"], &[(AggregateFunction::Histogram, "latency_ns")]),
];

fn table() -> Table {
    tables::named("syscalls", None).expect("it is a table")
}

/// `SELECT keys, count(*), aggregates FROM syscalls WHERE ret >= 0 GROUP BY keys WINDOW 1 SECOND`
fn query(keys: &[&str], aggregates: &[(AggregateFunction, &str)]) -> Query {
    let table = table();
    let column = |name: &str| Expr::Column(table.column(name).unwrap_or_else(|| panic!("there is no {name}")));
    let count = Aggregate { function: AggregateFunction::Count, of: None, distinct: false };
    let others = aggregates.iter().map(|(function, of)| Aggregate {
        function: *function,
        of: Some(column(of)),
        distinct: *function == AggregateFunction::Count,
    });
    let groups = Groups {
        keys: keys.iter().map(|key| column(key)).collect(),
        aggregates: std::iter::once(count).chain(others).collect(),
        having: None,
        window: Some(Window { length_ns: 1_000_000_000, step_ns: 1_000_000_000 }),
        session_ns: None,
    };
    let output = |at| Output { name: at_name(at), expr: Expr::Column(at), data_type: DataType::Uint };
    let outputs = (0..keys.len() + groups.aggregates.len()).map(output).collect();
    let no_error = Expr::binary(BinaryOp::GreaterEqual, column("ret"), Expr::Literal(Value::Uint(0)));
    Query { filter: Some(no_error), ..Query::new(table.clone(), Shape::Groups(groups), outputs) }
}

fn at_name(at: usize) -> String {
    format!("c{at}")
}

/// The layout of records with what the kernel reads for a query.
fn layout(query: &Query) -> Record {
    let slot = |column: usize| match query.table.columns[column].data_type {
        DataType::Text => (Some(column), SlotKind::Command),
        DataType::Int => (Some(column), SlotKind::Number(Scalar::signed(8))),
        _ => (Some(column), SlotKind::Number(Scalar::unsigned(8))),
    };
    Record::new(query.table.read_for(query.columns()).into_iter().map(slot).collect(), None)
}

/// Records of so many processes, which come in no order.
fn records(query: &Query, layout: &Record, processes: u64, count: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(layout.bytes) * count as usize];
    for (at, record) in bytes.chunks_exact_mut(layout.bytes.into()).enumerate() {
        let at = at as u64;
        let process = at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) % processes;
        for slot in &layout.slots {
            let own = &mut record[usize::from(slot.offset)..][..usize::from(slot.kind.bytes())];
            let name = query.table.columns[slot.column.expect("there is no key")].name.as_str();
            let number = match name {
                // Names of threads are of 15 bytes, and here in two halves.
                "comm" | "comm_low" | "comm_high" => process,
                "pid" => 1000 + process,
                "nr" => process % 4,
                "ret" => at % 5,
                _ if name.contains("start") => 5_000_000_000 + at,
                _ => 5_000_000_000 + at + process % 1000,
            };
            match slot.kind {
                SlotKind::Command => {
                    let text = format!("task-{process:x}");
                    own[..text.len()].copy_from_slice(text.as_bytes());
                }
                _ => own.copy_from_slice(&number.to_le_bytes()[..own.len()]),
            }
        }
    }
    bytes
}

/// The records' groups.
fn take(query: &Query, layout: &Record, bytes: &[u8], limits: Limits) -> Executor {
    let mut executor = Executor::replaying(query.clone(), std::slice::from_ref(layout), limits);
    bytes.chunks_exact(layout.bytes.into()).for_each(|record| executor.record(record));
    executor
}

/// The sum of the groups' counts, which are in the column after the keys, and the number of groups. No value may be null.
fn counted(executor: &mut Executor, keys: usize) -> (u64, usize) {
    executor.finish();
    let rows = executor.take_rows();
    assert!(rows.iter().all(|row| row.values.iter().all(|value| *value != Value::Null)), "{rows:?}");
    (rows.iter().map(|row| row.values[keys].bits().expect("a count")).sum(), rows.len())
}

#[test]
fn each_record_is_in_one_group() {
    for (name, keys, aggregates) in QUERIES {
        let query = query(keys, aggregates);
        let layout = layout(&query);
        let bytes = records(&query, &layout, 50, 10_000);
        let mut executor = take(&query, &layout, &bytes, Limits::default());
        let groups = if keys == ["name"] { 4 } else { 50 };
        assert_eq!(counted(&mut executor, keys.len()), (10_000, groups), "{name}");
        assert_eq!(executor.lost().in_all(), 0, "{name}");
    }
}

/// A record that was cut off anywhere is malformed.
#[test]
fn short_records_are_counted() {
    let query = query(&["pid"], &[]);
    let layout = layout(&query);
    let bytes = records(&query, &layout, 1, 1);
    let mut executor = Executor::replaying(query, std::slice::from_ref(&layout), Limits::default());
    (0..bytes.len()).for_each(|length| executor.record(&bytes[..length]));
    executor.record(&bytes);
    let lost = executor.lost().malformed;
    assert_eq!((counted(&mut executor, 1).0, lost), (1, bytes.len() as u64));
}

/// As many groups as there are records, and room for a part of them: what is shown and what is lost add up, and it is said
/// which group was lost first and about how many.
#[test]
fn groups_beyond_the_limits_are_counted() {
    const RECORDS: u64 = 50_000;
    let query = query(&["pid", "comm"], &[(AggregateFunction::Max, "latency_ns")]);
    let layout = layout(&query);
    let bytes = records(&query, &layout, 1 << 40, RECORDS);
    let by_number = Limits { groups: 1000, ..Limits::default() };
    let by_bytes = Limits { bytes: 1 << 20, ..Limits::default() };
    for limits in [by_number, by_bytes] {
        let mut executor = take(&query, &layout, &bytes, limits);
        let lost = executor.lost();
        let refused = executor.refused().expect("there is not room for all");
        let (shown, groups) = counted(&mut executor, 2);
        assert_eq!((shown + lost.groups, shown), (RECORDS, groups as u64), "{limits:?}");
        assert!(groups <= limits.groups && groups * 100 <= limits.bytes, "{groups} groups, {limits:?}");
        assert!(groups >= 1000, "{groups} groups, {limits:?}");
        let number: f64 = refused.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("about how many");
        assert!((0.93..1.07).contains(&(number / lost.groups as f64)), "{} lost: {refused}", lost.groups);
        assert!(refused.contains("the first was c0=") && refused.contains(" c1=task-"), "{refused}");
    }
}

/// Aggregates that grow with their values keep to the limit, and say how many values they did not take.
#[test]
fn values_beyond_the_limits_are_counted() {
    const RECORDS: u64 = 50_000;
    for function in [AggregateFunction::Count, AggregateFunction::TopK(3), AggregateFunction::ApproxDistinct] {
        // `count(DISTINCT pid)` and so on.
        let query = query(&["name"], &[(function, "pid")]);
        let layout = layout(&query);
        let bytes = records(&query, &layout, 1 << 40, RECORDS);
        let enough = take(&query, &layout, &bytes, Limits::default()).lost().in_all();
        let limits = Limits { bytes: 1 << 12, ..Limits::default() };
        let mut executor = take(&query, &layout, &bytes, limits);
        let lost = executor.lost();
        assert_eq!((enough, lost.in_all()), (0, lost.values), "{function:?}");
        assert!(lost.values > 0, "{function:?}: {lost:?}");
        assert_eq!(counted(&mut executor, 1), (RECORDS, 4), "count(*) has all rows beside {function:?}");
    }
}
