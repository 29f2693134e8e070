//! Replies, in either version of the protocol.

use super::number::double;
use crate::digits;
use crate::store::Item;

pub use super::refusal::{Refusal, shown};

/// Where replies are written.
pub struct Reply<'o> {
    /// All replies that are not sent yet.
    pub output: &'o mut Vec<u8>,
    /// Whether the client understands RESP3.
    pub resp3: bool,
}

impl Reply<'_> {
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.output.push(kind);
        self.output.extend_from_slice(text);
        self.output.extend_from_slice(b"\r\n");
    }

    fn count(&mut self, kind: u8, count: usize) {
        self.output.push(kind);
        digits::push(self.output, count as u64);
        self.output.extend_from_slice(b"\r\n");
    }

    /// A word that says how it went.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `OK`.
    pub fn ok(&mut self) {
        self.simple("OK");
    }

    /// A refusal. What would end the line is a space.
    pub fn error(&mut self, text: &[u8]) {
        let text: Vec<u8> = text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect();
        self.line(b'-', &text);
    }

    /// A number.
    pub fn integer(&mut self, number: i64) {
        self.output.push(b':');
        digits::push_signed(self.output, number);
        self.output.extend_from_slice(b"\r\n");
    }

    /// A number that may have a fraction.
    pub fn double(&mut self, number: f64) {
        let text = double(number);
        if self.resp3 { self.line(b',', text.as_bytes()) } else { self.bulk(text.as_bytes()) }
    }

    /// A string.
    pub fn bulk(&mut self, text: &[u8]) {
        self.count(b'$', text.len());
        self.output.extend_from_slice(text);
        self.output.extend_from_slice(b"\r\n");
    }

    /// A string that is an item's value.
    pub fn value(&mut self, item: &Item<'_>) {
        self.count(b'$', item.value_bytes);
        item.append_value_line(self.output);
    }

    /// A string, or nothing.
    pub fn bulk_or_null(&mut self, text: Option<&[u8]>) {
        match text {
            Some(text) => self.bulk(text),
            None => self.null(),
        }
    }

    /// Text for people.
    pub fn text(&mut self, text: &str) {
        if self.resp3 {
            self.count(b'=', text.len() + 4);
            self.output.extend_from_slice(b"txt:");
            self.output.extend_from_slice(text.as_bytes());
            self.output.extend_from_slice(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// Nothing.
    pub fn null(&mut self) {
        self.output.extend_from_slice(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// `count` values follow.
    pub fn array(&mut self, count: usize) {
        self.count(b'*', count);
    }

    /// `count` values in no order follow.
    pub fn set(&mut self, count: usize) {
        self.count(if self.resp3 { b'~' } else { b'*' }, count);
    }

    /// `count` pairs follow.
    pub fn map(&mut self, count: usize) {
        if self.resp3 {
            self.count(b'%', count);
        } else {
            self.count(b'*', 2 * count);
        }
    }
}
