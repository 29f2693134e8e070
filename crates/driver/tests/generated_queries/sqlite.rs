//! The same question put to SQLite.

use kiln_driver::query::{Row, Value};
use kiln_plan::{DataType, Table};
use rusqlite::Connection;
use rusqlite::types::{Value as Own, ValueRef};

/// Makes the table `t` of these rows; nothing where a value is larger than SQLite's integers.
pub fn database(table: &Table, rows: &[Vec<Value>]) -> rusqlite::Result<Connection> {
    let database = Connection::open_in_memory()?;
    database.execute_batch("PRAGMA case_sensitive_like = ON; CREATE TABLE w (low INTEGER, high INTEGER)")?;
    let column = |column: &kiln_plan::table::Column| {
        format!("{} {}", column.name, if column.data_type == DataType::Text { "TEXT" } else { "INTEGER" })
    };
    let columns: Vec<String> = table.columns.iter().map(column).collect();
    database.execute_batch(&format!("CREATE TABLE t ({})", columns.join(", ")))?;
    let places = vec!["?"; columns.len()].join(", ");
    let mut insert = database.prepare(&format!("INSERT INTO t VALUES ({places})"))?;
    for row in rows {
        // A value that does not fit is in no query that SQLite is asked.
        let own = row.iter().map(|value| match value {
            Value::Text(text) => Own::Text(text.to_string()),
            other => other.as_integer().map_or(Own::Null, |value| Own::Integer(value as i64)),
        });
        insert.execute(rusqlite::params_from_iter(own))?;
    }
    drop(insert);
    database.execute_batch("CREATE TABLE errno (errno INTEGER, name TEXT, message TEXT)")?;
    let errors = kiln_plan::lookup::constant().into_iter().find(|lookup| lookup.name == "errno").expect("it is there");
    for row in (1..200).filter_map(|number| errors.rows.find(0, &Value::Int(number))) {
        let [number, name, message] = [0, 1, 2].map(|at| row[at].to_string());
        database.execute("INSERT INTO errno VALUES (CAST(? AS INTEGER), ?, ?)", [number, name, message])?;
    }
    Ok(database)
}

/// Fills `w` with the windows that rows are in.
pub fn windows(database: &Connection, table: &Table, [length, step]: [u64; 2]) -> rusqlite::Result<()> {
    database.execute_batch("DELETE FROM w")?;
    let complete = &table.columns[table.complete().expect("tables of events say it")].name;
    let ends: (Option<i64>, Option<i64>) =
        database.query_row(&format!("SELECT min({complete}), max({complete}) FROM t"), [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let (Some(first), Some(last)) = ends else { return Ok(()) };
    let mut low = (first as u64 / step * step).saturating_sub(length);
    let mut insert = database.prepare("INSERT INTO w VALUES (?, ?)")?;
    while low <= last as u64 {
        insert.execute([low as i64, (low + length) as i64])?;
        low += step;
    }
    Ok(())
}

/// SQLite's answer; with windows, their bounds are the first two columns.
pub fn ask(database: &Connection, sql: &str) -> rusqlite::Result<Vec<Vec<Value>>> {
    let mut statement = database.prepare(sql)?;
    let count = statement.column_count();
    let mut rows = statement.query([])?;
    let mut answer = Vec::new();
    while let Some(row) = rows.next()? {
        let value = |at: usize| {
            Ok(match row.get_ref(at)? {
                ValueRef::Null | ValueRef::Blob(_) => Value::Null,
                ValueRef::Integer(value) => Value::Int(value),
                ValueRef::Real(value) => Value::Float(value),
                ValueRef::Text(text) => Value::text(&String::from_utf8_lossy(text)),
            })
        };
        answer.push((0..count).map(value).collect::<rusqlite::Result<_>>()?);
    }
    Ok(answer)
}

/// Kiln's rows in the form of SQLite's.
pub fn as_theirs(rows: &[Row]) -> Vec<Vec<Value>> {
    let row =
        |row: &Row| row.window.iter().flatten().map(|time| Value::Uint(*time)).chain(row.values.clone()).collect();
    rows.iter().map(row).collect()
}

/// Whether two answers are the same; means may differ in their last digits.
pub fn same(mut one: Vec<Vec<Value>>, mut other: Vec<Vec<Value>>, in_order: bool) -> bool {
    if !in_order {
        one.sort();
        other.sort();
    }
    let same = |one: &Value, other: &Value| match (one, other) {
        (Value::Float(_), _) | (_, Value::Float(_)) => match (one.as_float(), other.as_float()) {
            (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(other.abs()),
            _ => false,
        },
        // SQLite's truth values are numbers.
        (Value::Bool(one), other) | (other, Value::Bool(one)) => other.as_integer() == Some((*one).into()),
        _ => one == other,
    };
    one.len() == other.len()
        && one.iter().zip(&other).all(|(one, other)| one.iter().zip(other).all(|(a, b)| same(a, b)))
}
