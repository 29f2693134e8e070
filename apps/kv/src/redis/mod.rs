//! Redis' protocol (RESP2 and RESP3) on a [`Service`]: bytes in, bytes out.
//!
//! ```text
//!   *2\r\n$3\r\nGET\r\n$1\r\nk\r\n -> Requests -> table: GET -> strings::get -> store -> Reply -> $1\r\nv\r\n
//! ```
//!
//! Each command of one key is one change of the store. Those of several keys are one after the other, with others' between them.

mod about;
mod call;
mod client;
mod cluster;
mod glob;
mod hashes;
mod keys;
mod number;
mod refusal;
mod reply;
mod request;
mod slots;
mod sorted;
mod strings;
mod table;

use std::sync::atomic::Ordering;

use crate::protocol::{Next, OUTPUT_MOST, Service};
pub use call::VERSION;
use call::{Call, SHOWN, Served};
use client::Client;
use reply::{Refusal, Reply, shown};
pub use request::REQUEST_MOST;
use request::Requests;
pub use slots::{Cluster, Layout, Node, slot};
use table::Row;

/// A connection's requests.
pub struct Session<'s, 'h> {
    service: &'s Service<'h>,
    requests: Requests,
    client: Client,
    full: bool,
}

impl<'s, 'h> Session<'s, 'h> {
    /// A new session.
    pub fn new(service: &'s Service<'h>) -> Session<'s, 'h> {
        let client = Client::new(service);
        Session { service, requests: Requests::default(), client, full: false }
    }

    /// As [`crate::protocol::Session::serve`].
    pub fn serve(&mut self, arrived: &[u8], output: &mut Vec<u8>) -> Next {
        self.requests.arrived(arrived);
        self.full = false;
        loop {
            if output.len() >= OUTPUT_MOST {
                self.full = true;
                return Next::Go;
            }
            match self.requests.next(self.client.is_stranger()) {
                Ok(None) => return Next::Go,
                Ok(Some(words)) => {
                    if is_of_a_browser(words.as_slice()) {
                        return Next::Close;
                    }
                    if !words.is_empty() {
                        serve(self.service, &mut self.client, words.as_slice(), output);
                        // The same words are met again when the output is sent.
                        if self.client.answered > 0 {
                            self.full = true;
                            return Next::Go;
                        }
                        self.service.statistics.commands.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Err(why) => {
                    Reply { output, resp3: false }.error(format!("ERR Protocol error: {why}").as_bytes());
                    return Next::Close;
                }
            }
            self.requests.done();
            if self.client.leaves {
                return Next::Close;
            }
        }
    }

    /// As [`crate::protocol::Session::is_full`].
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Bytes that the session keeps.
    pub fn kept(&self) -> usize {
        self.requests.kept()
    }

    /// As [`crate::protocol::Session::memory`].
    pub fn memory(&self) -> usize {
        self.requests.memory() + self.client.memory()
    }
}

/// Whether a request is a line of HTTP: a page makes a browser send it, and what follows may be commands. Redis does not answer either.
fn is_of_a_browser(words: &[&[u8]]) -> bool {
    words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:"))
}

/// Commands that are served again, as of a client that has said the password.
pub struct Replay<'s, 'h> {
    service: &'s Service<'h>,
    client: Client,
    output: Vec<u8>,
}

impl<'s, 'h> Replay<'s, 'h> {
    /// Serves commands of a log.
    pub fn new(service: &'s Service<'h>) -> Replay<'s, 'h> {
        Replay { service, client: Client::log(service), output: Vec::new() }
    }

    /// Serves a command.
    ///
    /// # Errors
    /// Returns the refusal, unless it is that the key has another type: then a later command removes the key.
    pub fn apply(&mut self, words: &[&[u8]]) -> Result<(), String> {
        if words.is_empty() {
            return Ok(());
        }
        self.output.clear();
        serve(self.service, &mut self.client, words, &mut self.output);
        match self.output.strip_prefix(b"-") {
            Some(refusal) if !refusal.starts_with(b"WRONGTYPE") => {
                Err(String::from_utf8_lossy(refusal.trim_ascii_end()).into_owned())
            }
            _ => Ok(()),
        }
    }
}

fn serve(service: &Service<'_>, client: &mut Client, words: &[&[u8]], output: &mut Vec<u8>) {
    let before = output.len();
    let resp3 = client.resp3;
    let mut call = Call { service, client, words, reply: Reply { output, resp3 } };
    if let Err(refusal) = run(&mut call) {
        call.reply.error(refusal.as_bytes());
    }
    if client.is_silent() {
        output.truncate(before);
    }
    if client.answered == 0 {
        client.served();
    }
}

fn run(call: &mut Call<'_, '_>) -> Served {
    let row = table::row(call.words[0]).ok_or_else(|| unknown(call.words))?;
    let count = call.words.len() as i64;
    if (row.arity > 0 && count != row.arity) || count < -row.arity {
        return Err(format!("ERR wrong number of arguments for '{}' command", row.name).into());
    }
    if call.client.is_stranger() && !row.flags.contains(&"no_auth") {
        return Err("NOAUTH Authentication required.".into());
    }
    if let Some(cluster) = call.service.cluster.as_ref().filter(|_| row.keys[0] > 0 && !call.client.is_log) {
        cluster.layout().admit(keys(row, call.words))?;
    }
    if row.flags.first() == Some(&"write") {
        call.service.store.admit().map_err(|why| format!("MISCONF Errors writing to the AOF file: {why}"))?;
    }
    (row.serve)(call)
}

/// The keys among a command's words.
fn keys<'w>(row: &Row, words: &'w [&'w [u8]]) -> impl Iterator<Item = &'w [u8]> {
    let [first, last, step] = row.keys;
    let end = if last < 0 { words.len() } else { words.len().min(last as usize + 1) };
    words[..end].iter().skip(first as usize).step_by(step.max(1) as usize).copied()
}

fn unknown(words: &[&[u8]]) -> Refusal {
    let mut text = Vec::new();
    for word in &words[1..] {
        if text.len() >= SHOWN {
            break;
        }
        let shown = shown(word, SHOWN - text.len());
        text.extend([b"'", shown, b"' "].concat());
    }
    let before = "ERR unknown command '";
    let name = shown(words[0], SHOWN);
    [before.as_bytes(), name, b"', with args beginning with: ", &text].concat().into()
}
