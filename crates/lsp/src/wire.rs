//! Messages on standard input and output, each after a head that says its length.

use std::io::{self, BufRead, Read as _, Write as _};
use std::thread::JoinHandle;

use crossbeam_channel::bounded;
use lsp_server::{Connection, Message, Notification};

/// Bytes of a message at most: a source that an editor sends has a few MiB.
const MAX_BYTES: u64 = 64 << 20;
/// Bytes of a message's head at most.
const MAX_HEAD_BYTES: u64 = 4 << 10;

/// The threads that read and write.
pub struct Threads([JoinHandle<io::Result<()>>; 2]);

impl Threads {
    /// Waits for their end.
    ///
    /// # Errors
    /// What reading or writing gave, also for a message that cannot be read.
    pub fn join(self) -> io::Result<()> {
        self.0.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
    }
}

/// A connection over standard input and output.
pub fn stdio() -> (Connection, Threads) {
    let (sender, to_write) = bounded::<Message>(0);
    let (read, receiver) = bounded(0);
    let writing = std::thread::spawn(move || {
        let mut stdout = io::stdout().lock();
        to_write.into_iter().try_for_each(|message| message.write(&mut stdout))?;
        stdout.flush()
    });
    let reading = std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        while let Some(message) = next(&mut stdin)? {
            let last = matches!(&message, Message::Notification(Notification { method, .. }) if method == "exit");
            if read.send(message).is_err() || last {
                break;
            }
        }
        Ok(())
    });
    (Connection { sender, receiver }, Threads([writing, reading]))
}

/// The next message; `None` at the end. A body that is no message is left out and told on standard error: its head says
/// where the next one begins.
fn next(input: &mut impl BufRead) -> io::Result<Option<Message>> {
    loop {
        let Some(length) = body_bytes(input)? else { return Ok(None) };
        let mut body = Vec::new();
        let there = input.take(length).read_to_end(&mut body)? as u64;
        if there < length {
            return Err(invalid(format!("a message of {length} bytes that ends after {there}")));
        }
        match serde_json::from_slice(&body) {
            Ok(message) => return Ok(Some(message)),
            Err(error) => eprintln!("kiln lsp: a message of {length} bytes that cannot be read: {error}"),
        }
    }
}

/// Reads a head: the bytes of the body behind it, or `None` at the end.
fn body_bytes(input: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let room = MAX_HEAD_BYTES.saturating_sub(head.len() as u64);
        if input.take(room).read_until(b'\n', &mut head)? == 0 {
            return match head.is_empty() {
                true => Ok(None),
                false => Err(invalid("a message whose head does not end".to_owned())),
            };
        }
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<u64>().ok());
    let length = length.ok_or_else(|| invalid("a message without Content-Length".to_owned()))?;
    if length > MAX_BYTES {
        return Err(invalid(format!("a message of {length} bytes; {MAX_BYTES} are allowed")));
    }
    Ok(Some(length))
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Message>, String> {
        let mut input = text.as_bytes();
        std::iter::from_fn(|| next(&mut input).transpose())
            .collect::<io::Result<_>>()
            .map_err(|error| error.to_string())
    }

    #[test]
    fn hostile_heads_are_refused() {
        let exit = r#"{"jsonrpc":"2.0","method":"exit"}"#;
        let whole = format!("Content-Type: x\r\ncontent-length: {}\r\n\r\n{exit}", exit.len());
        assert_eq!(read(&whole.repeat(2)).expect("messages").len(), 2);
        assert!(read("").expect("nothing").is_empty());
        let broken = format!("Content-Length: 2\r\n\r\n{{}}Content-Length: 3\r\n\r\n\u{1}{{}}{whole}");
        assert_eq!(read(&broken).expect("the last can be read").len(), 1);
        for (text, wanted) in [
            ("Content-Length: 99999999999999\r\n\r\n{}", "are allowed"),
            ("Content-Length: 9\r\n\r\n{}", "ends after 2"),
            ("Content-Length: -1\r\n\r\n{}", "without Content-Length"),
            ("Content-Length: 2\r\n", "does not end"),
            ("no head", "does not end"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
        assert!(read(&"x".repeat(1 << 20)).expect_err("too long").contains("does not end"));
    }
}
