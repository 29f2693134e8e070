//! Bounds of ranges: by score and by bytes. Each is a range of ranks in a set.

use std::ops::Range;

use crate::object::{SortedSet, Typed as _};
use crate::redis::number::real;
use crate::redis::reply::Refusal;

/// Which members are meant.
pub trait Bounds {
    /// Their ranks in a set.
    fn ranks(&self, set: &SortedSet) -> Range<usize>;
}

/// A score, itself left out if `is_open`.
struct Score {
    score: f64,
    is_open: bool,
}

/// Members by score.
pub struct ByScore {
    from: Score,
    to: Score,
}

fn score(text: &[u8]) -> Result<Score, Refusal> {
    let (is_open, text) = match text {
        [b'(', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    // As C reads it, nothing is 0.
    let text = if text.is_empty() { b"0" } else { text };
    let score = real(text).ok_or("ERR min or max is not a float")?;
    Ok(Score { score, is_open })
}

impl ByScore {
    /// Reads the least and the greatest score.
    ///
    /// # Errors
    /// Returns Redis' words for what is no score.
    pub fn read(from: &[u8], to: &[u8]) -> Result<ByScore, Refusal> {
        Ok(ByScore { from: score(from)?, to: score(to)? })
    }
}

impl Bounds for ByScore {
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let (from, to) = (&self.from, &self.to);
        let begin = set.rank_where(|score, _| score < from.score || (from.is_open && score == from.score));
        let end = set.rank_where(|score, _| score < to.score || (!to.is_open && score == to.score));
        begin..end.max(begin)
    }
}

/// A place between members.
enum Edge<'e> {
    First,
    Last,
    /// At a member, itself left out if the second field says so.
    Member(&'e [u8], bool),
}

/// Members by their bytes. All scores should be equal.
pub struct ByBytes<'e> {
    from: Edge<'e>,
    to: Edge<'e>,
}

fn edge(text: &[u8]) -> Result<Edge<'_>, Refusal> {
    match text {
        b"-" => Ok(Edge::First),
        b"+" => Ok(Edge::Last),
        [b'(', member @ ..] => Ok(Edge::Member(member, true)),
        [b'[', member @ ..] => Ok(Edge::Member(member, false)),
        _ => Err("ERR min or max not valid string range item".into()),
    }
}

impl<'e> ByBytes<'e> {
    /// Reads the least and the greatest member.
    ///
    /// # Errors
    /// Returns Redis' words for what is neither a member nor an end.
    pub fn read(from: &'e [u8], to: &'e [u8]) -> Result<ByBytes<'e>, Refusal> {
        Ok(ByBytes { from: edge(from)?, to: edge(to)? })
    }
}

impl Bounds for ByBytes<'_> {
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let begin = match self.from {
            Edge::First => 0,
            Edge::Last => set.len(),
            Edge::Member(from, is_open) => set.rank_where(|_, member| *member < *from || (is_open && member == from)),
        };
        let end = match self.to {
            Edge::First => 0,
            Edge::Last => set.len(),
            Edge::Member(to, is_open) => set.rank_where(|_, member| *member < *to || (!is_open && member == to)),
        };
        begin..end.max(begin)
    }
}

/// Members by rank, from the end on if negative.
pub struct ByRank {
    /// The first rank.
    pub from: i64,
    /// The last rank.
    pub to: i64,
    /// Whether ranks are counted from the greatest score on.
    pub is_reverse: bool,
}

impl Bounds for ByRank {
    fn ranks(&self, set: &SortedSet) -> Range<usize> {
        let count = set.len() as i64;
        let place = |rank: i64| if rank < 0 { rank.saturating_add(count) } else { rank };
        let (from, to) = (place(self.from).max(0), place(self.to).min(count - 1));
        if from > to || from >= count {
            return 0..0;
        }
        let ranks = from as usize..to as usize + 1;
        if self.is_reverse { set.len() - ranks.end..set.len() - ranks.start } else { ranks }
    }
}
