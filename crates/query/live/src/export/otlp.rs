//! OTLP: metrics of groups, log records of rows. Over HTTP a document is sent in its JSON encoding, over gRPC ([`grpc`]) as
//! Protocol Buffers ([`protobuf`]).
//!
//! Counters, sums and histograms have delta temporality: each point is of one window. Histograms are exponential ones, so
//! a receiver can merge those of many hosts, and quantiles of the merged one are right.
//!
//! The protocol: <https://opentelemetry.io/docs/specs/otlp/>. 64-bit integers are text in its JSON.

#[cfg(feature = "grpc")]
mod grpc;
#[cfg(not(feature = "grpc"))]
mod no_grpc;
mod protobuf;

#[cfg(not(feature = "grpc"))]
use no_grpc as grpc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kiln_plan::{Histogram, Row, Value};
use prost::Message as _;
use serde_json::{Value as Json, json};
use ureq::Agent;

use crate::clock;
use crate::export::Targets;
use crate::export::form::{Form, Role, identifier, label};
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// Maximum time of one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Waits between attempts to deliver a document.
const RETRIES: [Duration; 3] = [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];
/// Buckets per power of two of an exponential histogram, as a power of two, where it has few powers.
const SCALE: i32 = 5;
/// Maximum number of buckets of an exponential histogram (what SDKs use).
const MAX_BUCKETS: i64 = 160;
/// Maximum bytes that are read of an answer.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
/// Maximum characters that are shown of the address in an answer.
const MAX_SHOWN_ADDRESS: usize = 256;
const DELTA: u32 = 1;
const SEVERITY_INFO: u32 = 9;

/// How documents get to a receiver.
enum Carrier {
    Http(Agent),
    Grpc(grpc::Channel),
}

/// A receiver.
pub struct Otlp {
    carrier: Carrier,
    url: String,
    form: Form,
    host: Option<String>,
    /// The query's name in a service.
    query: Option<Shown>,
    /// Its version.
    version: Option<String>,
    /// As [`Targets::recorded_boot_ns`].
    recorded_boot_ns: Option<u64>,
    /// Whether the last document was not taken.
    is_down: bool,
}

/// The monotonic clock by which rows have their times.
#[derive(Clone, Copy)]
struct Clock {
    /// Nanoseconds from the Unix epoch to its beginning.
    boot_ns: u64,
    /// Nanoseconds from the Unix epoch to now.
    unix_ns: u64,
    recorded: bool,
}

impl Clock {
    /// The clock of a recording, or of this machine. Asked for each document, because somebody may set the time.
    fn now(recorded_boot_ns: Option<u64>) -> Clock {
        let boot_ns = recorded_boot_ns.unwrap_or_else(clock::boot_ns);
        Clock { boot_ns, unix_ns: clock::unix_ns(), recorded: recorded_boot_ns.is_some() }
    }

    /// A time of it, since the Unix epoch.
    fn since_epoch(self, time_ns: u64) -> u64 {
        self.boot_ns.saturating_add(time_ns)
    }

    /// The ends of a row's window. The last one may end before its time; that of a recording has ended, though its clock may be
    /// ahead.
    fn window(self, row: &Row) -> [u64; 2] {
        let now = self.unix_ns.saturating_sub(self.boot_ns);
        let latest = if self.recorded { u64::MAX } else { now };
        let window = row.window.map_or([now; 2], |window| window.map(|time| time.min(latest)));
        window.map(|time| self.since_epoch(time))
    }
}

/// Rows that were not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// How many.
    pub rows: u64,
    /// Why.
    pub reason: String,
}

/// An attempt that failed.
enum Failure {
    /// Nobody answered. It may be tried again.
    Silent(String),
    /// The receiver cannot take it now. It may be tried again.
    Busy(String),
    /// It would fail again.
    Permanent(String),
    /// Some were taken.
    Partial(u64, String),
}

