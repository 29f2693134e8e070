//! Asks the judge about the current state, and goes back if it refuses.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::run::known::{Known, share_facts};
use crate::run::state::{Run, Snapshot};

impl Run<'_> {
    /// Asks the judge about the latest state. If it refuses, the run goes back to the last state that it accepts, and
    /// from then on it is asked about each step. Returns whether that happened.
    ///
    /// If time ends during the search for that state, the run goes back to the state that it accepted last.
    pub(super) fn settle(&mut self) -> bool {
        if self.ask_judge || self.trail.len() < 2 {
            return false;
        }
        let mut trail = std::mem::take(&mut self.trail);
        let (mut good, mut bad) = (0, trail.len());
        let mut complaint = None;
        // The last one first: it is usually accepted.
        let mut at = trail.len() - 1;
        while bad - good > 1 && Instant::now() < self.shared.end() {
            match self.judged(&trail[at]) {
                None => good = at,
                Some(why) => {
                    bad = at;
                    complaint = Some(why);
                }
            }
            at = usize::midpoint(good, bad);
        }
        let last = trail.len() - 1;
        let taken = trail.swap_remove(good);
        if good < last {
            self.go_back(&taken);
            let name = self.object.function(*self.part.functions.first().expect("a part has functions")).name.clone();
            let why = complaint.unwrap_or_else(|| "there was no time left to ask".to_owned());
            self.refused.push(("judge", name, why));
            self.ask_judge = true;
            self.idle.clear();
        }
        self.trail.push(taken);
        good < last
    }

    /// What is wrong with a state.
    fn judged(&mut self, snapshot: &Snapshot) -> Option<String> {
        if snapshot.complaint.is_some() {
            return snapshot.complaint.clone();
        }
        let judge = self.shared.judge?;
        let whole = self.shared.whole(snapshot.functions.iter().map(|(id, own)| (*id, own)), snapshot.next_insn);
        let complaints = self.timings.time("judge", || judge.judge(&whole, &self.part.programs));
        complaints.into_iter().next().map(|(_, why)| why)
    }

    fn go_back(&mut self, snapshot: &Snapshot) {
        self.restore(snapshot.functions.clone(), snapshot.next_insn);
        self.evidence.truncate(snapshot.evidence);
        self.chain.truncate(snapshot.chain);
        let prepared = self.shared.prepared.for_version(&self.object);
        let mut programs = BTreeMap::new();
        for (id, known) in &self.programs {
            let again = self.shared.verify(&prepared, *id, known.assumptions, None, None);
            let again = again.unwrap_or_else(|error| panic!("it was accepted before: {error}"));
            programs.insert(*id, Known { began: known.began, ..again });
            share_facts(&mut programs);
        }
        self.programs = programs;
        self.join_facts();
    }
}
