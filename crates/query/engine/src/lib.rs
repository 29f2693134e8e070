//! SQLite as the engine for what user space computes of a query's rows.
//!
//! ```text
//!   rows of a window --> tables t0, t1, ... in memory --> the query, prepared once --> rows of the answer
//! ```
//!
//! The query's text is made by `kiln-sql`, never by a user: names in it are generated, and every function is one of a list.
//! SQLite's own arithmetic would answer with wrong numbers beyond 64 bits, so integers are added, multiplied and summed by
//! [`functions`] and [`aggregates`]: a result that does not fit is null. Unsigned integers from 2^63 are blobs of 8 bytes,
//! the most significant first, because SQLite has none: it compares and groups them correctly, and they are above all
//! other numbers.
#![forbid(unsafe_code)]

mod aggregates;
mod collected;
mod functions;
mod value;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kiln_plan::execute::engine::{Engine, Rows};
use kiln_plan::flow::EngineQuery;
use kiln_plan::lookup::Lookup;
use kiln_plan::{DataType, Value};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, params_from_iter};
use value::{Handles, MOST_KEPT};

pub use functions::check_pattern;

/// How long one answer may take.
const MOST_TIME: Duration = Duration::from_secs(10);
/// Bytes that SQLite may use in this process.
const MOST_BYTES: u64 = 1 << 30;
/// Bytes of a text.
const MOST_TEXT: i32 = 1 << 20;
/// How long rows of a lookup table are not copied again: answers to rows that come one by one are many in a second, and
/// `processes` reads files for each row.
const COPIED_AGAIN: Duration = Duration::from_millis(200);
/// How many of its instructions SQLite runs until it asks whether the time is over, or the answer not wanted any more.
const OPERATIONS: i32 = 10_000;

/// A query that SQLite answers.
pub struct Sqlite {
    connection: Connection,
    sql: String,
    /// For each input, the statement that adds a row.
    inputs: Vec<String>,
    lookups: Vec<Lookup>,
    /// The columns of lookup tables that the query reads: numbers of the table and of the column.
    read: BTreeSet<(usize, usize)>,
    outputs: Vec<DataType>,
    /// When the rows of each lookup table were copied.
    copied: Vec<Option<Instant>>,
    handles: Handles,
    /// When an answer has to be there, in milliseconds after `begun`.
    deadline_ms: Arc<AtomicU64>,
    begun: Instant,
    most_time: Duration,
    /// Set while an answer is not wanted any more.
    interrupt: Arc<AtomicBool>,
}

impl Sqlite {
    /// Makes tables for a query, and prepares it.
    ///
    /// # Errors
    /// Returns SQLite's sentence if it refuses the query.
    pub fn new(query: &EngineQuery) -> Result<Sqlite, String> {
        Sqlite::interrupted_by(query, Arc::default())
    }

    /// Makes tables for a query, whose answers fail soon after `interrupt` is set.
    ///
    /// # Errors
    /// As [`Sqlite::new`].
    pub fn interrupted_by(query: &EngineQuery, interrupt: Arc<AtomicBool>) -> Result<Sqlite, String> {
        Sqlite::prepared(query, interrupt).map_err(|error| said(&error, Some(MOST_TIME)))
    }

    /// The same engine, which may take this long for an answer instead of 10 s.
    #[must_use]
    pub fn within(self, most_time: Duration) -> Sqlite {
        Sqlite { most_time, ..self }
    }

