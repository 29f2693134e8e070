//! The endpoint that Prometheus reads: `GET /metrics` in its text format.
//!
//! Prometheus wants totals since the beginning, a query with windows gives what happened in each: counters and histograms
//! are added up here. A gauge is shown as of the last window, and not at all for a group that the window does not have.
//! The number of series is limited, because each one costs the server memory for hours.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use kiln_plan::{Histogram, Row, Value};

use crate::export::form::{Form, Role, identifier, label};
use crate::http::{Answer, Handler, Listener, Request, Server};
use crate::session::Summary;
use kiln_program::Error;

/// The value of a series.
#[derive(Debug)]
enum Total {
    Counter(u128),
    Gauge(Option<f64>),
    Histogram(Histogram),
}

/// All values of one group.
#[derive(Debug)]
struct Group {
    /// When the last window that has this group ended.
    window_end: u64,
    totals: Vec<Total>,
}

/// What Prometheus reads.
#[derive(Debug)]
pub struct Totals {
    form: Form,
    groups: BTreeMap<Vec<String>, Group>,
    max_series: usize,
    /// When the last window ended.
    window_end: u64,
    dropped_rows: u64,
    status: Summary,
}

impl Totals {
    /// Nothing yet.
    pub fn new(form: Form, max_series: usize) -> Totals {
        let status = Summary::default();
        Totals { form, groups: BTreeMap::new(), max_series, window_end: 0, dropped_rows: 0, status }
    }

    fn values(&self) -> impl Iterator<Item = (usize, &str, Role)> {
        let columns = self.form.columns.iter().enumerate();
        columns.filter_map(|(at, (name, role))| role.map(|role| (at, name.as_str(), role)))
    }

    /// Adds the rows of a window.
    pub fn add(&mut self, row: &Row) {
        let window_end = row.window.map_or(0, |window| window[1]);
        self.window_end = self.window_end.max(window_end);
        let labels: Vec<String> =
            self.values().filter(|(.., role)| *role == Role::Label).map(|(at, ..)| label(&row.values[at])).collect();
        let metrics: Vec<(usize, Role)> =
            self.values().filter(|(.., role)| *role != Role::Label).map(|(at, _, role)| (at, role)).collect();
        let full = (self.groups.len() + 1) * metrics.len() > self.max_series;
        if full && !self.groups.contains_key(&labels) {
            self.dropped_rows += 1;
            return;
        }
        let new = || Group {
            window_end,
            totals: metrics
                .iter()
                .map(|(_, role)| match role {
                    Role::Counter => Total::Counter(0),
                    Role::Histogram => Total::Histogram(Histogram::default()),
                    Role::Gauge | Role::Label => Total::Gauge(None),
                })
                .collect(),
        };
        let group = self.groups.entry(labels).or_insert_with(new);
        group.window_end = group.window_end.max(window_end);
        for (total, (at, _)) in group.totals.iter_mut().zip(&metrics) {
            match (total, &row.values[*at]) {
                (Total::Counter(total), Value::Uint(value)) => *total += u128::from(*value),
                (Total::Histogram(total), Value::Histogram(more)) => total.merge(more),
                (Total::Gauge(total), value) => *total = value.as_float(),
                _ => {}
            }
        }
    }