impl Otlp {
    /// Asks whether there is a receiver at an address, by an empty document.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where there is none.
    pub fn connect(url: &str, form: Form, targets: &Targets) -> Result<Otlp, Error> {
        let invalid = |why: &str| Error::InvalidInput(format!("{url}: {why}"));
        let carrier = match url.split_once("://") {
            Some(("http", _)) => {
                let config = Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false);
                // Rows go only to the address that the user named.
                Carrier::Http(config.max_redirects(0).build().into())
            }
            Some(("grpc" | "grpcs", _)) => Carrier::Grpc(grpc::Channel::new(url, TIMEOUT)?),
            _ => {
                return Err(invalid(
                    "an OTLP receiver's address is like http://127.0.0.1:4318, grpc://127.0.0.1:4317 or, with TLS, \
                     grpcs://collector.example:4317",
                ));
            }
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned());
        let mut otlp = Otlp {
            carrier,
            url: url.trim_end_matches('/').to_owned(),
            form,
            host,
            query: targets.query.clone(),
            version: targets.version.map(|version| version.to_string()),
            recorded_boot_ns: targets.recorded_boot_ns,
            is_down: false,
        };
        let empty = otlp.document(&[]);
        match otlp.deliver(&empty, |failure| matches!(failure, Failure::Busy(_))) {
            Ok(()) | Err(Failure::Partial(..)) => Ok(otlp),
            Err(Failure::Busy(why)) => {
                let attempts = RETRIES.len() + 1;
                Err(invalid(&format!("the OTLP receiver is busy, at {attempts} attempts: {why}; try again later")))
            }
            Err(Failure::Silent(why) | Failure::Permanent(why)) => {
                Err(invalid(&format!("no OTLP receiver answers there: {why}")))
            }
        }
    }

    /// Sends a document, again after failures that `may_pass`.
    fn deliver(&mut self, document: &Json, may_pass: impl Fn(&Failure) -> bool) -> Result<(), Failure> {
        for wait in RETRIES {
            match self.post(document) {
                Err(failure) if may_pass(&failure) => std::thread::sleep(wait),
                result => return result,
            }
        }
        self.post(document)
    }

    /// Sends rows; returns those that were not taken. A receiver that took nothing the last time is tried once, and not
    /// at all when the query is over.
    pub fn send(&mut self, rows: &[Row], is_over: &AtomicBool) -> Option<Refused> {
        let refused = |rows: u64, reason: String| Some(Refused { rows, reason });
        let all = rows.len() as u64;
        if self.is_down && is_over.load(Ordering::SeqCst) {
            return refused(all, format!("{} has not answered", self.url));
        }
        let may_pass = |failure: &Failure| matches!(failure, Failure::Silent(_) | Failure::Busy(_));
        let (document, was_down) = (self.document(rows), self.is_down);
        let failure = self.deliver(&document, |failure| !was_down && may_pass(failure)).err();
        self.is_down = failure.as_ref().is_some_and(may_pass);
        match failure? {
            Failure::Partial(rows, reason) => refused(rows, reason),
            Failure::Silent(reason) | Failure::Busy(reason) | Failure::Permanent(reason) => refused(all, reason),
        }
    }

    fn post(&mut self, document: &Json) -> Result<(), Failure> {
        let is_metrics = self.form.is_metrics();
        match &mut self.carrier {
            Carrier::Http(agent) => {
                let signal = if is_metrics { "metrics" } else { "logs" };
                post(agent, &format!("{}/v1/{signal}", self.url), document)
            }
            Carrier::Grpc(channel) => {
                let (message, service) = match is_metrics {
                    true => (protobuf::METRICS, "metrics.v1.MetricsService"),
                    false => (protobuf::LOGS, "logs.v1.LogsService"),
                };
                let method = format!("/opentelemetry.proto.collector.{service}/Export");
                let message = protobuf::encode(message, document).map_err(Failure::Permanent)?;
                let answer = channel.call(&method, &message)?;
                // An answer that cannot be read says as much as an empty one.
                let partial = Answer::decode(&answer[..]).unwrap_or_default().partial.unwrap_or_default();
                let rejected = u64::try_from(partial.rejected).ok().filter(|count| *count > 0);
                rejected.map_or(Ok(()), |count| Err(Failure::Partial(count, partial.reason)))
            }
        }
    }

    /// Rows as a document of the protocol.
    fn document(&self, rows: &[Row]) -> Json {
        let attributes = [
            ("service.name", Some("kiln")),
            ("host.name", self.host.as_deref()),
            ("kiln.query", self.query.as_ref().map(Shown::exact)),
            ("kiln.query.version", self.version.as_deref()),
        ];
        let attributes: Vec<Json> = attributes
            .iter()
            .filter_map(|(key, value)| value.map(|value| json!({"key": key, "value": {"stringValue": value}})))
            .collect();
        let resource = json!({"attributes": attributes});
        let scope = json!({"name": "kiln.query", "version": env!("CARGO_PKG_VERSION")});
        let clock = Clock::now(self.recorded_boot_ns);
        if self.form.is_metrics() {
            let metrics = metrics(&self.form, rows, clock);
            json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]})
        } else {
            let records: Vec<Json> = rows.iter().map(|row| record(&self.form, row, clock)).collect();
            json!({"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": records}]}]})
        }
    }
}

