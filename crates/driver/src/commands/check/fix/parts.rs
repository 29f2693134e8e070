//! Parts of a source that several edits need: arguments, definitions of maps, includes.

use std::ops::Range;

use super::propose::Case;
use super::text::Edit;

/// The type in a map's definition: of its `key` or its `value`.
pub fn map_kind<'a>(case: &Case<'a>, map: &str, what: &str) -> Option<&'a str> {
    Some(case.text(kind_in(case, map_definition(case, map)?, what)?))
}

/// The place of that type in a definition.
pub fn kind_in(case: &Case<'_>, body: Range<usize>, what: &str) -> Option<Range<usize>> {
    let mut types = calls(case, "__type", body).into_iter();
    let (_, own) = types.find(|(_, own)| own.len() == 2 && case.text(own[0].clone()) == what)?;
    Some(own[1].clone())
}

/// The braces of a map's definition.
pub fn map_definition(case: &Case<'_>, name: &str) -> Option<Range<usize>> {
    let source = case.source;
    let all = 0..source.text.len();
    let is_map = |at: usize| source.text[at..].starts_with(&format!("{name} SEC("));
    let (at, _) =
        source.words(all).find(|(at, word)| *word == name && source.function(*at).is_none() && is_map(*at))?;
    let before = source.code(0..at);
    let close = before.rfind('}')?;
    let open = before[..close].rfind('{')?;
    Some(open..close + 1)
}

/// The calls of a function in a range, each with its arguments.
pub fn calls(case: &Case<'_>, name: &str, range: Range<usize>) -> Vec<(Range<usize>, Vec<Range<usize>>)> {
    let mut found = Vec::new();
    let mut at = range.start;
    while let Some(call) = case.source.call(name, at..range.end) {
        at = call.0.end;
        found.push(call);
    }
    found
}

/// An include of a header that the source lacks, after its last one.
pub fn include(case: &Case<'_>, header: &str) -> Option<Edit> {
    let text = &case.source.text;
    if text.contains(header) {
        return None;
    }
    let last = text.rfind("\n#include ")? + 1;
    let end = text[last..].find('\n').map_or(text.len(), |at| last + at + 1);
    Some(Edit { range: end..end, text: format!("#include <{header}>\n") })
}

/// The range of a helper's argument in the statement.
pub fn argument(case: &Case<'_>, helper: &str, index: usize) -> Option<Range<usize>> {
    let (_, arguments) = case.source.call(&format!("bpf_{helper}"), case.statement.clone())?;
    arguments.get(index).cloned()
}

/// Whether an expression, such as `event->name`, ends with a member that the source declares as an array.
pub fn is_member_array(case: &Case<'_>, text: &str) -> bool {
    let source = case.source;
    let own = text.rsplit(['>', '.']).next().unwrap_or_default();
    let mut words = source.words(0..source.text.len()).filter(|(_, word)| *word == own && own.len() < text.len());
    words.any(|(at, _)| {
        source.function(at).is_none() && source.code(at + own.len()..source.text.len()).trim_start().starts_with('[')
    })
}