    fn prepared(query: &EngineQuery, interrupt: Arc<AtomicBool>) -> rusqlite::Result<Sqlite> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(&format!(
            "PRAGMA temp_store = MEMORY; PRAGMA journal_mode = OFF; \
             PRAGMA hard_heap_limit = {MOST_BYTES}"
        ))?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MOST_TEXT)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        let handles = Handles::default();
        functions::add(&connection)?;
        aggregates::add(&connection, &handles)?;
        collected::add(&connection)?;
        let table = |name: String, columns: usize| {
            let names: Vec<String> = (0..columns).map(|at| format!("c{at}")).collect();
            connection.execute_batch(&format!("CREATE TABLE {name} ({})", names.join(", ")))?;
            let places = vec!["?"; columns].join(", ");
            Ok::<_, rusqlite::Error>(format!("INSERT INTO {name} VALUES ({places})"))
        };
        let inputs = query.inputs.iter().map(|input| input.flow.outputs().len()).enumerate();
        let inputs = inputs.map(|(at, columns)| table(format!("t{at}"), columns)).collect::<Result<_, _>>()?;
        for (at, lookup) in query.lookups.iter().enumerate() {
            table(format!("l{at}"), lookup.columns.len())?;
        }
        let read = Arc::new(Mutex::new(BTreeSet::new()));
        let seen = Arc::clone(&read);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).extend(of_lookup(&context.action));
            only_own_tables(context)
        }));
        if !connection.prepare_cached(&query.sql)?.readonly() {
            return Err(rusqlite::Error::InvalidQuery);
        }
        connection.authorizer(Some(only_own_tables));
        let read = std::mem::take(&mut *read.lock().unwrap_or_else(PoisonError::into_inner));
        let begun = Instant::now();
        let deadline_ms = Arc::new(AtomicU64::new(u64::MAX));
        let (until, interrupted) = (Arc::clone(&deadline_ms), Arc::clone(&interrupt));
        let is_over = move || {
            let until = until.load(Ordering::Relaxed);
            until != u64::MAX && (interrupted.load(Ordering::SeqCst) || begun.elapsed().as_millis() as u64 > until)
        };
        connection.progress_handler(OPERATIONS, Some(is_over));
        let lookups = query.lookups.clone();
        let copied = vec![None; lookups.len()];
        let outputs = query.outputs.clone();
        let sql = query.sql.clone();
        Ok(Sqlite {
            connection,
            sql,
            inputs,
            lookups,
            read,
            outputs,
            copied,
            handles,
            deadline_ms,
            begun,
            most_time: MOST_TIME,
            interrupt,
        })
    }

    fn fill(&mut self, inputs: &[Rows]) -> rusqlite::Result<()> {
        self.connection.execute_batch("BEGIN")?;
        for (insert, rows) in self.inputs.iter().zip(inputs) {
            let mut insert = self.connection.prepare_cached(insert)?;
            for row in rows {
                insert.execute(params_from_iter(row.iter().map(|value| value::given(value, &self.handles))))?;
            }
        }
        for (at, (lookup, copied)) in self.lookups.iter().zip(&mut self.copied).enumerate() {
            if copied.is_some_and(|when| when.elapsed() < COPIED_AGAIN) {
                continue;
            }
            *copied = Some(Instant::now());
            self.connection.execute(&format!("DELETE FROM l{at}"), [])?;
            let places = vec!["?"; lookup.columns.len()].join(", ");
            let mut insert = self.connection.prepare_cached(&format!("INSERT INTO l{at} VALUES ({places})"))?;
            for row in lookup.rows.all(&|column| self.read.contains(&(at, column))) {
                insert.execute(params_from_iter(row.iter().map(|value| value::given(value, &self.handles))))?;
            }
        }
        self.connection.execute_batch("COMMIT")
    }

    fn empty(&self) -> rusqlite::Result<()> {
        let inputs = (0..self.inputs.len()).map(|at| format!("DELETE FROM t{at};"));
        self.connection.execute_batch(&inputs.collect::<String>())
    }

    fn rows(&self, most: usize) -> rusqlite::Result<(Rows, u64)> {
        let mut statement = self.connection.prepare_cached(&self.sql)?;
        let mut rows = statement.query([])?;
        let (mut answer, mut more, mut kept) = (Rows::new(), 0, 0);
        while let Some(row) = rows.next()? {
            if answer.len() >= most {
                more += 1;
                continue;
            }
            let value =
                |(at, data_type): (usize, &DataType)| Ok(value::typed(row.get_ref(at)?, *data_type, &self.handles));
            let values: Vec<Value> = self.outputs.iter().enumerate().map(value).collect::<rusqlite::Result<_>>()?;
            kept += values.iter().map(value::bytes).sum::<usize>();
            if kept > MOST_KEPT {
                return Err(value::too_much("an answer"));
            }
            answer.push(values);
        }
        Ok((answer, more))
    }
}

