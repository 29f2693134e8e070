//! Requests over UDP that no program has served: eight bytes before each datagram's text.
//!
//! ```text
//!   id  number  datagrams  0        replies of more than TEXT_MOST bytes are several datagrams
//! ```

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;

use crate::protocol::{Service, Session};

const FRAME_BYTES: usize = 8;
/// Text of one datagram, as memcached cuts them.
const TEXT_MOST: usize = 1400 - FRAME_BYTES;
/// The largest request.
const REQUEST_MOST: usize = 64 << 10;
/// Datagrams at a time, before connections have their turn.
const DATAGRAMS: usize = 64;

/// Serves datagrams that are there; whether there may be more.
pub fn serve(socket: &UdpSocket, service: &Service<'_>, buffer: &mut Vec<u8>) -> bool {
    let Ok(own) = socket.local_addr() else { return false };
    buffer.resize(REQUEST_MOST, 0);
    for _ in 0..DATAGRAMS {
        let (bytes, sender) = match socket.recv_from(buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            // An earlier answer was refused, or the like.
            Err(_) => continue,
        };
        // An answer to a server of this kind would be answered again, and so on for ever.
        if sender.port() == own.port() {
            continue;
        }
        service.statistics.received.fetch_add(bytes as u64, Ordering::Relaxed);
        let answers = answers(service, &buffer[..bytes]);
        if service.store.journal().is_some_and(|journal| !journal.wait(journal.position())) {
            continue;
        }
        for datagram in answers {
            // A client that is gone, or a full queue: datagrams may get lost.
            let sent = socket.send_to(&datagram, sender).unwrap_or(0);
            service.statistics.sent.fetch_add(sent as u64, Ordering::Relaxed);
        }
    }
    true
}

/// The datagrams that answer one.
fn answers(service: &Service<'_>, request: &[u8]) -> Vec<Vec<u8>> {
    let Some((frame, text)) = request.split_first_chunk::<FRAME_BYTES>() else { return Vec::new() };
    let mut output = Vec::new();
    if frame[2..6] == [0, 0, 0, 1] {
        let mut session = Session::new(service);
        session.serve(text, &mut output);
        if session.is_full() {
            output = b"SERVER_ERROR the reply is too long for datagrams\r\n".to_vec();
        }
    } else {
        output.extend(b"SERVER_ERROR multi-packet request not supported\r\n");
    }
    let parts: Vec<&[u8]> = output.chunks(TEXT_MOST).collect();
    let count = (parts.len() as u16).to_be_bytes();
    let framed = |(number, part): (usize, &&[u8])| {
        let number = (number as u16).to_be_bytes();
        [&frame[..2], &number, &count, &[0, 0], part].concat()
    };
    parts.iter().enumerate().map(framed).collect()
}
