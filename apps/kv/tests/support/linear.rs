//! Whether what clients have seen of one key can have happened one after the other: linearizability.
//!
//! ```text
//!   begun, ended, what it did, of each client --> check --> None, or where no order is possible
//! ```
//!
//! Lowe's search ("Testing for linearizability", 2017), which puts an operation into an order only when its end demands it: it goes
//! through begins and ends by time and keeps all states that are possible. With few clients at a time there are few states, so it takes
//! time in proportion to the history.

use std::collections::HashSet;
use std::time::Instant;

/// What an operation did to its key, as its reply says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// It has read a value, or that there is none.
    Read(Option<u64>),
    /// It has stored a value.
    Write(u64),
    /// It has stored a value where there was none; or not, because there was one.
    Add(u64, bool),
    /// It has removed the value; or there was none.
    Remove(bool),
    /// It has read the value and stored another one.
    Exchange(Option<u64>, u64),
}

/// An operation of a client.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Who has done it. A client does one at a time.
    pub client: usize,
    /// To which key.
    pub key: usize,
    /// Nanoseconds, before it was sent.
    pub begun: u64,
    /// Nanoseconds, after its reply came.
    pub ended: u64,
    pub did: Did,
}

/// What a client records.
pub struct Recorder {
    clock: Instant,
    client: usize,
    pub operations: Vec<Operation>,
}

impl Recorder {
    /// Of a client. All have the same clock.
    pub fn new(clock: Instant, client: usize) -> Recorder {
        Recorder { clock, client, operations: Vec::new() }
    }

    /// Does an operation, and records when.
    pub fn record(&mut self, key: usize, operation: impl FnOnce() -> Did) {
        let now = || self.clock.elapsed().as_nanos() as u64;
        let begun = now();
        let did = operation();
        self.operations.push(Operation { client: self.client, key, begun, ended: now(), did });
    }
}

/// The value after an operation; `None` if the operation cannot have done that.
fn step(value: Option<u64>, did: Did) -> Option<Option<u64>> {
    let (is_possible, after) = match did {
        Did::Read(seen) => (seen == value, value),
        Did::Write(new) => (true, Some(new)),
        Did::Add(new, true) => (value.is_none(), Some(new)),
        Did::Add(_, false) => (value.is_some(), value),
        Did::Remove(was_there) => (was_there == value.is_some(), None),
        Did::Exchange(seen, new) => (seen == value, Some(new)),
    };
    is_possible.then_some(after)
}

/// A value, and which of the pending operations have happened.
type State = (Option<u64>, u64);

/// Looks for an order of the operations of one key, which is missing at first. Returns the operation that fits into none.
fn check_key(operations: &[Operation]) -> Result<(), Operation> {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * operations.len());
    for (at, operation) in operations.iter().enumerate() {
        // Where a begin and an end have one time, they overlap.
        events.push((operation.begun, false, at));
        events.push((operation.ended, true, at));
    }
    events.sort_unstable();
    let mut pending: Vec<Option<Did>> = vec![None; 64];
    let mut states: HashSet<State> = HashSet::from([(None, 0)]);
    for (_, is_end, at) in events {
        let Operation { client, did, .. } = operations[at];
        if !is_end {
            assert!(pending[client].replace(did).is_none(), "a client does one thing at a time");
            continue;
        }
        let (mut seen, mut work) = (states.clone(), Vec::from_iter(states.drain()));
        while let Some((value, done)) = work.pop() {
            if done >> client & 1 == 1 {
                states.insert((value, done & !(1 << client)));
                continue;
            }
            for (other, did) in pending.iter().enumerate() {
                let Some(did) = did.filter(|_| done >> other & 1 == 0) else { continue };
                let next = step(value, did).map(|value| (value, done | 1 << other));
                work.extend(next.filter(|next| seen.insert(*next)));
            }
        }
        pending[client] = None;
        if states.is_empty() {
            return Err(operations[at]);
        }
    }
    Ok(())
}

/// Looks for an order of all operations. Keys are independent: what holds for each holds for all.
///
/// # Errors
/// Returns the operation that fits into none, and those of its key that overlap it.
pub fn check(operations: &[Operation]) -> Result<(), String> {
    let keys: HashSet<usize> = operations.iter().map(|operation| operation.key).collect();
    for key in keys {
        let of_key: Vec<Operation> = operations.iter().filter(|operation| operation.key == key).copied().collect();
        check_key(&of_key).map_err(|wrong| {
            let near = |it: &&Operation| it.begun <= wrong.ended && wrong.begun <= it.ended;
            format!("{wrong:?} fits nowhere; beside it were {:#?}", of_key.iter().filter(near).collect::<Vec<_>>())
        })?;
    }
    Ok(())
}

/// Whether some order of a few operations is possible, by trying all.
pub fn check_slowly(operations: &[Operation]) -> bool {
    fn rest(left: &[Operation], value: Option<u64>) -> bool {
        left.is_empty()
            || left.iter().enumerate().any(|(at, first)| {
                let is_first = left.iter().all(|other| first.begun <= other.ended);
                let others: Vec<Operation> = [&left[..at], &left[at + 1..]].concat();
                is_first && step(value, first.did).is_some_and(|value| rest(&others, value))
            })
    }
    rest(operations, None)
}
