//! What the folds of a report hold, as data for the page's script.
//!
//! ```text
//!   groups      a program with the functions that it reaches; one that an earlier program reaches is in that one's fold
//!   contents    {texts, functions, rewrites}: rows of listings and rewrites name their texts by number
//!   queries     SMT-LIB of each rewrite, or null: a text of its own, unpacked only when a query is opened
//! ```
//!
//! Contents and queries are JSON, compressed with gzip and written in base64: browsers unpack both without a library.

use std::collections::HashMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use kiln_program::text::{Labels, Names, node_text};
use kiln_program::{Function, FunctionId, InsnId, Node, Object, clean};
use kiln_superopt::{Because, Evidence};
use serde::Serialize;

use super::align::{self, Kind, Row};
use super::justification;

/// Bytes of queries that a page holds at most; what is beyond is only in `--evidence`.
const QUERY_BYTES: usize = 8 << 20;

/// A fold: a program, or the functions that no program reaches.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) section: String,
    /// Slots of its functions before and after.
    pub(super) slots: [u32; 2],
    /// Its functions, the entry first.
    pub(super) functions: Vec<u32>,
    /// Rewrites in its functions.
    pub(super) rewrites: Vec<usize>,
}

/// Everything that the folds hold.
pub(super) struct Details<'a> {
    before: &'a Object,
    after: &'a Object,
    evidence: &'a [Evidence],
    pub(super) groups: Vec<Group>,
    /// The fold of each program.
    pub(super) program_groups: Vec<usize>,
    /// The fold of each function.
    pub(super) owner: Vec<usize>,
    /// Rewrites by the instructions they replaced or made.
    touching: HashMap<InsnId, Vec<usize>>,
    /// Where instructions of the object before are.
    nodes: HashMap<InsnId, &'a Node>,
}

/// What [`Details::contents`] returns.
#[derive(Serialize)]
pub(super) struct Contents {
    texts: Vec<String>,
    functions: Vec<FunctionData>,
    rewrites: Vec<RewriteData>,
}

#[derive(Serialize)]
struct FunctionData {
    name: usize,
    slots: [u32; 2],
    rows: Vec<RowData>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RowData {
    /// A source line: place and text.
    Source(usize, usize),
    /// Kind, slot and text before, slot and text after, and rewrites.
    Insns(u8, Option<(u32, usize)>, Option<(u32, usize)>, Vec<usize>),
}

#[derive(Serialize)]
struct RewriteData {
    why: usize,
    /// Source place, where known.
    place: Option<usize>,
    source: Option<usize>,
    before: Vec<usize>,
    after: Vec<usize>,
    query: bool,
}

/// Texts, each once.
#[derive(Default)]
struct Texts {
    numbers: HashMap<String, usize>,
}

impl Texts {
    fn add(&mut self, text: &str) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(clean(text)).or_insert(next)
    }

    fn into_list(self) -> Vec<String> {
        let mut texts: Vec<_> = self.numbers.into_iter().collect();
        texts.sort_unstable_by_key(|(_, number)| *number);
        texts.into_iter().map(|(text, _)| text).collect()
    }
}

