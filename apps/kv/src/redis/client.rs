//! What a connection is: its name, its protocol, whether it has said the password.

use super::call::{Call, SYNTAX, Served, VERSION, unknown_subcommand};
use super::number::integer;
use super::reply::Refusal;
use crate::protocol::Service;
use std::sync::atomic::Ordering;

/// Which replies a client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    All,
    None,
    /// None to this command and the next one.
    NotNext,
    NotThis,
}

/// A client.
pub struct Client {
    id: i64,
    name: Vec<u8>,
    /// Whether it understands RESP3.
    pub resp3: bool,
    knows_password: bool,
    /// Whether it has said that it goes.
    pub leaves: bool,
    /// Whether it is a log that is read: then keys are this server's, whatever slots it has now.
    pub is_log: bool,
    /// Words of the command that are answered, if the rest waits until the output is sent; else 0.
    pub answered: usize,
    wanted: Wanted,
}

impl Client {
    /// A client that has just come.
    pub fn new(service: &Service<'_>) -> Client {
        Client {
            id: service.clients.fetch_add(1, Ordering::Relaxed) as i64 + 1,
            name: Vec::new(),
            resp3: false,
            knows_password: service.password.is_none(),
            leaves: false,
            is_log: false,
            answered: 0,
            wanted: Wanted::All,
        }
    }

    /// A log that is read: it need not say the password.
    pub fn log(service: &Service<'_>) -> Client {
        Client { knows_password: true, is_log: true, ..Client::new(service) }
    }

    /// Bytes of memory that its name takes.
    pub fn memory(&self) -> usize {
        self.name.capacity()
    }

    /// Whether it has yet to say the password.
    pub fn is_stranger(&self) -> bool {
        !self.knows_password
    }

    /// Whether the reply to this command is not wanted.
    pub fn is_silent(&self) -> bool {
        self.wanted != Wanted::All
    }

    /// Notes that a command is served.
    pub fn served(&mut self) {
        self.wanted = match self.wanted {
            Wanted::NotNext => Wanted::NotThis,
            Wanted::NotThis => Wanted::All,
            other => other,
        };
    }

    fn check(&mut self, service: &Service<'_>, user: &[u8], password: &[u8]) -> Served {
        let known = service.password.as_deref().map(str::as_bytes);
        // Without a password every one is right, for the user that there is.
        if user != b"default" || known.is_some_and(|known| !same(known, password)) {
            return Err("WRONGPASS invalid username-password pair or user is disabled.".into());
        }
        self.knows_password = true;
        Ok(())
    }
}

/// Compares in a time that depends on the second text's length alone.
fn same(known: &[u8], said: &[u8]) -> bool {
    let differ = said
        .iter()
        .enumerate()
        .fold(0, |differ, (at, byte)| differ | (byte ^ known.get(at % known.len().max(1)).copied().unwrap_or(0)));
    differ == 0 && known.len() == said.len()
}

/// `PING`.
pub fn ping(call: &mut Call<'_, '_>) -> Served {
    match call.words {
        [_] => call.reply.simple("PONG"),
        [_, text] => call.reply.bulk(text),
        _ => return Err("ERR wrong number of arguments for 'ping' command".into()),
    }
    Ok(())
}

/// `ECHO`.
pub fn echo(call: &mut Call<'_, '_>) -> Served {
    call.reply.bulk(call.words[1]);
    Ok(())
}

/// `QUIT`.
pub fn quit(call: &mut Call<'_, '_>) -> Served {
    call.client.leaves = true;
    call.reply.ok();
    Ok(())
}

/// `RESET`.
pub fn reset(call: &mut Call<'_, '_>) -> Served {
    let id = call.client.id;
    *call.client = Client { id, ..Client::new(call.service) };
    call.reply.simple("RESET");
    Ok(())
}

/// `SELECT`: there is one database.
pub fn select(call: &mut Call<'_, '_>) -> Served {
    const BEYOND: &str = "ERR value is out of range, value must between -2147483648 and 2147483647";
    match integer(call.words[1])? {
        0 => call.reply.ok(),
        number if call.service.cluster.is_some() && i32::try_from(number).is_ok() => {
            return Err("ERR SELECT is not allowed in cluster mode".into());
        }
        number if i32::try_from(number).is_err() => return Err(BEYOND.into()),
        _ => return Err("ERR DB index is out of range".into()),
    }
    Ok(())
}

