//! Requests of Redis' protocol, and what this server and Redis answer to them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use kiln_kv::redis::Session;

use super::{Ended, peer};

/// The words of a line of a conversation, as a request.
pub fn request(line: &str) -> Vec<u8> {
    let (mut words, mut quoted) = (vec![String::new()], None);
    for byte in line.chars() {
        match (byte, quoted) {
            ('"' | '\'', None) => quoted = Some(byte),
            (mark, Some(begun)) if mark == begun => quoted = None,
            (' ', None) => words.push(String::new()),
            (other, _) => words.last_mut().expect("a word").push(other),
        }
    }
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    framed(&words)
}

/// A request of words.
pub fn framed(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// A character for each byte, so that answers are equal only if their bytes are.
pub fn text(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// What this server answers to bytes.
pub fn ask(session: &mut Session<'_, '_>, bytes: &[u8]) -> String {
    let mut output = Vec::new();
    session.serve(bytes, &mut output);
    text(&output)
}

/// Starts redis-server, if it is installed.
pub fn redis_server() -> Option<(Ended, u16)> {
    let folder = std::env::temp_dir();
    let folder = folder.to_str().expect("a path that is text");
    let fixed = ["--port", "PORT", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder];
    peer("redis-server", &[&fixed[..], &["--enable-debug-command", "local"]].concat())
}

/// What a server answers to a request: up to the answer to a word that nobody says else.
pub fn told(stream: &mut TcpStream, bytes: &[u8]) -> String {
    const MARK: &str = "$7\r\nthe-end\r\n";
    stream.write_all(&[bytes, &framed(&[b"ECHO", b"the-end"])].concat()).expect("it reads");
    let (mut all, mut part) = (Vec::new(), [0; 4096]);
    while !all.ends_with(MARK.as_bytes()) {
        let count = stream.read(&mut part).expect("it answers");
        assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(bytes));
        all.extend(&part[..count]);
    }
    all.truncate(all.len() - MARK.len());
    text(&all)
}