/// What a receiver answers over gRPC.
#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    partial: Option<Partial>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Partial {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    reason: String,
}

/// Sends a document over HTTP.
fn post(agent: &Agent, url: &str, document: &Json) -> Result<(), Failure> {
    let answer = agent.post(url).header("Content-Type", "application/json").send(document.to_string());
    let mut answer = answer.map_err(|error| Failure::Silent(error.to_string()))?;
    let status = answer.status().as_u16();
    // An answer that cannot be read says as much as an empty one.
    let text = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_string().unwrap_or_default();
    let said = format!("{url} answers with status {status}");
    match status {
        200..=299 => partial(&text).map_or(Ok(()), Err),
        300..=399 => {
            let place = answer.headers().get("Location").and_then(|place| place.to_str().ok());
            let place: String = place.unwrap_or("another place").chars().take(MAX_SHOWN_ADDRESS).collect();
            Err(Failure::Permanent(format!("{said}, which refers to {place}: name the receiver itself")))
        }
        429 | 502 | 503 | 504 => Err(Failure::Busy(said)),
        _ => Err(Failure::Permanent(said)),
    }
}

/// What a receiver says that it did not take.
fn partial(answer: &str) -> Option<Failure> {
    let answer: Json = serde_json::from_str(answer).ok()?;
    let partial = answer.get("partialSuccess")?;
    let count = ["rejectedDataPoints", "rejectedLogRecords"].iter().find_map(|name| partial.get(name))?;
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok()).filter(|count| *count > 0)?;
    let reason = partial.get("errorMessage").and_then(Json::as_str).unwrap_or("the receiver does not say why");
    Some(Failure::Partial(count, reason.to_owned()))
}

fn attribute(name: &str, value: &Value) -> Option<Json> {
    let value = match value {
        Value::Null => return None,
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Int(value) => json!({"intValue": value.to_string()}),
        // Their integers have a sign.
        Value::Uint(value) if i64::try_from(*value).is_ok() => json!({"intValue": value.to_string()}),
        Value::Float(value) if value.is_finite() => json!({"doubleValue": value}),
        other => json!({"stringValue": label(other)}),
    };
    Some(json!({"key": name, "value": value}))
}

/// A row as a log record.
fn record(form: &Form, row: &Row, clock: Clock) -> Json {
    let named = form.columns.iter().zip(&row.values);
    let attributes: Vec<Json> = named.filter_map(|((name, _), value)| attribute(name, value)).collect();
    let own = form.time.and_then(|at| row.values[at].bits()).or(row.window.map(|window| window[1]));
    let body: Vec<String> =
        form.columns.iter().zip(&row.values).map(|((name, _), value)| format!("{name}={}", label(value))).collect();
    json!({
        "timeUnixNano": own.map_or(clock.unix_ns, |own| clock.since_epoch(own)).to_string(),
        "observedTimeUnixNano": clock.unix_ns.to_string(),
        "severityNumber": SEVERITY_INFO,
        "eventName": format!("kiln.{}", form.table),
        "body": {"stringValue": body.join(" ")},
        "attributes": attributes,
    })
}

/// The unit that a column's name ends with, as OTLP spells it (UCUM).
fn unit(name: &str) -> &'static str {
    let name = name.trim_end_matches(')');
    match name {
        _ if name.ends_with("_ns") => "ns",
        _ if name.ends_with("_us") => "us",
        _ if name.ends_with("bytes") => "By",
        _ => "1",
    }
}

fn metrics(form: &Form, rows: &[Row], clock: Clock) -> Vec<Json> {
    let mut metrics = Vec::new();
    for (at, (name, role)) in form.columns.iter().enumerate() {
        let Some(role) = role.filter(|role| *role != Role::Label) else { continue };
        let points: Vec<Json> = rows.iter().filter_map(|row| point(form, row, at, role, clock)).collect();
        let (kind, data) = match role {
            Role::Counter => {
                ("sum", json!({"aggregationTemporality": DELTA, "isMonotonic": true, "dataPoints": points}))
            }
            Role::Histogram => ("exponentialHistogram", json!({"aggregationTemporality": DELTA, "dataPoints": points})),
            Role::Gauge | Role::Label => ("gauge", json!({"dataPoints": points})),
        };
        let mut metric = json!({
            "name": format!("kiln.{}.{}", identifier(&form.table), identifier(name)),
            "unit": unit(name),
        });
        metric[kind] = data;
        if !points_of(&metric[kind]).is_empty() {
            metrics.push(metric);
        }
    }
    metrics
}

