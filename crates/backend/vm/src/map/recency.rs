//! The order in which the entries of a least-recently-used map are considered for eviction.

const NONE: u32 = u32::MAX;

/// Slots from the most to the least recently inserted or spared, as a doubly linked list.
#[derive(Debug)]
pub(crate) struct Recency {
    links: Vec<Link>,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
    listed: bool,
}

impl Default for Recency {
    fn default() -> Recency {
        Recency { links: Vec::new(), newest: NONE, oldest: NONE }
    }
}

impl Recency {
    /// A slot is the newest.
    pub fn push(&mut self, slot: u32) {
        self.unlink(slot);
        let at = slot as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, Link { newer: NONE, older: NONE, listed: false });
        }
        self.links[at] = Link { newer: NONE, older: self.newest, listed: true };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.links[newest as usize].newer = slot,
        }
        self.newest = slot;
    }

    /// A slot is in use no more, if it was.
    pub fn unlink(&mut self, slot: u32) {
        let Some(link) = self.links.get_mut(slot as usize).filter(|link| link.listed) else { return };
        link.listed = false;
        let Link { newer, older, .. } = *link;
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
    }

    /// Takes the oldest slot out that was not used since it was last looked at here; `was_used` says so, and forgets it.
    pub fn take_victim(&mut self, was_used: impl Fn(u32) -> bool) -> Option<u32> {
        // Other threads use slots meanwhile, so this might not end by itself.
        for _ in 0..=2 * self.links.len() {
            let slot = self.oldest;
            if slot == NONE {
                return None;
            }
            if !was_used(slot) {
                self.unlink(slot);
                return Some(slot);
            }
            self.push(slot);
        }
        let slot = Some(self.oldest).filter(|slot| *slot != NONE)?;
        self.unlink(slot);
        Some(slot)
    }
}
