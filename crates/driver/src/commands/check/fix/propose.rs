//! Edits that may remove a rejection, most likely first. Each is a guess: `fix` compiles and checks it.

use std::ops::Range;

use kiln_inspect::show::diagnostic::Diagnosis;
use kiln_verifier::Wanted;

use super::text::{Edit, Source, is_name};

/// A guess.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What it does, as an order.
    pub title: String,
    /// The replacements in one source.
    pub edits: Vec<Edit>,
    /// Whether it only adds what the program lacks: a check, a release. Others change what was said, such as a type.
    pub safe: bool,
}

/// A rejected line of a source, and what is known of it.
pub struct Case<'a> {
    /// The source.
    pub source: &'a Source,
    /// The code of the reason.
    pub code: &'a str,
    /// The rejection.
    pub diagnosis: &'a Diagnosis,
    /// The program's section.
    pub section: &'a str,
    /// The byte that the rejection is about.
    pub at: usize,
    /// The statement there.
    pub statement: Range<usize>,
    /// Names of the kernel's functions.
    pub functions: &'a [String],
}

impl<'a> Case<'a> {
    /// The numbers of the help.
    pub fn wanted(&self) -> &'a Wanted {
        &self.diagnosis.wanted
    }

    /// The text of a range.
    pub fn text(&self, range: Range<usize>) -> &'a str {
        self.source.text.get(range).unwrap_or_default()
    }

    /// How to leave the function of a byte.
    pub fn leave(&self, at: usize) -> &'static str {
        let Some(function) = self.source.function(at) else { return "return 0;" };
        let head = self.source.code(function.head);
        let before = head.split('(').next().unwrap_or_default();
        match () {
            () if head.contains("struct xdp_md") && !before.contains("void") => "return XDP_PASS;",
            () if before.split_whitespace().any(|word| word == "void") && !before.contains('*') => "return;",
            () => "return 0;",
        }
    }

    /// `if (CONDITION)` and how to leave, before the rejected statement.
    pub fn check(&self, condition: &str) -> Option<Proposal> {
        self.check_after(condition, "", Vec::new())
    }

    /// The same after some declarations, with replacements in the statement.
    pub fn check_after(&self, condition: &str, lines: &str, edits: Vec<Edit>) -> Option<Proposal> {
        let inside = !self.source.loops(self.at).is_empty() && condition.contains(">= sizeof");
        let leave = if inside { "break;" } else { self.leave(self.at) };
        let check = format!("{lines}if ({condition})\n\t{leave}");
        let mut all = self.source.before(self.at, &check)?;
        all.extend(edits);
        let title = match lines {
            "" => format!("add `if ({condition}) {leave}`"),
            _ => format!("add `{}if ({condition}) {leave}`", lines.replace('\n', " ")),
        };
        Some(Proposal { title, edits: all, safe: true })
    }

    /// Lines before the statement at a place, and an edit of what uses them.
    pub fn lines_before(&self, at: usize, lines: &str, edit: Edit, title: String, safe: bool) -> Option<Proposal> {
        let mut edits = self.source.before(at, lines)?;
        edits.push(edit);
        Some(Proposal { title, edits, safe })
    }

    /// The name of the program's section, with its quotes.
    pub fn section_name(&self) -> Option<Range<usize>> {
        let name = format!("\"{}\"", self.section);
        let (at, _) = self.source.text.match_indices(&name).filter(|(at, _)| *at < self.at).last()?;
        Some(at..at + name.len())
    }

    /// A replacement of one range.
    pub fn replace(&self, range: Range<usize>, text: &str, safe: bool) -> Proposal {
        let title = match self.text(range.clone()).trim() {
            "" => format!("add `{}`", text.trim()),
            old if text.is_empty() => format!("remove `{old}`"),
            old => format!("replace `{old}` by `{text}`"),
        };
        Proposal { title, edits: vec![Edit { range, text: text.to_owned() }], safe }
    }

    /// The parameter that is the context: the first one's name.
    pub fn context(&self) -> Option<&'a str> {
        let function = self.source.function(self.at)?;
        let head = self.source.code(function.head);
        if ["BPF_PROG(", "BPF_KPROBE(", "BPF_KRETPROBE(", "BPF_UPROBE(", "BPF_URETPROBE(", "BPF_KSYSCALL("]
            .iter()
            .any(|own| head.contains(own))
        {
            return Some("ctx");
        }
        let parameters = &head[head.rfind('(')? + 1..];
        let first = parameters.split([',', ')']).next()?;
        let name =
            first.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').find(|name| !name.is_empty());
        name.filter(|name| is_name(name) && first.contains("struct"))
    }

    /// The statement in which a step of the story with this text happens.
    pub fn step(&self, text: &str) -> Option<(usize, Range<usize>)> {
        let step = self.steps().find(|step| step.text.exact().contains(text))?;
        self.statement_of(step)
    }

    /// The steps of the story by which edits are placed.
    pub fn steps(&self) -> impl Iterator<Item = &'a kiln_inspect::show::diagnostic::Step> {
        self.diagnosis.story.iter().filter(|step| !step.aside)
    }

    /// The statement in which the value comes from somewhere.
    pub fn origin(&self) -> Option<(usize, Range<usize>)> {
        let step = self.steps().find(|step| step.part == "origin")?;
        self.statement_of(step)
    }

    /// The same rejection, looked at from another place.
    pub fn moved_to(&self, at: usize) -> Option<Case<'a>> {
        let (statement, _) = self.source.statement(at)?;
        Some(Case { at, statement, ..*self })
    }

    /// The place of a step, and the statement there.
    pub fn statement_of(&self, step: &kiln_inspect::show::diagnostic::Step) -> Option<(usize, Range<usize>)> {
        let same = step.place.file.as_ref().map(|file| file.exact())
            == self.diagnosis.place.file.as_ref().map(|file| file.exact());
        let at = same.then(|| self.source.offset(step.place.line?, step.place.column.unwrap_or(1)))??;
        Some((at, self.source.statement(at)?.0))
    }

    /// The variable that a statement assigns.
    pub fn assigned(&self, statement: Range<usize>) -> Option<&'a str> {
        let code = self.source.code(statement);
        let at = code.match_indices('=').map(|(at, _)| at).find(|at| {
            let near =
                |index: Option<usize>| index.and_then(|index| code.as_bytes().get(index)).copied().unwrap_or(b' ');
            near(at.checked_add(1)) != b'=' && !b"=!<>+-*/%&|^".contains(&near(at.checked_sub(1)))
        })?;
        let name = code[..at].trim_end().rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
        is_name(name).then_some(name)
    }

    /// What is dereferenced in the statement, the nearest to the rejected place first.
    pub fn dereferenced(&self) -> Vec<Dereferenced<'a>> {
        let source = self.source;
        let end = self.statement.end.min(source.code(0..source.text.len()).len());
        let mut found = Vec::new();
        for (begin, name) in source.words(self.statement.start..end) {
            let behind = source.code(begin + name.len()..end);
            let before = source.code(self.statement.start..begin);
            let left = before.trim_end();
            let member = left.ends_with("->") || left.ends_with('.');
            if member || !is_name(name) || behind.starts_with('(') {
                continue;
            }
            let name = &source.text[begin..begin + name.len()];
            let form = if behind.starts_with("->") {
                Form::Member
            } else if behind.starts_with('[') {
                let close = source.closing(begin + name.len()).unwrap_or(end);
                Form::Element(self.text(begin + name.len() + 1..close - 1))
            } else if let Some(cast) = cast_before(left) {
                Form::Cast(cast)
            } else if left.ends_with('*') && !is_product(left) {
                Form::Whole
            } else {
                continue;
            };
            found.push((begin.abs_diff(self.at), Dereferenced { name, form, at: begin }));
        }
        found.sort_by_key(|(distance, _)| *distance);
        found.into_iter().map(|(_, own)| own).collect()
    }
}

