//! Valid queries, made from a number.
//!
//! An expression is text together with what has to be known of it: the greatest magnitude that its value can have on the
//! recording at hand, and whether SQLite computes the same. SQLite's integers do not wrap, so only expressions whose values
//! stay below 2^53 are put to it.

use kiln_driver::query::Value;
use kiln_plan::table::Source;
use kiln_plan::{DataType, Table};

/// A sequence of numbers that follows from its first (splitmix64).
pub struct Numbers(pub u64);

impl Numbers {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// True once in `count` times.
    pub fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// One of these.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// A query, and what SQLite is asked to compare.
pub struct Generated {
    /// The query in Kiln's SQL.
    pub sql: String,
    /// The same question for SQLite, if it understands it: over the table `t` and, for windows, the table `w`.
    pub sqlite: Option<String>,
    /// The window's length and the time between two of them, in nanoseconds.
    pub window: Option<[u64; 2]>,
}

/// Values that SQLite and Kiln compute alike are smaller.
const EXACT: f64 = (1u64 << 53) as f64;

/// An expression.
#[derive(Clone)]
pub(crate) struct Text {
    pub sql: String,
    /// Its value is not larger than this in magnitude.
    pub bound: f64,
    /// Whether SQLite computes the same.
    pub portable: bool,
}

impl Text {
    fn new(sql: impl Into<String>, bound: f64) -> Text {
        Text { sql: sql.into(), bound, portable: bound < EXACT }
    }

    /// An expression made of others.
    fn of(sql: String, bound: f64, parts: &[&Text]) -> Text {
        Text { sql, bound, portable: bound < EXACT && parts.iter().all(|part| part.portable) }
    }

    fn unportable(self) -> Text {
        Text { portable: false, ..self }
    }
}

/// Makes queries of a table, with constants from its rows.
pub struct Generator<'a> {
    pub table: &'a Table,
    pub rows: &'a [Vec<Value>],
    pub numbers: Numbers,
}

