//! Tier "hostile": well-formed input that tries to forge output, or to use up memory, time or stack.

use std::fmt::Write as _;

use kiln_driver::shown::is_visible;
use kiln_program::text::parse;
use kiln_program::{Object, validate};
use kiln_superopt::Options;

use super::target::{Depth, ensure};
use crate::choices::Choices;
use crate::subject::Subject;
use crate::usage::peak_growth;

/// Memory that one input may take beyond what was there before.
const MAX_BYTES: u64 = 512 << 20;

/// Fails if an input took more than [`MAX_BYTES`].
fn within_memory(try_it: impl FnOnce() -> Result<Depth, String>) -> Result<Depth, String> {
    let (result, grown) = peak_growth(try_it);
    ensure(grown <= MAX_BYTES, || format!("memory: {} MiB", grown >> 20))?;
    result
}

// ---------------------------------------------------------------------------------------------------------- names

/// Pieces of names with a special meaning in terminals, HTML, XML, URIs, Markdown and JSON.
const PIECES: [&str; 24] = [
    "\n",
    "\r",
    "\0",
    "\u{1b}[2K",
    "\u{1b}]0;t\u{7}",
    "\u{9b}31m",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "\u{2028}",
    "\u{e0041}",
    "\u{fffe}",
    "\u{301}",
    "<b>",
    "&amp;",
    "\"",
    "'",
    "](x)",
    "../../",
    ";",
    "accepted q",
    "é",
    "x",
];

fn name(choices: &mut Choices<'_>) -> String {
    let count = 1 + choices.below(6);
    let pieces = (0..count).map(|_| PIECES[choices.below(PIECES.len())]);
    pieces.collect::<String>() + if choices.below(16) == 0 { HUGE } else { "" }
}

/// A name that fills a screen.
const HUGE: &str = match std::str::from_utf8(&[b'y'; 20_000]) {
    Ok(text) => text,
    Err(_) => "",
};

/// An object of hostile names, as text.
pub fn named(choices: &mut Choices<'_>) -> String {
    let mut text = String::new();
    let (object, map, program) = (name(choices), name(choices), name(choices));
    let _ = writeln!(text, "; object {object:?}\n; map {map:?} hash key 4 value 8 entries 4");
    let _ = writeln!(text, "; program xdp name {program:?} section {:?}", name(choices));
    let _ = writeln!(text, "; line 3:2 {:?} {:?}\n  r2 = *(u32 *)(r1 + 0)", name(choices), name(choices));
    text.push_str(if choices.below(2) == 0 { "  r0 = *(u8 *)(r2 + 0)\n" } else { "  r1 = map[@0]\n  r0 = 2\n" });
    text.push_str("  call fn[@1]\n  exit\n");
    let _ = writeln!(text, "; function {:?} static\n; line 9:1 {:?} \"\"", name(choices), name(choices));
    text + "  r0 = 1\n  exit\n"
}

pub fn names(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let text = named(&mut Choices::new(bytes));
    within_memory(|| {
        let object = parse(&text).map_err(|error| format!("does not parse: {error}"))?;
        for (what, shown) in (subject.show)(&object) {
            let hidden = shown.chars().find(|letter| !is_visible(*letter) && !"\n\t".contains(*letter));
            ensure(hidden.is_none(), || format!("{what} has {hidden:?}: {shown:?}"))?;
            let forged = shown.lines().find(|line| line.trim_start().starts_with("accepted q"));
            ensure(forged.is_none(), || format!("{what} has a forged line: {forged:?}"))?;
            // The text of an object is data: its names are whole, each where it stands.
            let most = (64 << 10) + if what == "text" { 4 * text.len() } else { 0 };
            ensure(shown.len() < most, || format!("{what} has {} bytes", shown.len()))?;
        }
        Ok(Depth::Deep)
    })
}

// -------------------------------------------------------------------------------------------------------- nesting

/// Deeply nested input.
pub fn nested(choices: &mut Choices<'_>) -> String {
    let depth = 1 << choices.below(16);
    let mut text = String::new();
    match choices.below(5) {
        0 => {
            text.push_str("; map m array_of_maps key 4 value 4 entries 1\n");
            (0..depth).for_each(|_| text.push_str("; inner m array_of_maps key 4 value 4 entries 1\n"));
        }
        1 => {
            for at in 0..depth {
                let _ = writeln!(text, "; function f{at} static\n  call f{}\n  exit", at + 1);
            }
            let _ =
                writeln!(text, "; function f{depth} static\n  r0 = 0\n  exit\n; program xdp name p\n  call f0\n  exit");
            return text;
        }
        2 => {
            text.push_str("; program xdp\n  r0 = 0\n  goto l0\n");
            for at in (0..depth).rev() {
                let _ = writeln!(text, "l{at}:\n  r0 += 1\n  goto l{}", at + 1);
            }
            let _ = writeln!(text, "l{depth}:\n  exit");
            return text;
        }
        3 => {
            for at in 0..depth {
                let _ = writeln!(text, "; program xdp name p{at} entry f");
            }
        }
        _ => {
            text.push_str("; program xdp\n  r0 = 0\n");
            (0..depth).for_each(|_| text.push_str("  if r0 > 3 goto +0\n"));
            return text + "  exit\n";
        }
    }
    text + "; function f global\n  r0 = 0\n  exit\n"
}

pub fn nesting(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let text = nested(&mut Choices::new(bytes));
    within_memory(|| {
        let Ok(object) = (subject.parse)(&text) else { return Ok(Depth::Shallow) };
        if validate(&object).is_err() {
            return Ok(Depth::Shallow);
        }
        for program in object.programs.iter().take(8) {
            (subject.verify)(&object, program);
        }
        ensure(parse(&(subject.print)(&object)).as_ref() == Ok(&object), || "printing loses something".to_owned())?;
        Ok(Depth::Deep)
    })
}

// --------------------------------------------------------------------------------------------------------- shared

/// Programs that share functions, some of them large.
pub fn sharing(choices: &mut Choices<'_>) -> String {
    let (programs, functions) = (1 + choices.below(100), 1 + choices.below(8));
    let mut text = String::new();
    for program in 0..programs {
        let _ = writeln!(text, "; program xdp name p{program}\n  call f{}\n  exit", choices.below(functions));
    }
    for function in 0..functions {
        let _ = writeln!(text, "; function f{function} static\n  r0 = 1");
        for slot in 0..1 << choices.below(13) {
            let _ = match slot % 3 {
                0 => writeln!(text, "  *(u64 *)(r10 - {}) = r0", 8 + 8 * (slot / 3 % 16)),
                _ => writeln!(text, "  r0 += {}", slot % 7),
            };
        }
        if function + 1 < functions && choices.below(2) == 0 {
            let _ = writeln!(text, "  call f{}", function + 1);
        }
        text.push_str("  exit\n");
    }
    text
}

pub fn shared(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let text = sharing(&mut Choices::new(bytes));
    let object: Object = parse(&text).map_err(|error| format!("does not parse: {error}"))?;
    // On this thread, whose time the engine watches.
    let budget = std::time::Duration::from_millis(300);
    let options = Options { budget, threads: 1, search: 0, ..Default::default() };
    within_memory(|| {
        let rewrite = (subject.optimize)(&object, &options);
        Ok(if rewrite.evidence.is_empty() { Depth::Shallow } else { Depth::Deep })
    })
}