    /// The text that Prometheus reads.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // The limit of a histogram's bucket is a label, too.
        let mut taken = BTreeSet::from(["le".to_owned()]);
        let labels = self.values().filter(|(.., role)| *role == Role::Label);
        let labels: Vec<String> = labels.map(|(_, name, _)| free(&mut taken, identifier(name), &[""])).collect();
        let metrics = self.values().filter(|(.., role)| *role != Role::Label);
        let mut taken = BTreeSet::new();
        for (index, (_, name, role)) in metrics.enumerate() {
            let name = format!("kiln_{}_{}", identifier(&self.form.table), identifier(name));
            let name = free(&mut taken, name, series(role));
            self.metric(&mut text, &name, role, index, &labels);
        }
        self.own(&mut text);
        text
    }

    fn metric(&self, text: &mut String, name: &str, role: Role, index: usize, labels: &[String]) {
        let (name, kind) = match role {
            Role::Counter => (format!("{name}_total"), "counter"),
            Role::Histogram => (name.to_owned(), "histogram"),
            Role::Gauge | Role::Label => (name.to_owned(), "gauge"),
        };
        let _ = writeln!(text, "# TYPE {name} {kind}");
        for (values, group) in &self.groups {
            let own: Vec<String> =
                labels.iter().zip(values).map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let series = |suffix: &str, more: Option<String>| {
                let all: Vec<String> = own.iter().cloned().chain(more).collect();
                if all.is_empty() { format!("{name}{suffix}") } else { format!("{name}{suffix}{{{}}}", all.join(",")) }
            };
            match &group.totals[index] {
                Total::Counter(total) => {
                    let _ = writeln!(text, "{} {total}", series("", None));
                }
                Total::Gauge(Some(value)) if group.window_end == self.window_end => {
                    let _ = writeln!(text, "{} {value}", series("", None));
                }
                Total::Gauge(_) => {}
                Total::Histogram(histogram) => {
                    let (zeros, powers) = histogram.powers();
                    let mut below = zeros;
                    for (power, values) in powers {
                        below += values;
                        // Values are integers: those below a power of two are at most that less one.
                        let le = format!("le=\"{}\"", (1u128 << power) - 1);
                        let _ = writeln!(text, "{} {below}", series("_bucket", Some(le)));
                    }
                    let count = histogram.count();
                    let _ = writeln!(text, "{} {count}", series("_bucket", Some("le=\"+Inf\"".to_owned())));
                    let _ = writeln!(text, "{} {}", series("_sum", None), histogram.sum());
                    let _ = writeln!(text, "{} {count}", series("_count", None));
                }
            }
        }
    }

    /// What the query costs, and what it loses.
    fn own(&self, text: &mut String) {
        let status = &self.status;
        let rows = [
            ("kiln_query_events_total", status.events as f64),
            ("kiln_query_program_seconds_total", status.program_ns.unwrap_or_default() as f64 / 1e9),
            ("kiln_query_rows_total", status.rows as f64),
            ("kiln_query_lost_total", status.lost_in_all() as f64),
            ("kiln_query_rows_over_series_limit_total", self.dropped_rows as f64),
        ];
        for (name, value) in rows {
            let _ = writeln!(text, "# TYPE {name} counter\n{name} {value}");
        }
    }
}

/// What the names of a metric's series end with.
fn series(role: Role) -> &'static [&'static str] {
    match role {
        Role::Counter => &["_total"],
        Role::Histogram => &["", "_bucket", "_sum", "_count"],
        Role::Gauge | Role::Label => &[""],
    }
}

