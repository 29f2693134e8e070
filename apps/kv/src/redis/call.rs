//! A command that is being served, and what all commands refuse with.

use super::client::Client;
use super::reply::{Refusal, Reply, shown};
use crate::object::Kind;
use crate::protocol::Service;
use crate::store::{Found, Full, Refused};

/// The version of Redis that this server behaves like.
pub const VERSION: &str = "7.0.15";
/// A value of another type.
pub const WRONG_TYPE: Refusal = Refusal::new("WRONGTYPE Operation against a key holding the wrong kind of value");
/// Options that are none.
pub const SYNTAX: Refusal = Refusal::new("ERR syntax error");
/// There is no memory.
pub const FULL: Refusal = Refusal::new("OOM command not allowed when used memory > 'maxmemory'.");

/// Bytes of unknown words that a refusal repeats.
pub const SHOWN: usize = 128;

/// How a command went.
pub type Served = Result<(), Refusal>;

/// A command that is being served.
pub struct Call<'c, 'h> {
    /// The store, and what is counted.
    pub service: &'c Service<'h>,
    /// Who asks.
    pub client: &'c mut Client,
    /// The command and its arguments.
    pub words: &'c [&'c [u8]],
    /// Where the answer goes.
    pub reply: Reply<'c>,
}

impl Call<'_, '_> {
    /// A word in lower case, as options and commands are compared.
    pub fn lower(&self, at: usize) -> Vec<u8> {
        self.words.get(at).map(|word| word.to_ascii_lowercase()).unwrap_or_default()
    }

    /// A word in lower case, as it is shown.
    pub fn lower_text(&self, at: usize) -> String {
        String::from_utf8_lossy(&self.lower(at)).into_owned()
    }

    /// Whether the command has this name, which is in lower case.
    pub fn is_named(&self, name: &str) -> bool {
        self.words[0].eq_ignore_ascii_case(name.as_bytes())
    }

    /// The command's name, in lower case.
    pub fn name(&self) -> String {
        self.lower_text(0)
    }
}

impl From<Full> for Refusal {
    fn from(_: Full) -> Refusal {
        FULL
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        match refused {
            Refused::OtherType => WRONG_TYPE,
            Refused::NoMemory => FULL,
        }
    }
}

/// The bytes of a string.
///
/// # Errors
/// Returns Redis' words for another type.
pub fn string(found: &Found) -> Result<&[u8], Refusal> {
    if found.kind == Kind::String { Ok(found.value()) } else { Err(WRONG_TYPE) }
}

/// The refusal of a subcommand that is not known.
pub fn unknown_subcommand(call: &Call<'_, '_>) -> Refusal {
    let help = format!("'. Try {} HELP.", call.name().to_ascii_uppercase());
    Refusal::about("ERR unknown subcommand '", shown(call.words[1], SHOWN), &help)
}
