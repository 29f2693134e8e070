//! Edits of the definitions of maps: sizes, types and flags.

use std::ops::Range;

use super::parts::{calls, map_definition};
use super::propose::{Case, Proposal};
use super::text::Edit;

/// What a line of a definition is tried with: the name in it, and the lines that may take its place.
const LINES: [(&str, &[&str]); 7] = [
    ("map_flags", &["", "__uint(map_flags, BPF_F_NO_PREALLOC);"]),
    ("max_entries", &["", "__uint(max_entries, 1);", "__uint(max_entries, 4096);"]),
    ("key", &["", "__type(key, int);", "__type(key, __u64);"]),
    ("value", &["__type(value, __u32);", "__type(value, __u64);", ""]),
    ("key_size", &["__uint(key_size, 4);", "", "__uint(key_size, 8);"]),
    ("value_size", &["__uint(value_size, 4);", "", "__uint(value_size, 8);"]),
    ("map_extra", &[""]),
];

/// For a map that the kernel does not make.
pub fn defined(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let message = case.diagnosis.message.exact();
    let named = source.words(0..source.text.len()).filter(|(at, word)| {
        source.text[*at..].starts_with(&format!("{word} SEC(\".maps\")")) && message.contains(&format!(" {word}:"))
    });
    let Some(body) = named.last().and_then(|(_, name)| map_definition(case, name)) else { return Vec::new() };
    let lines = lines(case, &body);
    let mut found = Vec::new();
    if !lines.iter().any(|(name, _)| *name == "map_flags") {
        let end = body.end - 1;
        let text = "\t__uint(map_flags, BPF_F_NO_PREALLOC);\n".to_owned();
        let title = "add `__uint(map_flags, BPF_F_NO_PREALLOC);`".to_owned();
        found.push(Proposal { title, edits: vec![Edit { range: end..end, text }], safe: false });
    }
    for (name, range) in &lines {
        let other = LINES.iter().filter(|(own, _)| own == name).flat_map(|(_, others)| others.iter());
        let mut flags = Vec::new();
        if *name == "map_flags" {
            flags = without_each_flag(case, range);
        }
        found.extend(flags);
        found.extend(other.map(|text| match text.is_empty() {
            true => case.replace(source.lines(range.clone()), "", false),
            false => case.replace(range.clone(), text, false),
        }));
    }
    // Ring buffers and arenas have neither keys nor values.
    let sizes = lines.iter().filter(|(name, _)| name.starts_with("key") || name.starts_with("value"));
    let edits: Vec<Edit> =
        sizes.map(|(_, range)| Edit { range: source.lines(range.clone()), text: String::new() }).collect();
    found.push(Proposal { title: "remove the sizes of keys and values".to_owned(), edits, safe: false });
    found
}

/// The lines `__uint(NAME, ...);` and `__type(NAME, ...);` of a definition.
fn lines<'a>(case: &Case<'a>, body: &Range<usize>) -> Vec<(&'a str, Range<usize>)> {
    let all = ["__uint", "__type", "__array"].into_iter().flat_map(|name| calls(case, name, body.clone()));
    all.filter_map(|(whole, arguments)| Some((case.text(arguments.first()?.clone()), whole.start..whole.end + 1)))
        .collect()
}

/// A definition with one flag less.
fn without_each_flag(case: &Case<'_>, line: &Range<usize>) -> Vec<Proposal> {
    let names: Vec<&str> =
        case.source.words(line.clone()).map(|(_, word)| word).filter(|word| word.starts_with("BPF_F_")).collect();
    let others = |left: &&str| names.iter().copied().filter(|own| own != left).collect::<Vec<_>>().join(" | ");
    let fewer = names.iter().filter(|_| names.len() > 1);
    fewer.map(|left| case.replace(line.clone(), &format!("__uint(map_flags, {});", others(left)), false)).collect()
}

/// For a map that a flag keeps the program from writing, or reading: without this flag.
pub fn unprotected(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let flags = source
        .words(0..source.text.len())
        .filter(|(_, word)| ["BPF_F_RDONLY_PROG", "BPF_F_WRONLY_PROG"].contains(word));
    let lines = flags.filter_map(|(at, _)| {
        let begin = source.code(0..at).rfind("__uint")?;
        Some(begin..begin + source.code(begin..source.text.len()).find(';')? + 1)
    });
    lines
        .flat_map(|line| {
            let mut found = without_each_flag(case, &line);
            if found.is_empty() {
                found.push(case.replace(source.lines(line), "", false));
            }
            found
        })
        .collect()
}