impl<'a> Details<'a> {
    pub(super) fn new(before: &'a Object, after: &'a Object, evidence: &'a [Evidence]) -> Details<'a> {
        let nodes = before.functions.iter().flat_map(|function| &function.nodes).map(|node| (node.id, node)).collect();
        let touching = touching(evidence);
        let mut details = Details {
            before,
            after,
            evidence,
            groups: Vec::new(),
            program_groups: Vec::new(),
            owner: Vec::new(),
            touching,
            nodes,
        };
        details.group();
        details
    }

    /// Gives each function to the first program that reaches it, and each rewrite to the fold of its function.
    fn group(&mut self) {
        let mut owner: Vec<Option<usize>> = vec![None; self.before.functions.len()];
        let new = |name: &str, section: &str| {
            let (name, section) = (name.to_owned(), section.to_owned());
            Group { name, section, slots: [0; 2], functions: Vec::new(), rewrites: Vec::new() }
        };
        for program in &self.before.programs {
            let group = self.groups.len();
            // Two programs may be one function.
            let entry = program.entry.index();
            self.program_groups.push(owner[entry].unwrap_or(group));
            if owner[entry].is_some() {
                continue;
            }
            self.groups.push(new(&program.name, &program.section));
            for function in [program.entry].into_iter().chain(self.before.reachable_functions(program.entry)) {
                owner[function.index()].get_or_insert_with(|| {
                    self.groups[group].functions.push(function.0);
                    group
                });
            }
        }
        if owner.iter().any(Option::is_none) {
            let mut rest = new("functions that no program reaches", "");
            rest.functions = (0..owner.len() as u32).filter(|at| owner[*at as usize].is_none()).collect();
            self.groups.push(rest);
        }
        let last = self.groups.len().saturating_sub(1);
        self.owner = owner.into_iter().map(|group| group.unwrap_or(last)).collect();
        for (at, one) in self.evidence.iter().enumerate() {
            if let Some(group) = self.owner.get(one.function.index()) {
                self.groups[*group].rewrites.push(at);
            }
        }
        for group in &mut self.groups {
            for (side, object) in [self.before, self.after].into_iter().enumerate() {
                let slots = group.functions.iter().map(|at| object.function(FunctionId(*at)).slots());
                group.slots[side] = slots.sum();
            }
        }
    }

    /// Names of rules and laws, by the numbers of [`Details::index`].
    pub(super) fn rule_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.evidence.iter().map(|one| clean(one.because.name())).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Rule, function and slots saved of each rewrite.
    pub(super) fn index(&self) -> Vec<(usize, u32, i64)> {
        let names = self.rule_names();
        let number = |one: &Evidence| names.binary_search(&clean(one.because.name())).unwrap_or_default();
        self.evidence.iter().map(|one| (number(one), one.function.0, one.slots_saved)).collect()
    }

    /// Listings and rewrites.
    pub(super) fn contents(&self) -> Contents {
        let mut texts = Texts::default();
        let pairs = self.before.functions.iter().zip(&self.after.functions);
        let functions = pairs.map(|pair| self.function(pair, &mut texts)).collect();
        let rewrites = self.evidence.iter().map(|one| self.rewrite(one, &mut texts)).collect();
        Contents { texts: texts.into_list(), functions, rewrites }
    }

    fn function(&self, (before, after): (&Function, &Function), texts: &mut Texts) -> FunctionData {
        // Without labels, which differ where something in front of them went: a branch names its target by id.
        let text = |object: &Object, node: &Node| node_text(object, node, &Labels::default());
        let rows =
            align::rows((&before.nodes, &after.nodes), |old, new| text(self.before, old) == text(self.after, new));
        FunctionData {
            name: texts.add(&before.name),
            slots: [before.slots(), after.slots()],
            rows: self.rows((before, after), &rows, texts),
        }
    }

    fn rows(&self, (before, after): (&Function, &Function), rows: &[Row], texts: &mut Texts) -> Vec<RowData> {
        let starts = [slots_of(before), slots_of(after)];
        let labels = [Labels::of(before), Labels::of(after)];
        let names = [Names::of(self.before), Names::of(self.after)];
        let mut source = (None, 0);
        let mut data = Vec::with_capacity(rows.len());
        for row in rows {
            let sides = [row.before.map(|at| &before.nodes[at]), row.after.map(|at| &after.nodes[at])];
            let line = match sides {
                [Some(node), _] => self.before.line(node),
                [None, node] => node.and_then(|node| self.after.line(node)),
            };
            if let Some(line) = line.filter(|line| line.line != 0 && (Some(&line.file), line.line) != source) {
                source = (Some(&line.file), line.line);
                data.push(RowData::Source(texts.add(&place(line)), texts.add(line.text.trim())));
            }
            let mut cell = |side: usize, at: Option<usize>| {
                let (at, node) = (at?, sides[side]?);
                let text = names[side].node_text(node, &labels[side]);
                let label = labels[side].get(node.id).map_or_else(String::new, |label| format!("{label}: "));
                Some((starts[side][at], texts.add(&(label + &text))))
            };
            let cells = [cell(0, row.before), cell(1, row.after)];
            let marks = if row.kind == Kind::Same { Vec::new() } else { self.marks(&sides) };
            data.push(RowData::Insns(row.kind as u8, cells[0], cells[1], marks));
        }
        data
    }

    /// The rewrites of a row's instructions.
    fn marks(&self, sides: &[Option<&Node>; 2]) -> Vec<usize> {
        let touched = sides.iter().flatten().filter_map(|node| self.touching.get(&node.id)).flatten();
        let mut rewrites: Vec<usize> = touched.copied().collect();
        rewrites.sort_unstable();
        rewrites.dedup();
        rewrites
    }

    fn rewrite(&self, one: &Evidence, texts: &mut Texts) -> RewriteData {
        let ids = one.before_ids.iter().chain([&one.at, &one.site]);
        let line = ids.filter_map(|id| self.before.line(self.nodes.get(id)?)).find(|line| line.line != 0);
        let mut all = |lines: &[String]| lines.iter().map(|line| texts.add(line)).collect();
        let (before, after) = (all(&one.before), all(&one.after));
        RewriteData {
            why: texts.add(&justification(&one.because)),
            place: line.map(|line| texts.add(&place(line))),
            source: line.map(|line| texts.add(line.text.trim())),
            before,
            after,
            query: matches!(&one.because, Because::Window { record: Some(_), .. }),
        }
    }

    /// The query of each rewrite that has one, up to [`QUERY_BYTES`] in all.
    pub(super) fn queries(&self) -> Vec<Option<String>> {
        let mut bytes = 0;
        let queries = self.evidence.iter().map(|one| match &one.because {
            Because::Window { record: Some(record), .. } if bytes < QUERY_BYTES => {
                let query = record.query(self.before).ok()?;
                bytes += query.len();
                Some(query)
            }
            _ => None,
        });
        queries.collect()
    }
}

fn place(line: &kiln_program::SourceLine) -> String {
    format!("{}:{}", line.file.rsplit('/').next().unwrap_or_default(), line.line)
}

/// Rewrites by the instructions they replaced or made.
fn touching(evidence: &[Evidence]) -> HashMap<InsnId, Vec<usize>> {
    let mut touching: HashMap<InsnId, Vec<usize>> = HashMap::new();
    for (index, one) in evidence.iter().enumerate() {
        let mut add = |id| {
            let rewrites = touching.entry(id).or_default();
            if rewrites.last() != Some(&index) {
                rewrites.push(index);
            }
        };
        one.before_ids.iter().chain(&one.after_ids).chain([&one.site]).copied().for_each(&mut add);
    }
    touching
}

/// The slot at which each instruction begins.
fn slots_of(function: &Function) -> Vec<u32> {
    let mut next = 0;
    let starts = function.nodes.iter().map(|node| {
        let start = next;
        next += node.insn.slots();
        start
    });
    starts.collect()
}

/// JSON that no HTML parser takes for markup: `<` is written as an escape.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers").replace('<', "\\u003c")
}

/// JSON, compressed, in base64.
pub(super) fn packed(value: &impl Serialize) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut gzip, value).expect("strings and numbers");
    gzip.flush().expect("memory takes everything");
    base64(&gzip.finish().expect("memory takes everything"))
}

/// Bytes in base64 (RFC 4648, section 4).
pub(super) fn base64(bytes: &[u8]) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)
}