/// The name, with a number behind it if one of its series has the name of another. Takes the names of its series.
fn free(taken: &mut BTreeSet<String>, name: String, suffixes: &[&str]) -> String {
    let full = |name: &str| -> Vec<String> { suffixes.iter().map(|suffix| format!("{name}{suffix}")).collect() };
    let numbered = (2u64..).map(|number| format!("{name}_{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    let found = names.find(|name| full(name).iter().all(|series| !taken.contains(series))).unwrap_or(name);
    taken.extend(full(&found));
    found
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A server that answers Prometheus.
pub struct Endpoint {
    server: Server,
    totals: Arc<Mutex<Totals>>,
    address: SocketAddr,
}

/// Answers with the totals.
struct Metrics(Arc<Mutex<Totals>>);

impl Handler for Metrics {
    fn answer(&self, request: &Request) -> Answer {
        let path = request.url.split('?').next().unwrap_or_default();
        match (&*request.method, path) {
            ("GET", "/metrics") => Answer {
                status: 200,
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: self.0.lock().unwrap_or_else(PoisonError::into_inner).text(),
            },
            ("GET", _) => self.refused(404, "metrics are at /metrics"),
            _ => self.refused(405, "only GET is answered"),
        }
    }

    fn refused(&self, status: u16, why: &str) -> Answer {
        Answer { status, content_type: "text/plain; charset=utf-8", body: format!("{why}\n") }
    }
}

impl Endpoint {
    /// Listens at an address.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where it cannot be listened at.
    pub fn listen(address: &str, form: Form, max_series: usize) -> Result<Endpoint, Error> {
        let failed = |error: std::io::Error| {
            Error::InvalidInput(format!("{address} cannot be listened at: {error}; an address is `127.0.0.1:9090`"))
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let totals = Arc::new(Mutex::new(Totals::new(form, max_series)));
        let server = Server::begin(Listener::Tcp(listener), Metrics(Arc::clone(&totals)));
        Ok(Endpoint { server, totals, address: bound })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds rows, and how the query goes.
    pub fn add(&mut self, rows: &[Row], status: Option<&Summary>) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter().for_each(|row| totals.add(row));
        if let Some(status) = status {
            totals.status = status.clone();
        }
    }

    /// Ends it. Returns how many rows were dropped because they would have made too many series.
    pub fn end(self) -> u64 {
        drop(self.server);
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).dropped_rows
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn windows_add_up_and_series_are_limited() {
        let column = |name: &str, role| (name.to_owned(), Some(role));
        let columns = vec![
            column("comm", Role::Label),
            column("count(*)", Role::Counter),
            column("max(latency_ns)", Role::Gauge),
            column("histogram(latency_ns)", Role::Histogram),
        ];
        let form = Form { table: "syscalls".to_owned(), columns, time: None };
        let mut totals = Totals::new(form, 6);
        let row = |end: u64, comm: &str, count: u64| {
            let mut histogram = Histogram::default();
            (0..count).for_each(|value| histogram.add(100 * value));
            let values =
                vec![Value::text(comm), Value::Uint(count), Value::Uint(end), Value::Histogram(Arc::new(histogram))];
            Row { window: Some([end - 1, end]), values }
        };
        for row in [row(1, "a\"\\\n", 2), row(1, "b", 3), row(2, "b", 4), row(2, "c", 5)] {
            totals.add(&row);
        }
        let text = totals.text();
        for expected in [
            "# TYPE kiln_syscalls_count_total counter\n",
            "kiln_syscalls_count_total{comm=\"a\\\"\\\\\\n\"} 2\n",
            "kiln_syscalls_count_total{comm=\"b\"} 7\n",
            "kiln_syscalls_max_latency_ns{comm=\"b\"} 2\n",
            "kiln_syscalls_histogram_latency_ns_bucket{comm=\"b\",le=\"127\"} 4\n",
            "kiln_syscalls_histogram_latency_ns_bucket{comm=\"b\",le=\"+Inf\"} 7\n",
            "kiln_syscalls_histogram_latency_ns_sum{comm=\"b\"} 900\n",
            "kiln_query_rows_over_series_limit_total 1\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("max_latency_ns{comm=\"a"), "the last window does not have it\n{text}");
        assert!(!text.contains("\"c\""), "{text}");
    }

    #[test]
    fn no_two_series_have_one_name() {
        let column = |name: &str, role| (name.to_owned(), Some(role));
        let columns = vec![
            column("le", Role::Label),
            column("a", Role::Label),
            column("a", Role::Label),
            column("a_2", Role::Label),
            column("n", Role::Counter),
            column("n_total", Role::Gauge),
            column("h", Role::Histogram),
            column("h_sum", Role::Gauge),
        ];
        let mut totals = Totals::new(Form { table: "t".to_owned(), columns, time: None }, 100);
        let label = Value::text("x");
        let mut values = vec![label; 4];
        values.extend([Value::Uint(1), Value::Uint(2), Value::Histogram(Arc::default()), Value::Uint(3)]);
        totals.add(&Row { window: None, values });
        let text = totals.text();
        assert!(text.contains("{le_2=\"x\",a=\"x\",a_2=\"x\",a_2_2=\"x\"} 1\n"), "{text}");
        for name in ["kiln_t_n_total", "kiln_t_n_total_2", "kiln_t_h", "kiln_t_h_sum_2"] {
            assert!(text.contains(&format!("# TYPE {name} ")), "{name}\n{text}");
        }
    }
}
