//! Sessions: a group's rows between two pauses.
//!
//! ```text
//!   row --> by time, until no earlier one can come --> its group's session --(no row for the pause)--> result
//! ```
//!
//! Rows of several processors come out of order. So rows wait, ordered by time, until rows before them would be late.

use std::collections::{BTreeMap, HashMap};

use super::Lost;
use super::accumulate::Accumulator;
use super::groups::{Room, bytes_of};
use crate::value::Value;

/// A session.
#[derive(Debug)]
pub struct Session {
    /// The group's keys.
    pub keys: Vec<Value>,
    /// The time of its first row, in nanoseconds.
    pub first_ns: u64,
    /// The time of its last row, in nanoseconds.
    pub last_ns: u64,
    /// Its aggregates.
    pub accumulators: Vec<Accumulator>,
    /// Bytes that were taken for it.
    pub bytes: usize,
}

/// Open sessions, and rows that wait.
#[derive(Debug, Default)]
pub struct Sessions {
    /// Keys and values of rows, by their time and a number.
    waiting: BTreeMap<(u64, u64), (Vec<Value>, Vec<Value>)>,
    /// The number of rows and sessions so far.
    number: u64,
    /// Rows before this time are late.
    sure_ns: u64,
    open: HashMap<Vec<Value>, Session>,
    /// Keys of open sessions, by the time when each ends unless another row came, and a number.
    ends: BTreeMap<(u64, u64), Vec<Value>>,
    late: u64,
}

impl Sessions {
    /// Takes a row's keys and its aggregates' operands. Returns whether there was room.
    pub fn add(&mut self, time: u64, keys: Vec<Value>, values: Vec<Value>, most: usize) -> bool {
        if time < self.sure_ns {
            self.late += 1;
            return true;
        }
        if self.waiting.len() >= most {
            return false;
        }
        self.number += 1;
        self.waiting.insert((time, self.number), (keys, values));
        true
    }

    /// Moves the clock on; to the end of all time if there is none. Open sessions are in the room, and those that find none
    /// are passed to `refuse`. Returns the sessions that are over, and what was lost.
    pub fn advance(
        &mut self,
        pause_ns: u64,
        sure_ns: Option<u64>,
        room: &mut Room,
        new: &dyn Fn() -> Vec<Accumulator>,
        refuse: &mut dyn FnMut(&[Value]),
    ) -> (Vec<Session>, Lost) {
        let mut lost = Lost { late: std::mem::take(&mut self.late), ..Lost::default() };
        let mut over = Vec::new();
        self.sure_ns = self.sure_ns.max(sure_ns.unwrap_or(u64::MAX));
        while let Some(entry) = self.waiting.first_entry().filter(|row| sure_ns.is_none() || row.key().0 < self.sure_ns)
        {
            let ((time, _), (keys, values)) = entry.remove_entry();
            self.end_before(Some(time), pause_ns, &mut over, room);
            if !self.open.contains_key(&keys) {
                let accumulators = new();
                // The keys are in three places.
                let bytes = size_of::<Session>() + 3 * bytes_of(&keys, accumulators.len());
                if !room.take_group(bytes) {
                    lost.groups += 1;
                    refuse(&keys);
                    continue;
                }
                self.number += 1;
                self.ends.insert((time.saturating_add(pause_ns), self.number), keys.clone());
                let session = Session { keys: keys.clone(), first_ns: time, last_ns: time, accumulators, bytes };
                self.open.insert(keys.clone(), session);
            }
            if let Some(session) = self.open.get_mut(&keys) {
                session.last_ns = time;
                let before = room.bytes;
                session.accumulators.iter_mut().zip(&values).for_each(|(own, value)| own.add_within(value, room));
                session.bytes = session.bytes.wrapping_add(before).wrapping_sub(room.bytes);
            }
        }
        self.end_before(sure_ns.map(|_| self.sure_ns), pause_ns, &mut over, room);
        (over, lost)
    }

    /// Closes the sessions whose pause is over before a time, in the order of their ends; all if there is no time.
    fn end_before(&mut self, time: Option<u64>, pause_ns: u64, over: &mut Vec<Session>, room: &mut Room) {
        while let Some(entry) = self.ends.first_entry().filter(|end| time.is_none_or(|time| end.key().0 < time)) {
            let ((expected, number), keys) = entry.remove_entry();
            let Some(session) = self.open.get(&keys) else { continue };
            let end = session.last_ns.saturating_add(pause_ns);
            if end == expected {
                room.give_back(1, session.bytes);
                over.extend(self.open.remove(&keys));
            } else {
                self.ends.insert((end, number), keys);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Aggregate, AggregateFunction};

    #[test]
    fn rows_out_of_order_are_of_the_right_sessions() {
        let aggregate = Aggregate { function: AggregateFunction::Count, of: None, distinct: false };
        let new = || vec![Accumulator::new(&aggregate, &[])];
        let mut sessions = Sessions::default();
        for time in [100, 130, 120, 175, 111] {
            assert!(sessions.add(time, vec![Value::Uint(1)], vec![Value::Bool(true)], 10));
        }
        let (over, _) = sessions.advance(20, Some(160), &mut Room::endless(), &new, &mut |_| ());
        assert_eq!(over.len(), 1);
        let first = &over[0];
        assert_eq!((first.first_ns, first.last_ns, first.accumulators[0].value()), (100, 130, Value::Uint(4)));
        assert!(sessions.add(159, Vec::new(), Vec::new(), 10), "a late row needs no room");
        let (over, lost) = sessions.advance(20, None, &mut Room::endless(), &new, &mut |_| ());
        assert_eq!((over.len(), over[0].first_ns, lost.late), (1, 175, 1));
    }

    #[test]
    fn sessions_without_room_are_named() {
        let mut sessions = Sessions::default();
        for pid in [7, 8, 7, 9] {
            assert!(sessions.add(100, vec![Value::Uint(pid)], Vec::new(), 10));
        }
        let (mut room, mut refused) = (Room { groups: 1, ..Room::endless() }, Vec::new());
        let (over, lost) = sessions.advance(20, None, &mut room, &Vec::new, &mut |keys| refused.push(keys[0].clone()));
        assert_eq!((over.len(), lost.groups, refused), (1, 2, vec![Value::Uint(8), Value::Uint(9)]));
    }
}