/// Assembly behind which clang knows nothing of a variable.
pub fn opaque(name: &str) -> String {
    format!("asm volatile(\"\" : \"+r\"({name}));")
}

/// A read through a cast pointer: the whole, the type, and the address.
pub type Casted<'a> = (Range<usize>, &'a str, &'a str);

impl<'a> Case<'a> {
    /// The reads of the form `*(T *)(E)` and `*(T *)E` in the statement.
    pub fn casted(&self) -> Vec<Casted<'a>> {
        let source = self.source;
        let stars = self.statement.clone().filter(|at| source.code(*at..at + 1) == "*");
        let one = |star: usize| {
            let space = |from: usize| {
                let code = source.code(from..self.statement.end);
                from + (code.len() - code.trim_start().len())
            };
            let open = space(star + 1);
            let is_open = |at: usize| source.code(at..at + 1) == "(";
            if !is_open(open) || is_product(source.code(self.statement.start..star + 1)) {
                return None;
            }
            let close = source.closing(open)?;
            let kind = self.text(open + 1..close - 1).trim().strip_suffix('*')?.trim();
            let begin = space(close);
            let end = match is_open(begin) {
                true => source.closing(begin)?,
                false => source.words(begin..self.statement.end).next().filter(|(at, _)| *at == begin)?.1.len() + begin,
            };
            Some((star..end, kind, self.text(begin..end)))
        };
        stars.filter_map(one).collect()
    }
}

/// A pointer in a statement.
#[derive(Clone, Copy, Debug)]
pub struct Dereferenced<'a> {
    /// Its name.
    pub name: &'a str,
    /// How it is used.
    pub form: Form<'a>,
    /// Where the name begins.
    pub at: usize,
}

/// How a pointer is used.
#[derive(Clone, Copy, Debug)]
pub enum Form<'a> {
    /// `p->member`.
    Member,
    /// `p[E]`.
    Element(&'a str),
    /// `*(T *)p`: the type.
    Cast(&'a str),
    /// `*p`.
    Whole,
}

/// For `*(T *)`: `T`.
fn cast_before(left: &str) -> Option<&str> {
    let inside = left.strip_suffix(')')?;
    let open = inside.rfind('(')?;
    let kind = inside[open + 1..].trim_end().strip_suffix('*')?.trim();
    let starred = left[..open].trim_end().ends_with('*') && !is_product(left[..open].trim_end());
    (starred && !kind.is_empty()).then_some(kind)
}

/// Whether a star at the end multiplies.
fn is_product(left: &str) -> bool {
    let before = left.strip_suffix('*').unwrap_or(left).trim_end();
    let last_word = before.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
    before.ends_with(|letter: char| letter.is_alphanumeric() || "_])".contains(letter)) && last_word != "return"
}
