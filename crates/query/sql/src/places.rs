//! Places in a query, as bytes.

use std::ops::Range;

use sqlparser::tokenizer::{Location, Span};

/// Places in a query: lines and columns as bytes.
pub(crate) struct Places<'a>(pub(crate) &'a str);

impl Places<'_> {
    pub fn byte(&self, location: Location) -> Option<usize> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(location.column).ok()?.checked_sub(1)?;
        let mut start = 0;
        for _ in 0..line {
            start += self.0[start..].find('\n')? + 1;
        }
        let rest = &self.0[start..];
        Some(start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at))
    }

    /// The bytes of a span; `None` for one that is nowhere.
    pub fn bytes(&self, span: Span) -> Option<Range<usize>> {
        let (start, end) = (self.byte(span.start)?, self.byte(span.end)?);
        (start <= end).then_some(start..end)
    }
}
