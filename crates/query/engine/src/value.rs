//! Values of Kiln and of SQLite.

use std::sync::{Arc, Mutex, PoisonError};

use kiln_plan::{DataType, Value};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value as Own, ValueRef};

/// Values that SQLite has no type for, by their numbers in an answer.
pub type Handles = Arc<Mutex<Vec<Value>>>;

/// Every function takes UTF-8, and gives the same answer for the same operands.
pub const FLAGS: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DETERMINISTIC);

/// Bytes of an answer's texts, and of the values that one window of `OVER` keeps.
pub const MOST_KEPT: usize = 256 << 20;

/// A value for SQLite.
pub fn own(value: &Value) -> Own {
    match value {
        Value::Bool(value) => Own::Integer((*value).into()),
        Value::Int(value) => Own::Integer(*value),
        Value::Uint(value) => match i64::try_from(*value) {
            Ok(value) => Own::Integer(value),
            Err(_) => Own::Blob(value.to_be_bytes().to_vec()),
        },
        Value::Float(value) => Own::Real(*value),
        Value::Text(text) => Own::Text(text.to_string()),
        Value::Null | Value::Histogram(_) => Own::Null,
    }
}

/// A value for SQLite. Values that it has no type for are given as their numbers among the handles.
pub fn given(value: &Value, handles: &Handles) -> Own {
    match value {
        Value::Histogram(_) => {
            let mut handles = handles.lock().unwrap_or_else(PoisonError::into_inner);
            handles.push(value.clone());
            Own::Integer(handles.len() as i64 - 1)
        }
        other => own(other),
    }
}

/// SQLite's value.
pub fn kiln(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        ValueRef::Real(value) => Value::Float(value),
        ValueRef::Text(text) => Value::text(&String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => bytes.try_into().map_or(Value::Null, |bytes| Value::Uint(u64::from_be_bytes(bytes))),
    }
}

/// SQLite's value as one of a type, if it is one.
pub fn typed(value: ValueRef<'_>, data_type: DataType, handles: &Handles) -> Value {
    match (data_type, kiln(value)) {
        (DataType::Histogram, Value::Int(number)) => {
            let handles = handles.lock().unwrap_or_else(PoisonError::into_inner);
            usize::try_from(number).ok().and_then(|at| handles.get(at).cloned()).unwrap_or(Value::Null)
        }
        (DataType::Bool, Value::Int(value)) => Value::Bool(value != 0),
        (DataType::Uint | DataType::Time, Value::Int(value)) => {
            u64::try_from(value).map_or(Value::Int(value), Value::Uint)
        }
        (DataType::Float, number) => number.as_float().map_or(number, Value::Float),
        (_, value) => value,
    }
}

/// Bytes that a value takes, with what it points to.
pub fn bytes(value: &Value) -> usize {
    let text = if let Value::Text(text) = value { text.len() } else { 0 };
    size_of::<Value>() + text
}

/// The error of something that needs too much memory.
pub fn too_much(what: &str) -> rusqlite::Error {
    let message = format!("{what} of the rest of the query needs more than {} MiB", MOST_KEPT >> 20);
    rusqlite::Error::UserFunctionError(message.into())
}
