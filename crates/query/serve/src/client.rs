//! The other end of a service's socket: one request, one answer, one connection. `curl --unix-socket` does the same.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_plan::{DataType, Row, Value};
use serde_json::Value as Json;

use crate::service::Install;
use crate::version::Withdrawn;
use kiln_live::ColumnHead;
use kiln_program::Error;

/// How long a service may take to answer: it plans and loads a query meanwhile.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of an answer, in bytes.
const MAX_ANSWER: u64 = 1 << 30;

/// A service that is reached by its socket.
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// The service at a socket; it is not asked yet.
    pub fn new(path: &Path) -> Client {
        Client { path: path.to_owned() }
    }

    /// Installs a query.
    ///
    /// # Errors
    /// What [`crate::Service::install`] returns, and as [`Client::list`].
    pub fn install(&self, name: &str, install: &Install) -> Result<Json, Error> {
        let body = serde_json::to_string(install).map_err(|error| Error::InvalidInput(error.to_string()))?;
        self.request("PUT", &queries(name), &body)
    }

    /// All queries.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where no service answers, or something else does.
    pub fn list(&self) -> Result<Json, Error> {
        self.request("GET", "/queries", "")
    }

    /// A query with the windows after a number.
    ///
    /// # Errors
    /// What [`crate::Service::show`] returns, and as [`Client::list`].
    pub fn show(&self, name: &str, after: u64) -> Result<Json, Error> {
        self.request("GET", &format!("{}?after={after}", queries(name)), "")
    }

    /// Withdraws a version of a query.
    ///
    /// # Errors
    /// What [`crate::Service::withdraw`] returns, and as [`Client::list`].
    pub fn withdraw(&self, name: &str, withdrawn: &Withdrawn) -> Result<Json, Error> {
        let body = serde_json::to_string(withdrawn).map_err(|error| Error::InvalidInput(error.to_string()))?;
        self.request("POST", &format!("{}/withdraw", queries(name)), &body)
    }

    /// Stops a query.
    ///
    /// # Errors
    /// What [`crate::Service::stop`] returns, and as [`Client::list`].
    pub fn stop(&self, name: &str) -> Result<Json, Error> {
        self.request("DELETE", &queries(name), "")
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Result<Json, Error> {
        let shown = self.path.display();
        let ended = || {
            let message = format!("the service at {shown} ended the connection before its answer was whole");
            Error::Unsupported(format!("{message}: if it still runs, `kiln serve list` says what it did"))
        };
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Error::InvalidInput(format!(
                "no service answers at {shown}: begin one with `kiln serve`, or name its socket with --socket"
            )),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => ended(),
            _ => Error::InvalidInput(format!("the service at {shown}: {error}")),
        };
        let mut stream = UnixStream::connect(&self.path).map_err(failed)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        // Version 1.0: the answer is one piece, which ends with the connection.
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: kiln\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut bytes = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut bytes).map_err(failed)?;
        let (status, document) = parsed(&bytes).ok_or_else(|| match is_cut(&bytes) {
            true => ended(),
            false => Error::InvalidInput(format!("what answers at {shown} is not a service of kiln")),
        })?;
        if (200..300).contains(&status) { Ok(document) } else { Err(refusal(&document)) }
    }
}

/// The path of a query. A name that is not one is refused by the service, so it must come there whole.
fn queries(name: &str) -> String {
    let mut path = "/queries/".to_owned();
    for byte in name.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if is_plain { path.push(byte.into()) } else { path += &format!("%{byte:02X}") }
    }
    path
}

/// Status and document of an answer.
fn parsed(bytes: &[u8]) -> Option<(u16, Json)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

/// Whether bytes begin an answer and do not end it: the head, or as many bytes of the body as the head says.
fn is_cut(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match text.split_once("\r\n\r\n") {
        None => text.starts_with("HTTP/") || "HTTP/".starts_with(&*text),
        Some((head, body)) => {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
            length.is_some_and(|length: usize| body.len() < length)
        }
    }
}

/// The service's error, of the kind that it was there.
fn refusal(document: &Json) -> Error {
    let text = |name: &str| document["error"][name].as_str().unwrap_or_default().to_owned();
    let message = text("message");
    match text("kind").as_str() {
        "rejected" => Error::Rejected(message),
        "limit" => Error::Limit(message.trim_start_matches("limit reached: ").to_owned()),
        "unsupported" | "os" => Error::Unsupported(message.trim_start_matches("not supported: ").to_owned()),
        _ if message.contains('\n') => Error::InvalidQuery(message),
        _ => Error::InvalidInput(message),
    }
}

/// The columns and rows of a query that was shown or stopped. Histograms are text.
pub fn result(document: &Json) -> (Vec<ColumnHead>, Vec<Row>) {
    let columns = document["columns"].as_array().into_iter().flatten();
    let columns = columns.map(|column| ColumnHead {
        name: column["name"].as_str().unwrap_or_default().into(),
        data_type: type_name(column["type"].as_str().unwrap_or_default()),
    });
    let windows = document["windows"].as_array().into_iter().flatten();
    let rows = windows.flat_map(|window| {
        let bound = |at: usize| window["window"][at].as_u64();
        let bounds = bound(0).zip(bound(1)).map(|(start, end)| [start, end]);
        let rows = window["rows"].as_array().into_iter().flatten();
        rows.map(move |row| Row { window: bounds, values: row.as_array().into_iter().flatten().map(value).collect() })
    });
    (columns.collect(), rows.collect())
}

fn value(json: &Json) -> Value {
    match json {
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => {
            let integer = number.as_u64().map(Value::Uint).or_else(|| number.as_i64().map(Value::Int));
            integer.unwrap_or_else(|| Value::Float(number.as_f64().unwrap_or_default()))
        }
        Json::String(text) => Value::text(text),
        Json::Object(histogram) => histogram.get("text").and_then(Json::as_str).map_or(Value::Null, Value::text),
        Json::Null | Json::Array(_) => Value::Null,
    }
}

fn type_name(name: &str) -> &'static str {
    use DataType::{Bool, Float, Histogram, Int, Text, Time, Uint};
    let known = [Bool, Int, Uint, Float, Text, Time, Histogram].map(DataType::name);
    known.into_iter().find(|known| *known == name).unwrap_or(Text.name())
}
