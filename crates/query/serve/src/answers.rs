//! What a service answers to a request, whoever carries it.
//!
//! | request | answer |
//! |---|---|
//! | `GET /queries` | all queries, what they take, the limits |
//! | `GET /queries/NAME?after=N` | one query with its windows after number N |
//! | `PUT /queries/NAME` | installs the query of the body, an [`Install`] |
//! | `POST /queries/NAME/withdraw` | withdraws the version of the body, a [`crate::version::Withdrawn`] |
//! | `DELETE /queries/NAME` | stops it; the answer has its last windows |
//!
//! The last three are for the socket alone: its mode says who may use it. The page's door answers `GET` with the key, to a
//! browser that reached it by an address and not by somebody's name ([`Door::admits`]).

use serde_json::{Value as Json, json};

use crate::address::knows;
use crate::service::{Install, Service};
use kiln_live::http::{Answer, Request};
use kiln_program::Error;

/// Maximum length of a request's body, in bytes.
pub const MAX_BODY: usize = 64 << 10;

/// The end of the path that withdraws a version of a query.
const WITHDRAW: &str = "/withdraw";

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// How a request came in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Door {
    /// By the socket, whose mode keeps others away.
    Socket,
    /// By an address that every process of this machine can reach.
    Page {
        /// What a request needs to know to read rows.
        key: String,
        /// The port that it came to.
        port: u16,
        /// `http` or, encrypted, `https`.
        scheme: &'static str,
    },
}

fn document(status: u16, document: &Json) -> Answer {
    Answer { status, content_type: "application/json", body: document.to_string() + "\n" }
}

/// A refusal, as a document.
pub fn refused(status: u16, kind: &str, message: &str) -> Answer {
    document(status, &json!({"error": {"kind": kind, "message": message}}))
}

fn text(content_type: &'static str, body: &str) -> Answer {
    Answer { status: 200, content_type, body: body.to_owned() }
}

impl Door {
    /// Whether a browser's request is from this door's own page. A foreign page has another `Origin`. A foreign name that
    /// was made to lead here has another `Host`: only addresses and `localhost` are taken; encrypted, any name, because the
    /// certificate has to have it.
    fn admits(&self, request: &Request) -> Result<(), &'static str> {
        let Door::Page { port, scheme, .. } = self else { return Ok(()) };
        let is_own = |host: &&str| *scheme == "https" || is_own_host(host, *port);
        let Some(host) = request.header("Host").filter(is_own) else {
            return Err("the page is asked for by its address and port, such as 127.0.0.1:9436, not by a name");
        };
        if request.header("Origin").is_some_and(|origin| origin != format!("{scheme}://{host}")) {
            return Err("a page of another origin cannot ask");
        }
        if request.method != "GET" {
            return Err("this address only answers GET; queries are installed and stopped over the service's socket");
        }
        Ok(())
    }

    /// Whether a request knows the key, so that other users of the machine cannot read rows.
    fn knows_key(&self, request: &Request) -> bool {
        let Door::Page { key, .. } = self else { return true };
        let given = request.header("Authorization").and_then(|text| text.strip_prefix("Bearer ")).unwrap_or_default();
        knows(key, given)
    }
}

/// `127.0.0.1:9436`, `[::1]:9436` or `localhost:9436`.
fn is_own_host(host: &str, port: u16) -> bool {
    let Some(name) = host.strip_suffix(&format!(":{port}")).or((port == 80).then_some(host)) else { return false };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<std::net::IpAddr>().is_ok()
}

/// Answers a request.
pub fn answer(service: &Service, door: &Door, request: &Request) -> Answer {
    if let Err(why) = door.admits(request) {
        return refused(403, "forbidden", why);
    }
    let (path, question) = request.url.split_once('?').unwrap_or((&request.url, ""));
    let is_page = matches!(door, Door::Page { .. });
    match path {
        "/" if is_page => return text("text/html; charset=utf-8", PAGE),
        "/page.css" if is_page => return text("text/css; charset=utf-8", STYLE),
        "/page.js" if is_page => return text("text/javascript; charset=utf-8", SCRIPT),
        _ => {}
    }
    if !door.knows_key(request) {
        return refused(401, "unauthorized", "the key is missing or wrong: `kiln serve list` shows the address");
    }
    let name = path.strip_prefix("/queries/").filter(|name| !name.is_empty());
    let result = match (&*request.method, path, name) {
        ("GET", "/queries", _) => Ok((200, service.list(*door == Door::Socket))),
        ("GET", _, Some(name)) => service.show(name, after(question)).map(|document| (200, document)),
        ("PUT", _, Some(name)) => install(service, name, &request.body).map(|document| (201, document)),
        ("DELETE", _, Some(name)) => service.stop(name).map(|document| (200, document)),
        ("POST", _, Some(path)) if path.ends_with(WITHDRAW) => {
            withdraw(service, &path[..path.len() - WITHDRAW.len()], &request.body).map(|document| (200, document))
        }
        _ => {
            return refused(
                404,
                "not-found",
                "known are GET /queries, GET, PUT and DELETE /queries/NAME, and POST /queries/NAME/withdraw",
            );
        }
    };
    match result {
        Ok((status, found)) => document(status, &found),
        Err(error) => {
            let status = match error {
                Error::Limit(_) => 429,
                Error::InvalidInput(_) if matches!(&*request.method, "GET" | "DELETE") => 404,
                Error::Unsupported(_) | Error::Os { .. } => 501,
                _ => 400,
            };
            refused(status, error.kind(), &error.to_string())
        }
    }
}

/// `after=12`: the number of the last window that the reader has.
fn after(question: &str) -> u64 {
    let parts = question.split('&').filter_map(|part| part.strip_prefix("after="));
    parts.filter_map(|number| number.parse().ok()).next_back().unwrap_or(0)
}

fn withdraw(service: &Service, name: &str, body: &[u8]) -> Result<Json, Error> {
    let withdrawn = serde_json::from_slice(body)
        .map_err(|error| Error::InvalidInput(format!("the body is not a version to withdraw: {error}")))?;
    service.withdraw(name, &withdrawn)
}

fn install(service: &Service, name: &str, body: &[u8]) -> Result<Json, Error> {
    let install: Install = serde_json::from_slice(body)
        .map_err(|error| Error::InvalidInput(format!("the body is not a query to install: {error}")))?;
    service.install(name, &install)
}