/// `AUTH`.
pub fn auth(call: &mut Call<'_, '_>) -> Served {
    let (user, password) = match call.words {
        [_, password] if call.service.password.is_some() => (&b"default"[..], *password),
        [_, _] => {
            return Err("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?".into());
        }
        [_, user, password] => (*user, *password),
        _ => return Err(SYNTAX),
    };
    call.client.check(call.service, user, password)?;
    call.reply.ok();
    Ok(())
}

fn set_name(call: &mut Call<'_, '_>, name: &[u8]) -> Served {
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Err("ERR Client names cannot contain spaces, newlines or special characters.".into());
    }
    call.client.name = name.to_vec();
    Ok(())
}

/// `HELLO`.
pub fn hello(call: &mut Call<'_, '_>) -> Served {
    let words = call.words;
    let version = match words.get(1) {
        Some(text) => {
            let wrong = Refusal::from("ERR Protocol version is not an integer or out of range");
            let version = integer(text).map_err(|_| wrong)?;
            if !(2..=3).contains(&version) {
                return Err("NOPROTO unsupported protocol version".into());
            }
            Some(version)
        }
        None => None,
    };
    let (mut rest, mut credentials, mut name) = (words.get(2..).unwrap_or_default(), None, None);
    while let Some((option, values)) = rest.split_first() {
        rest = match (&*option.to_ascii_lowercase(), values) {
            (b"auth", [user, password, behind @ ..]) => {
                credentials = Some((*user, *password));
                behind
            }
            (b"setname", [new, behind @ ..]) => {
                name = Some(*new);
                behind
            }
            _ => return Err(Refusal::about("ERR Syntax error in HELLO option '", option, "'")),
        };
    }
    if let Some((user, password)) = credentials {
        call.client.check(call.service, user, password)?;
    }
    if call.client.is_stranger() {
        return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time".into());
    }
    if let Some(name) = name {
        set_name(call, name)?;
    }
    if let Some(version) = version {
        call.client.resp3 = version == 3;
        call.reply.resp3 = version == 3;
    }
    let (id, resp3) = (call.client.id, call.client.resp3);
    let reply = &mut call.reply;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (name, value) in [("proto", if resp3 { 3 } else { 2 }), ("id", id)] {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
    let mode = if call.service.cluster.is_some() { "cluster" } else { "standalone" };
    for (name, value) in [("mode", mode), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

/// `CLIENT`.
pub fn client(call: &mut Call<'_, '_>) -> Served {
    let words = call.words;
    let wrong_count = |name: &str| Err(format!("ERR wrong number of arguments for 'client|{name}' command").into());
    match (&*call.lower(1), &words[2..]) {
        (b"id", []) => call.reply.integer(call.client.id),
        (b"getname", []) if call.client.name.is_empty() => call.reply.null(),
        (b"getname", []) => call.reply.bulk(&call.client.name),
        (b"setname", [name]) => {
            set_name(call, name)?;
            call.reply.ok();
        }
        (b"setinfo", [_, _]) => call.reply.ok(),
        (b"info", []) => {
            let name = String::from_utf8_lossy(&call.client.name).into_owned();
            let version = if call.client.resp3 { 3 } else { 2 };
            call.reply.text(&format!("id={} name={name} db=0 resp={version}\n", call.client.id));
        }
        (b"reply", [mode]) => match &*mode.to_ascii_lowercase() {
            b"on" => {
                call.client.wanted = Wanted::All;
                call.reply.ok();
            }
            b"off" => call.client.wanted = Wanted::None,
            b"skip" => {
                if call.client.wanted != Wanted::None {
                    call.client.wanted = Wanted::NotNext;
                }
            }
            _ => return Err(SYNTAX),
        },
        (b"id" | b"getname" | b"setname" | b"info" | b"reply", _) => return wrong_count(&call.lower_text(1)),
        _ => return Err(unknown_subcommand(call)),
    }
    Ok(())
}