impl Generator<'_> {
    pub(crate) fn columns(&self, text: bool) -> Vec<usize> {
        let is_wanted = |at: &usize| (self.table.columns[*at].data_type == DataType::Text) == text;
        (0..self.table.columns.len()).filter(is_wanted).collect()
    }

    /// A value that some row has.
    fn sample(&mut self, column: usize) -> Option<Value> {
        (!self.rows.is_empty()).then(|| self.numbers.one(self.rows)[column].clone())
    }

    pub(crate) fn column(&mut self, text: bool) -> Text {
        let columns = self.columns(text);
        if columns.is_empty() {
            return Text::new("'of no column'", 0.0);
        }
        let column = *self.numbers.one(&columns);
        let values = self.rows.iter().filter_map(|row| row[column].as_integer());
        let bound = values.map(i128::unsigned_abs).max().unwrap_or_default() as f64;
        let name = Text::new(self.table.columns[column].name.clone(), bound);
        // Functions of SQLite's, such as `length`, see a text up to its first zero byte.
        let is_cut = |row: &Vec<Value>| matches!(&row[column], Value::Text(text) if text.contains('\0'));
        if self.rows.iter().any(is_cut) { name.unportable() } else { name }
    }

    pub(crate) fn constant(&mut self) -> Text {
        let value: i128 = match self.numbers.below(8) {
            0 => *self.numbers.one(&[
                i64::MIN.into(),
                -(1 << 31),
                (1 << 31) - 1,
                1 << 31,
                (1 << 32) - 1,
                1 << 32,
                i64::MAX.into(),
                1 << 63,
                u64::MAX.into(),
            ]),
            1..=3 => self.numbers.below(10) as i128 - 3,
            _ => {
                let columns = self.columns(false);
                let column = *self.numbers.one(&columns);
                self.sample(column).and_then(|value| value.as_integer()).unwrap_or(7)
            }
        };
        Text::new(value.to_string(), value.unsigned_abs() as f64)
    }

    pub(crate) fn number(&mut self, depth: usize) -> Text {
        if depth == 0 || self.numbers.once_in(3) {
            return if self.numbers.once_in(3) { self.constant() } else { self.column(false) };
        }
        let one = self.number(depth - 1);
        match self.numbers.below(16) {
            0 => Text::of(format!("(- {})", one.sql), one.bound, &[&one]),
            1 => Text::of(format!("abs({})", one.sql), one.bound, &[&one]),
            2 if self.numbers.once_in(2) => {
                let other = self.number(depth - 1);
                let bound = (u64::MAX >> 48) as f64;
                Text::of(format!("(hash({}, {}) >> 48)", one.sql, other.sql), bound, &[&one, &other]).unportable()
            }
            2 => Text::of(format!("log2({})", one.sql), 64.0, &[&one]).unportable(),
            3 => {
                let text = self.text(depth - 1);
                Text::of(format!("length({})", text.sql), 64.0, &[&text])
            }
            4 => {
                let (condition, other) = (self.condition(depth - 1), self.number(depth - 1));
                let bound = one.bound.max(other.bound);
                let otherwise = if self.numbers.once_in(3) { String::new() } else { format!(" ELSE {}", other.sql) };
                let sql = format!("CASE WHEN {} THEN {}{otherwise} END", condition.sql, one.sql);
                Text::of(sql, bound, &[&one, &other, &condition])
            }
            5 => {
                let other = self.number(depth - 1);
                let sql = format!("coalesce({}, {})", one.sql, other.sql);
                Text::of(sql, one.bound.max(other.bound), &[&one, &other])
            }
            6 => {
                let by = self.numbers.below(9);
                let left = self.numbers.once_in(2);
                let (op, factor) = if left { ("<<", (1u64 << by) as f64) } else { (">>", 1.0) };
                Text::of(format!("({} {op} {by})", one.sql), one.bound * factor, &[&one])
            }
            which => {
                let other = self.number(depth - 1);
                // A result of bits is below the next power of two.
                let bits = 2.0 * one.bound.max(other.bound) + 1.0;
                let (op, bound) = match which {
                    7..=9 => ("-", one.bound + other.bound),
                    10 | 11 => ("+", one.bound + other.bound),
                    12 => ("*", one.bound * other.bound),
                    13 => ("&", bits),
                    14 => ("|", bits),
                    _ => *self.numbers.one(&[("/", one.bound), ("%", other.bound), ("^", bits)]),
                };
                let made = Text::of(format!("({} {op} {})", one.sql, other.sql), bound, &[&one, &other]);
                if op == "^" { made.unportable() } else { made }
            }
        }
    }

    fn quoted(&mut self) -> String {
        let columns = self.columns(true);
        let sample = if columns.is_empty() { None } else { Some(*self.numbers.one(&columns)) };
        let text = match sample.and_then(|column| self.sample(column)) {
            Some(Value::Text(text)) if !self.numbers.once_in(6) => text.to_string(),
            _ => (*self.numbers.one(&["", "nobody", "openat", "a name of more than 16 bytes", "%"])).to_owned(),
        };
        format!("'{}'", text.replace('\'', "''"))
    }

    pub(crate) fn text(&mut self, depth: usize) -> Text {
        match self.numbers.below(if depth == 0 { 3 } else { 6 }) {
            0 | 1 => self.column(true),
            2 => {
                let quoted = Text::new(self.quoted(), 0.0);
                // A name that a message has may have a zero byte in it, at which SQLite's parser ends.
                if quoted.sql.contains('\0') { quoted.unportable() } else { quoted }
            }
            3 => {
                let one = self.text(depth - 1);
                let function = *self.numbers.one(&["lower", "upper"]);
                Text::of(format!("{function}({})", one.sql), 0.0, &[&one])
            }
            _ => {
                let (condition, one, other) = (self.condition(depth - 1), self.text(depth - 1), self.text(depth - 1));
                let sql = format!("CASE WHEN {} THEN {} ELSE {} END", condition.sql, one.sql, other.sql);
                Text::of(sql, 0.0, &[&condition, &one, &other])
            }
        }
    }

    fn comparison(&mut self, depth: usize) -> Text {
        let op = *self.numbers.one(&["=", "<>", "<", "<=", ">", ">="]);
        if self.numbers.once_in(4) {
            let (one, other) = (self.text(depth), self.text(0));
            let op = if self.numbers.once_in(3) { op } else { *self.numbers.one(&["=", "<>"]) };
            return Text::of(format!("{} {op} {}", one.sql, other.sql), 1.0, &[&one, &other]);
        }
        let others = usize::from(depth > 0 && self.numbers.once_in(2));
        let (one, other) = (self.number(depth), self.number(others));
        Text::of(format!("{} {op} {}", one.sql, other.sql), 1.0, &[&one, &other])
    }

    pub(crate) fn condition(&mut self, depth: usize) -> Text {
        let not = if self.numbers.once_in(4) { "NOT " } else { "" };
        match self.numbers.below(if depth == 0 { 8 } else { 14 }) {
            0 => {
                let (one, low, high) = (self.number(0), self.constant(), self.constant());
                Text::of(format!("({} {not}BETWEEN {} AND {})", one.sql, low.sql, high.sql), 1.0, &[&one, &low, &high])
            }
            1 => {
                let one = self.number(depth.min(1));
                let list: Vec<Text> = (0..1 + self.numbers.below(5)).map(|_| self.constant()).collect();
                let listed: Vec<&str> = list.iter().map(|one| one.sql.as_str()).collect();
                let parts: Vec<&Text> = list.iter().chain([&one]).collect();
                Text::of(format!("({} {not}IN ({}))", one.sql, listed.join(", ")), 1.0, &parts)
            }
            2 => {
                let one = self.text(0);
                let pattern = *self.numbers.one(&["%", "c%", "%e%", "_a%", "%d", "get%", "kworker%", ""]);
                Text::of(format!("({} {not}LIKE '{pattern}')", one.sql), 1.0, &[&one])
            }
            3 if depth > 0 => {
                let one = self.number(depth);
                Text::of(format!("({} IS {not}NULL)", one.sql), 1.0, &[&one])
            }
            4 if self.numbers.once_in(4) => {
                let one = self.text(0);
                let network = *self.numbers.one(&["10.0.0.0/8", "0.0.0.0/0", "::/1", "127.0.0.1"]);
                // Tables of sockets have addresses.
                let of = |at: &usize| matches!(self.table.columns[*at].source, Source::Address { .. });
                let addresses: Vec<usize> = (0..self.table.columns.len()).filter(of).collect();
                let one = match addresses.is_empty() {
                    true => one,
                    false => Text::new(self.table.columns[*self.numbers.one(&addresses)].name.clone(), 0.0),
                };
                let form = self.numbers.below(5);
                let sql = match form {
                    0 => format!("coalesce({} << '{network}', 1 = 0)", one.sql),
                    1 => format!("({not}{} << '{network}')", one.sql),
                    2 => format!("({} = '10.0.0.3')", one.sql),
                    3 => format!("({} <> '10.0.0.3')", one.sql),
                    _ => format!("cidr({}, '{network}')", one.sql),
                };
                Text::of(sql, 1.0, &[&one]).unportable()
            }
            3..8 => {
                let one = self.comparison(depth);
                Text::of(format!("({not}{})", one.sql), 1.0, &[&one])
            }
            _ => {
                let (one, other) = (self.condition(depth - 1), self.condition(depth - 1));
                let op = *self.numbers.one(&["AND", "AND", "OR"]);
                Text::of(format!("({} {op} {})", one.sql, other.sql), 1.0, &[&one, &other])
            }
        }
    }

    fn aggregate(&mut self) -> Text {
        let depth = self.numbers.below(3);
        let one = self.number(depth);
        let distinct = if self.numbers.once_in(8) { "DISTINCT " } else { "" };
        let rows = self.rows.len() as f64;
        match self.numbers.below(18) {
            0..=2 => Text::new("count(*)", rows),
            3 => Text::of(format!("count({distinct}{})", one.sql), rows, &[&one]),
            4..=6 => Text::of(format!("sum({distinct}{})", one.sql), one.bound * rows, &[&one]),
            7 | 8 => Text::of(format!("min({distinct}{})", one.sql), one.bound, &[&one]),
            9 | 10 => Text::of(format!("max({distinct}{})", one.sql), one.bound, &[&one]),
            11 => {
                let text = self.text(1);
                let function = *self.numbers.one(&["count(DISTINCT ", "min(", "max("]);
                Text::of(format!("{function}{})", text.sql), rows, &[&text])
            }
            12 => Text::of(format!("avg({distinct}{})", one.sql), one.bound, &[&one]),
            13 => Text::of(format!("stddev({})", one.sql), one.bound, &[&one]).unportable(),
            14 => Text::of(format!("quantile({}, 0.9)", one.sql), one.bound, &[&one]).unportable(),
            15 => {
                let of = if self.numbers.once_in(2) { self.text(1) } else { one };
                Text::of(format!("top_k({}, {})", of.sql, 1 + self.numbers.below(5)), rows, &[&of]).unportable()
            }
            16 => {
                let of = if self.numbers.once_in(2) { self.text(1) } else { one };
                Text::of(format!("approx_distinct({})", of.sql), rows, &[&of])
            }
            _ => Text::of(format!("histogram({})", one.sql), one.bound, &[&one]).unportable(),
        }
    }

    fn value(&mut self) -> Text {
        let depth = self.numbers.below(4);
        if self.numbers.once_in(4) { self.text(depth.min(2)) } else { self.number(depth) }
    }

    /// `ORDER BY` and `LIMIT` over so many outputs, each for Kiln and for SQLite.
    fn ending(&mut self, outputs: usize, otherwise: &str) -> [String; 2] {
        let order: Vec<String> = (0..self.numbers.below(3))
            .map(|_| format!("c{}{}", self.numbers.below(outputs), self.numbers.one(&["", " DESC", " ASC"])))
            .collect();
        let limit = if self.numbers.once_in(3) { format!(" LIMIT {}", self.numbers.below(20)) } else { String::new() };
        let offset =
            if self.numbers.once_in(6) { format!(" OFFSET {}", self.numbers.below(30)) } else { String::new() };
        let their_limit = if limit.is_empty() && !offset.is_empty() { " LIMIT -1" } else { &limit };
        let own = if order.is_empty() { String::new() } else { format!(" ORDER BY {}", order.join(", ")) };
        // Rows that are alike in what is asked for are ordered by their values.
        let all: Vec<String> = match (order.is_empty(), otherwise) {
            (true, otherwise) if !otherwise.is_empty() => vec![otherwise.to_owned()],
            _ => order.into_iter().chain((0..outputs).map(|output| format!("c{output}"))).collect(),
        };
        [format!("{own}{limit}{offset}"), format!(" ORDER BY {}{their_limit}{offset}", all.join(", "))]
    }

    /// The next query.
    pub fn query(&mut self) -> Generated {
        let condition = (!self.numbers.once_in(4)).then(|| {
            let depth = self.numbers.below(4);
            self.condition(depth)
        });
        let made = if self.numbers.once_in(3) { self.rows_query(condition) } else { self.groups_query(condition) };
        match self.numbers.below(400) {
            0 => self.long_query(),
            1..40 => self.around(&made),
            40..70 => self.union(),
            70..100 => self.join(),
            100..115 => self.lookup(),
            _ => made,
        }
    }

    /// A query of the rows of another one.
    fn around(&mut self, inner: &Generated) -> Generated {
        let limit = if self.numbers.once_in(2) { format!(" LIMIT {}", self.numbers.below(5)) } else { String::new() };
        let (begin, end) = match self.numbers.below(4) {
            0 => ("SELECT DISTINCT c0 AS d0 FROM", " WHERE c0 IS NOT NULL ORDER BY d0"),
            1 => ("SELECT c0 AS d0, count(*) AS d1, max(c0) AS d2 FROM", " GROUP BY c0 ORDER BY d1 DESC, d0, d2"),
            2 => ("SELECT c0 AS d0 FROM", " UNION ALL SELECT c0 FROM s ORDER BY d0"),
            _ => ("SELECT count(c0) AS d0, count(DISTINCT c0) AS d1, min(c0) AS d2 FROM", " ORDER BY d0, d1, d2"),
        };
        let named = end.contains("FROM s") || self.numbers.once_in(3);
        let of = |sql: &str| match named {
            true => format!("WITH s AS ({sql}) {begin} s{end}{limit}"),
            false => format!("{begin} ({sql}) AS s{end}{limit}"),
        };
        // Which rows a limit keeps is known where they have an order.
        let sqlite = inner.sqlite.as_ref().filter(|_| inner.window.is_none()).map(|sql| of(sql));
        Generated { sql: of(&inner.sql), sqlite, window: inner.window }
    }

    fn rows_query(&mut self, condition: Option<Text>) -> Generated {
        let outputs: Vec<Text> = (0..1 + self.numbers.below(5)).map(|_| self.value()).collect();
        let shown: Vec<String> = outputs.iter().enumerate().map(|(at, one)| format!("{} AS c{at}", one.sql)).collect();
        let distinct = if self.numbers.once_in(5) { "DISTINCT " } else { "" };
        let filter = condition.as_ref().map(|one| format!(" WHERE {}", one.sql)).unwrap_or_default();
        // Without an order, rows come in the order in which they were complete.
        let [own, theirs] = self.ending(outputs.len(), if distinct.is_empty() { "t.rowid" } else { "" });
        let portable = outputs.iter().chain(&condition).all(|one| one.portable)
            && (distinct.is_empty() || own.contains("ORDER") || !(own.contains("LIMIT") || own.contains("OFFSET")));
        let begin = format!("SELECT {distinct}{} FROM", shown.join(", "));
        Generated {
            sql: format!("{begin} {}{filter}{own}", self.table.name),
            sqlite: portable.then(|| format!("{begin} t{filter}{theirs}")),
            window: None,
        }
    }

    fn groups_query(&mut self, condition: Option<Text>) -> Generated {
        let count = self.numbers.below(4);
        let simple = self.numbers.once_in(2);
        let keys: Vec<Text> = (0..count)
            .map(|_| match (simple, self.numbers.once_in(3)) {
                (true, text) => self.column(text),
                _ => self.value(),
            })
            .collect();
        let aggregates: Vec<Text> = (0..1 + self.numbers.below(4)).map(|_| self.aggregate()).collect();
        let having = self.numbers.once_in(5).then(|| {
            let (one, other) = (self.aggregate(), self.constant());
            let op = *self.numbers.one(&["<>", "<", ">="]);
            // Texts are not compared with numbers.
            let is_number = !one.sql.contains("histogram")
                && !one.sql.contains("top_k")
                && !self.columns(true).iter().any(|at| one.sql.contains(&self.table.columns[*at].name))
                && !one.sql.contains('\'');
            if is_number {
                Text::of(format!("{} {op} {}", one.sql, other.sql), 1.0, &[&one, &other])
            } else {
                Text::new("count(*) > 1", 1.0)
            }
        });
        let outputs: Vec<&Text> = keys.iter().chain(&aggregates).collect();
        let shown: Vec<String> = outputs.iter().enumerate().map(|(at, one)| format!("{} AS c{at}", one.sql)).collect();
        let window = self.numbers.once_in(3).then(|| {
            let step = *self.numbers.one(&[50_000_000, 200_000_000, 1_000_000_000]);
            [step * *self.numbers.one(&[1, 1, 2, 5]), step]
        });
        let filter = condition.as_ref().map(|one| format!(" WHERE {}", one.sql)).unwrap_or_default();
        let by: Vec<String> = (0..keys.len()).map(|at| format!("c{at}")).collect();
        let own_by = if by.is_empty() { String::new() } else { format!(" GROUP BY {}", by.join(", ")) };
        let their_by: Vec<&str> = window.iter().map(|_| "w.low").chain(by.iter().map(String::as_str)).collect();
        let their_by = if their_by.is_empty() { String::new() } else { format!(" GROUP BY {}", their_by.join(", ")) };
        let having_text = having.as_ref().map(|one| format!(" HAVING {}", one.sql)).unwrap_or_default();
        let [mut own, mut theirs] = self.ending(outputs.len(), "");
        let pause = self.numbers.once_in(8).then(|| *self.numbers.one(&[500, 200_000, 5_000_000, 100_000_000]));
        let window = window.filter(|_| pause.is_none());
        if pause.is_some() {
            (own, theirs) = (String::new(), String::new());
        }
        let portable = outputs.iter().all(|one| one.portable)
            && condition.iter().chain(&having).all(|one| one.portable)
            && (window.is_none() || !(own.contains("LIMIT") || own.contains("OFFSET")));
        let complete = &self.table.columns[self.table.complete().expect("tables of events say it")].name;
        let (from, low) = match window {
            None => ("t".to_owned(), ""),
            Some(_) => (format!("t JOIN w ON t.{complete} >= w.low AND t.{complete} < w.high"), "w.low, w.high, "),
        };
        let own_filter = filter.clone();
        let (from, low, filter, their_by) = match pause {
            None => (from, low.to_owned(), filter, their_by),
            Some(pause) => self.sessions(pause, complete, &filter, &keys),
        };
        let clause = window.map(|[length, step]| format!(" WINDOW {length} ns EVERY {step} ns")).unwrap_or_default();
        let clause = pause.map(|pause| format!(" WINDOW SESSION {pause} ns")).unwrap_or(clause);
        let shown = shown.join(", ");
        Generated {
            sql: format!("SELECT {shown} FROM {}{own_filter}{own_by}{having_text}{own}{clause}", self.table.name),
            sqlite: portable.then(|| {
                let sql = format!("SELECT {low}{shown} FROM {from}{filter}{their_by}{having_text}{theirs}");
                sql.replace("approx_distinct(", "count(DISTINCT ")
            }),
            window,
        }
    }

    /// What SQLite's query over sessions reads, shows of each, and groups by: a row that comes later than the pause after
    /// the one before begins a session.
    fn sessions(&self, pause: u64, complete: &str, filter: &str, keys: &[Text]) -> (String, String, String, String) {
        let listed = |keys: &[Text]| keys.iter().map(|key| format!("{}, ", key.sql)).collect::<String>();
        let partition = match keys.is_empty() {
            true => String::new(),
            false => format!("PARTITION BY {} ", listed(keys).trim_end_matches(", ")),
        };
        let over = format!("OVER ({partition}ORDER BY {complete}, kiln_row)");
        let rows = format!("SELECT t.*, t.rowid AS kiln_row FROM t{filter}");
        let begins = format!("CASE WHEN {complete} - lag({complete}) {over} <= {pause} THEN 0 ELSE 1 END AS kiln_new");
        let numbered =
            format!("SELECT *, sum(kiln_new) {over} AS kiln_session FROM (SELECT *, {begins} FROM ({rows}))");
        let by: String = (0..keys.len()).map(|at| format!("c{at}, ")).collect();
        let bounds = format!("min({complete}), max({complete}), ");
        (format!("({numbered})"), bounds, String::new(), format!(" GROUP BY {by}kiln_session"))
    }

    /// A query with hundreds of conditions.
    fn long_query(&mut self) -> Generated {
        let conditions: Vec<Text> = (0..100 + self.numbers.below(60)).map(|_| self.comparison(0)).collect();
        let texts: Vec<String> = conditions.iter().map(|one| format!("({})", one.sql)).collect();
        let op = *self.numbers.one(&[" OR ", " AND "]);
        let sql = format!("SELECT count(*) AS c0, max(pid) AS c1 FROM {} WHERE {}", self.table.name, texts.join(op));
        Generated { sql, sqlite: None, window: None }
    }
}