impl Engine for Sqlite {
    fn answer(&mut self, inputs: &[Rows], most: usize) -> Result<(Rows, u64), String> {
        let deadline = self.begun.elapsed() + self.most_time;
        self.deadline_ms.store(deadline.as_millis() as u64, Ordering::Relaxed);
        let answer = self.fill(inputs).and_then(|()| self.rows(most));
        self.deadline_ms.store(u64::MAX, Ordering::Relaxed);
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if answer.is_err() {
            self.copied.fill(None);
        }
        let most_time = (!self.interrupt.load(Ordering::SeqCst)).then_some(self.most_time);
        let answer = answer.map_err(|error| said(&error, most_time))?;
        self.empty().map_err(|error| said(&error, most_time))?;
        Ok(answer)
    }
}

/// The column of a lookup table that a statement reads.
fn of_lookup(action: &AuthAction<'_>) -> Option<(usize, usize)> {
    let AuthAction::Read { table_name, column_name } = action else { return None };
    Some((table_name.strip_prefix('l')?.parse().ok()?, column_name.strip_prefix('c')?.parse().ok()?))
}

/// Lets statements read and fill tables in memory, and nothing else: no file, no setting, no table of SQLite's own.
fn only_own_tables(context: AuthContext<'_>) -> Authorization {
    let is_own = |table: &str| !table.starts_with("sqlite_") && !table.starts_with("pragma_");
    match context.action {
        AuthAction::Select | AuthAction::Transaction { .. } => Authorization::Allow,
        AuthAction::Function { function_name } if is_known(function_name) => Authorization::Allow,
        AuthAction::Read { table_name, .. } | AuthAction::Insert { table_name } | AuthAction::Delete { table_name }
            if is_own(table_name) =>
        {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

/// SQLite's own functions that queries may call.
#[rustfmt::skip]
const ITS_FUNCTIONS: &[&str] = &[
    "char", "coalesce", "count", "cume_dist", "dense_rank", "first_value", "group_concat", "ifnull", "iif", "instr", "lag",
    "last_value", "lead", "ltrim", "max", "min", "nth_value", "ntile", "nullif", "percent_rank", "rank", "replace",
    "row_number", "rtrim", "substr", "trim", "unicode",
];

/// Whether a function is Kiln's or one of [`ITS_FUNCTIONS`].
fn is_known(function: &str) -> bool {
    function.starts_with("k_") || ITS_FUNCTIONS.contains(&function.to_lowercase().as_str())
}

/// What SQLite says is wrong, as a sentence. An answer ended after `most_time`, or because it was not wanted any more.
fn said(error: &rusqlite::Error, most_time: Option<Duration>) -> String {
    match error {
        rusqlite::Error::SqliteFailure(own, _) if own.code == rusqlite::ErrorCode::OperationInterrupted => {
            match most_time.map(|time| time.as_secs_f64()) {
                Some(seconds) => format!("the rest of the query took longer than {seconds} s for one answer"),
                None => "the query was stopped while it computed an answer, which is missing".to_owned(),
            }
        }
        rusqlite::Error::SqliteFailure(own, _) if own.code == rusqlite::ErrorCode::OutOfMemory => {
            format!("the rest of the query needs more than {} MiB of memory", MOST_BYTES >> 20)
        }
        rusqlite::Error::SqliteFailure(own, _) if own.code == rusqlite::ErrorCode::TooBig => {
            format!("the rest of the query makes a text of more than {} MiB", MOST_TEXT >> 20)
        }
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::UserFunctionError(error) => error.to_string(),
        other => other.to_string(),
    }
}
