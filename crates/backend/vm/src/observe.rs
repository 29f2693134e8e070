//! What one run executed: how often each instruction ran, and which keys were missing from their maps.
//!
//! To make a program do more, for a timing or a test, one has to know where it stopped early:
//!
//! ```text
//!   r1 = map[flows]; r2 = r10; r2 += -8          observed   @4 ran once, key 0a000001 is not in `flows`
//!   call map_lookup_elem
//!   if r0 == 0 goto out                                     --> put it there, and look again
//! ```
//!
//! Only the interpreter watches; compiled code stays as it is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kiln_platform::helper_id::{MAP_LOOKUP_ELEM, REDIRECT_MAP};
use kiln_program::{InsnId, MapId};

use crate::state::State;

/// What one run executed.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Observed {
    /// How often each instruction ran that ran at all.
    pub runs: BTreeMap<InsnId, u64>,
    /// Keys that were looked up and not found, in the order of the lookups.
    pub missed: Vec<(MapId, Vec<u8>)>,
}

/// What `bpf_redirect_map` answers where there is an entry.
const REDIRECTED: u64 = 4;
/// Keys remembered at most: a program may ask in a loop.
const MOST_KEYS: usize = 64;

impl Observed {
    pub(crate) fn count(&mut self, insn: InsnId) {
        *self.runs.entry(insn).or_default() += 1;
    }

    /// Remembers the key where a helper found nothing.
    pub(crate) fn called(&mut self, state: &State, helper: u32, [map, key, ..]: [u64; 5], answer: u64) {
        let Ok(index) = state.map_index(map) else { return };
        let key_bytes = state.maps[index].definition.key_size;
        let key = match helper {
            MAP_LOOKUP_ELEM if answer == 0 => state.bytes(key, key_bytes.into()).ok().map(Cow::into_owned),
            REDIRECT_MAP if answer != REDIRECTED => key.to_ne_bytes().get(..key_bytes as usize).map(<[u8]>::to_vec),
            _ => None,
        };
        let entry = key.map(|key| (MapId(index as u32), key));
        self.missed.extend(entry.filter(|entry| self.missed.len() < MOST_KEYS && !self.missed.contains(entry)));
    }
}