fn points_of(data: &Json) -> &[Json] {
    data.get("dataPoints").and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// One value of a group; `None` for null.
fn point(form: &Form, row: &Row, at: usize, role: Role, clock: Clock) -> Option<Json> {
    let labels = form.columns.iter().zip(&row.values).filter(|((_, role), _)| *role == Some(Role::Label));
    let attributes: Vec<Json> = labels.filter_map(|((name, _), value)| attribute(name, value)).collect();
    let [start, end] = clock.window(row).map(|time| time.to_string());
    let mut point = json!({"attributes": attributes, "startTimeUnixNano": start, "timeUnixNano": end});
    match (&row.values[at], role) {
        (Value::Histogram(histogram), _) => {
            let Json::Object(fields) = exponential(histogram) else { return None };
            point.as_object_mut()?.extend(fields);
        }
        (Value::Null, _) => return None,
        (value, _) => match value.as_integer().and_then(|value| i64::try_from(value).ok()) {
            Some(value) => point["asInt"] = json!(value.to_string()),
            None => point["asDouble"] = json!(value.as_float().filter(|value| value.is_finite())?),
        },
    }
    Some(point)
}

/// A histogram as an exponential one. Bucket `i` of scale `s` has the values above `2^(i/2^s)`, to `2^((i+1)/2^s)`
/// inclusive. The middle of each of our buckets decides where its values are.
fn exponential(histogram: &Histogram) -> Json {
    let mut zeros = 0;
    let mut at: Vec<(i64, u64)> = Vec::new();
    for (least, greatest, values) in histogram.buckets() {
        if greatest == 0 {
            zeros += values;
            continue;
        }
        let middle = least as f64 + (greatest - least) as f64 / 2.0;
        at.push(((middle.log2() * f64::from(1 << SCALE)).ceil() as i64 - 1, values));
    }
    let mut scale = SCALE;
    let span = |at: &[(i64, u64)]| at.last().zip(at.first()).map_or(0, |(last, first)| last.0 - first.0 + 1);
    while span(&at) > MAX_BUCKETS {
        // A bucket of the next smaller scale is two of this one.
        at.iter_mut().for_each(|(index, _)| *index >>= 1);
        scale -= 1;
    }
    let offset = at.first().map_or(0, |(first, _)| *first);
    let mut counts = vec![0u64; span(&at) as usize];
    for (index, values) in &at {
        counts[(index - offset) as usize] += values;
    }
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    json!({
        "count": histogram.count().to_string(),
        "sum": histogram.sum() as f64,
        "scale": scale,
        "zeroCount": zeros.to_string(),
        "positive": {"offset": offset, "bucketCounts": counts},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_buckets_hold_their_values() {
        for values in [vec![0, 0, 1, 2, 3], (1..5000).collect(), vec![1, u64::MAX], vec![], vec![0]] {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            let document = exponential(&histogram);
            let number = |json: &Json| json.as_str().and_then(|text| text.parse::<u64>().ok()).expect("an integer");
            let counts = document["positive"]["bucketCounts"].as_array().expect("counts");
            assert!(counts.len() as i64 <= MAX_BUCKETS, "{document}");
            let scale = f64::from(document["scale"].as_i64().expect("a scale") as i32).exp2();
            let offset = document["positive"]["offset"].as_i64().expect("an offset");
            let zeros = values.iter().filter(|value| **value == 0).count() as u64;
            assert_eq!(number(&document["zeroCount"]), zeros);
            // As many values as the histogram says are up to each bound, but for those within 1/64 of it.
            let mut seen = zeros;
            for (index, count) in counts.iter().enumerate() {
                seen += number(count);
                let bound = ((offset + index as i64 + 1) as f64 / scale).exp2();
                let below = |bound: f64| values.iter().filter(|value| **value as f64 <= bound).count() as u64;
                let [least, most] = [bound * (1.0 - 1.0 / 64.0), bound * (1.0 + 1.0 / 64.0)].map(below);
                assert!((least..=most).contains(&seen), "{seen} values up to {bound}: {least} to {most}");
            }
            assert_eq!(seen, values.len() as u64);
        }
    }
}
