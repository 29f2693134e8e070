//! The meta commands: `mn`, `mg`, `ms`, `md`, `ma`.

use super::service::Service;
use super::storing::Step;

/// Serves a meta command.
pub fn line(_service: &Service<'_>, words: &[&[u8]], output: &mut Vec<u8>) -> Step {
    output.extend(if words[0] == b"mn" { &b"MN\r\n"[..] } else { &b"ERROR\r\n"[..] });
    Step::Done
}
