//! Text to objects.
//!
//! One pass over the lines collects functions, labels and names. A second pass at the end turns names into references,
//! so that everything may be used before it is declared.

use std::collections::{BTreeMap, HashMap, HashSet};

use kiln_isa::text::{Symbol, parse_symbolic};
use kiln_isa::{CallTarget, Insn};

use super::error::TextError;
use super::names::{Names, Resolved, find};
use super::words::{Words, find_semicolon, without_comment};
use crate::btf::Btf;
use crate::lower::without_encoded_reference;
use crate::object::{
    CoreId, CoreRelocation, ExternKind, Function, FunctionId, InsnId, JumpTable, LineId, Linkage, MapContents, MapId,
    MapSlot, Node, Object, Reference, SourceLine,
};

/// A directive that is the caller's business: `; key: value`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Annotation {
    /// 1-based line.
    pub line: usize,
    /// The instruction on the same line.
    pub insn: Option<InsnId>,
    /// The word before the colon.
    pub key: String,
    /// What follows it, trimmed.
    pub value: String,
}

/// An object and the annotations of its text.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The object.
    pub object: Object,
    /// Annotations, top to bottom.
    pub annotations: Vec<Annotation>,
    /// The 1-based line of each instruction, in layout order.
    pub insn_lines: Vec<(InsnId, usize)>,
}

/// Parses an object; annotations are dropped.
///
/// The result is not validated: for example, a function may run past its end.
///
/// # Errors
/// [`TextError`] with the position and what was expected there.
pub fn parse(text: &str) -> Result<Object, TextError> {
    Ok(parse_annotated(text)?.object)
}

/// Parses an object with its annotations.
///
/// # Errors
/// [`TextError`] with the position and what was expected there.
pub fn parse_annotated(text: &str) -> Result<Parsed, TextError> {
    let mut parser = Parser::default();
    parser.parsed.object.license = "GPL".to_owned();
    for (index, line) in text.lines().enumerate() {
        parser.line(line, index + 1)?;
    }
    parser.finish(text.lines().count().max(1))
}

/// A name met in the first pass.
enum Name<'a> {
    Symbol(Symbol<'a>),
    /// A branch over this many slots.
    Distance(i64),
}

struct Pending<'a> {
    function: usize,
    position: usize,
    line: usize,
    column: usize,
    name: Name<'a>,
}

/// A name in a directive that may be declared later.
pub(super) enum Late {
    Entry { program: usize, name: String },
    Slot { map: usize, depth: usize, index: u32, name: String },
    Kconfig { symbol: usize, name: String },
    Table { function: usize, map: String, labels: Vec<String> },
}

/// What has been read so far.
#[derive(Default)]
pub(super) struct Parser<'a> {
    pub parsed: Parsed,
    /// Label to node position, per function.
    pub labels: Vec<HashMap<&'a str, usize>>,
    /// Names of the functions so far.
    pub taken: HashSet<String>,
    pending: Vec<Pending<'a>>,
    pub late: Vec<(Late, usize, usize)>,
    /// Programs that begin at the next function.
    pub waiting: Vec<usize>,
    pub next_id: u32,
    pub stated_next: Option<u32>,
    pub current_line: Option<LineId>,
    pub next_core: Option<CoreId>,
    pub lines: BTreeMap<u32, SourceLine>,
    pub core: BTreeMap<u32, CoreRelocation>,
}

impl<'a> Parser<'a> {
    fn line(&mut self, line: &'a str, number: usize) -> Result<(), TextError> {
        let line = without_comment(line);
        let split = find_semicolon(line);
        let (mut code, directive) = line.split_at(split.unwrap_or(line.len()));
        while let Some((name, rest)) = split_label(code) {
            self.label(name, number, column_of(line, name))?;
            code = rest;
        }
        let mut insn = None;
        if !code.trim().is_empty() {
            insn = Some(self.insn(code, number, column_of(line, code))?);
        }
        let Some(text) = directive.strip_prefix(';') else { return Ok(()) };
        let column = column_of(line, text);
        if let Some((key, value)) = annotation(text) {
            let (key, value) = (key.to_owned(), value.trim().to_owned());
            self.parsed.annotations.push(Annotation { line: number, insn, key, value });
            return Ok(());
        }
        let mut words = Words::new(text, number, column);
        if insn.is_some() {
            return words.fail("directives have a line of their own (comments begin with `#`)");
        }
        self.directive(&mut words)?;
        words.end()
    }

    pub(super) fn function_index(&mut self) -> usize {
        if self.parsed.object.functions.is_empty() || !self.waiting.is_empty() {
            let named = self.waiting.first().map(|index| self.parsed.object.programs[*index].name.clone());
            let name = named.filter(|name| !name.is_empty()).unwrap_or_else(|| "main".to_owned());
            let name = if self.taken.contains(&name) {
                format!("{name}.{}", self.parsed.object.functions.len())
            } else {
                name
            };
            self.begin_function(name, Linkage::Global, None, 0);
        }
        self.parsed.object.functions.len() - 1
    }

    /// Begins a function: what follows belongs to it.
    pub(super) fn begin_function(&mut self, name: String, linkage: Linkage, section: Option<String>, btf_id: u32) {
        let object = &mut self.parsed.object;
        let entry = FunctionId(object.functions.len() as u32);
        let of_program = self.waiting.first().map(|index| object.programs[*index].section.clone());
        let section = section.or(of_program).unwrap_or_else(|| ".text".to_owned());
        for index in self.waiting.drain(..) {
            let program = &mut object.programs[index];
            program.entry = entry;
            if program.name.is_empty() {
                program.name.clone_from(&name);
            }
        }
        self.taken.insert(name.clone());
        object.functions.push(Function { name, section, linkage, btf_id, nodes: Vec::new(), tables: Vec::new() });
        self.labels.push(HashMap::new());
    }

    fn label(&mut self, name: &'a str, line: usize, column: usize) -> Result<(), TextError> {
        let function = self.function_index();
        let position = self.parsed.object.functions[function].nodes.len();
        match self.labels[function].insert(name, position) {
            None => Ok(()),
            Some(_) => Err(TextError { line, column, message: format!("the label `{name}` is defined twice") }),
        }
    }

    fn insn(&mut self, code: &'a str, line: usize, column: usize) -> Result<InsnId, TextError> {
        let (insn, symbol) = parse_symbolic(code).map_err(|error| TextError {
            line,
            column: column + error.column - 1,
            message: error.message,
        })?;
        let function = self.function_index();
        let position = self.parsed.object.functions[function].nodes.len();
        let column = column + code.len() - code.trim_start().len();
        let name = match (symbol, insn) {
            (Some(symbol), _) => Some(Name::Symbol(symbol)),
            (None, Insn::Jump { offset, .. }) => Some(Name::Distance(offset.into())),
            (None, Insn::Branch { offset, .. } | Insn::MayGoto { offset }) => Some(Name::Distance(offset.into())),
            (None, Insn::Call(CallTarget::Subprogram(_))) => {
                return Err(TextError { line, column, message: "expected the name of the called function".to_owned() });
            }
            _ => None,
        };
        let id = InsnId(self.next_id);
        self.next_id = match self.next_id.checked_add(1) {
            Some(next) => next,
            None => return Err(TextError { line, column, message: "there are no instruction ids left".to_owned() }),
        };
        let insn = if name.is_some() { without_encoded_reference(insn) } else { insn };
        let node = Node { id, insn, reference: Reference::None, line: self.current_line, core: self.next_core.take() };
        self.parsed.object.functions[function].nodes.push(node);
        self.parsed.insn_lines.push((id, line));
        self.pending.extend(name.map(|name| Pending { function, position, line, column, name }));
        Ok(id)
    }
}

// The second pass.
impl Parser<'_> {
    fn finish(mut self, last_line: usize) -> Result<Parsed, TextError> {
        let at_end = |message: &str| TextError { line: last_line, column: 1, message: message.to_owned() };
        if !self.waiting.is_empty() {
            return Err(at_end("the last program has no instructions"));
        }
        let object = &mut self.parsed.object;
        object.next_insn = self.stated_next.unwrap_or(self.next_id);
        object.lines = in_order(std::mem::take(&mut self.lines)).ok_or_else(|| at_end("a source line is missing"))?;
        object.core = in_order(std::mem::take(&mut self.core)).ok_or_else(|| at_end("a CO-RE record is missing"))?;
        let types = object.btf.as_deref().filter(|_| !object.core.is_empty()).and_then(|btf| Btf::parse(btf).ok());
        if let Some(types) = types {
            object.core.iter_mut().for_each(|relocation| relocation.set_width(&types));
        }
        let nodes = || object.functions.iter().flat_map(|function| &function.nodes);
        if nodes().any(|node| node.line.is_some_and(|id| id.index() >= object.lines.len())) {
            return Err(at_end("an instruction names a source line that is not defined"));
        }
        if nodes().any(|node| node.core.is_some_and(|id| id.index() >= object.core.len())) {
            return Err(at_end("an instruction names a CO-RE record that is not defined"));
        }
        let names = Names::of(&self.parsed.object);
        for (late, line, column) in std::mem::take(&mut self.late) {
            self.resolve_late(late, &names).map_err(|message| TextError { line, column, message })?;
        }
        let slots = self.parsed.object.functions.iter().map(first_slots).collect::<Vec<_>>();
        for pending in std::mem::take(&mut self.pending) {
            let resolved = match &pending.name {
                Name::Distance(distance) => self.at_distance(&pending, &slots[pending.function], *distance),
                Name::Symbol(Symbol::Label(label)) => self.at_label(&pending, label),
                Name::Symbol(Symbol::Callee(name)) => names.callee(name),
                Name::Symbol(Symbol::Named { kind, name, offset }) => names.named(kind, name, *offset),
            };
            let Pending { line, column, .. } = pending;
            let resolved = resolved.map_err(|message| TextError { line, column, message })?;
            let node = &mut self.parsed.object.functions[pending.function].nodes[pending.position];
            match resolved {
                Resolved::Reference(reference) => node.reference = reference,
                Resolved::Helper(id) => node.insn = Insn::Call(CallTarget::Helper(id)),
            }
        }
        Ok(self.parsed)
    }

    fn resolve_late(&mut self, late: Late, names: &Names) -> Result<(), String> {
        let object = &mut self.parsed.object;
        match late {
            Late::Entry { program, name } => {
                let entry = FunctionId(find(&names.functions, "function", &name)?);
                object.programs[program].entry = entry;
                if object.programs[program].name.is_empty() {
                    object.programs[program].name = object.functions[entry.index()].name.clone();
                }
            }
            Late::Kconfig { symbol, name } => {
                let id = MapId(find(&names.maps, "map", &name)?);
                if let ExternKind::Kconfig { map, .. } = &mut object.externs[symbol].kind {
                    *map = id;
                }
            }
            Late::Table { function, map, labels } => {
                let map = MapId(find(&names.maps, "map", &map)?);
                let targets = labels.iter().map(|label| self.labelled(function, label)).collect::<Result<_, _>>()?;
                self.parsed.object.functions[function].tables.push(JumpTable { map, targets });
            }
            Late::Slot { map, depth, index, name } => {
                let slot = match (name.strip_prefix("fn:"), name.strip_prefix("map:")) {
                    (Some(name), _) => MapSlot::Function(FunctionId(find(&names.functions, "function", name)?)),
                    (_, Some(name)) => MapSlot::Map(MapId(find(&names.maps, "map", name)?)),
                    _ => return Err("expected `fn:NAME` or `map:NAME` behind the index".to_owned()),
                };
                let mut holder = &mut object.maps[map];
                for _ in 0..depth {
                    holder = holder.inner.as_mut().ok_or("the inner map is missing")?;
                }
                if let MapContents::Slots(slots) = &mut holder.contents {
                    slots.push((index, slot));
                }
            }
        }
        Ok(())
    }

    fn at_label(&self, pending: &Pending<'_>, label: &str) -> Result<Resolved, String> {
        Ok(Resolved::Reference(Reference::Branch(self.labelled(pending.function, label)?)))
    }

    /// The instruction behind a label.
    fn labelled(&self, function: usize, label: &str) -> Result<InsnId, String> {
        let labels = &self.labels[function];
        let function = &self.parsed.object.functions[function];
        let position =
            labels.get(label).ok_or_else(|| format!("there is no label `{label}` in function `{}`", function.name))?;
        let target = function.nodes.get(*position).ok_or_else(|| format!("no instruction follows `{label}:`"))?;
        Ok(target.id)
    }

    /// `slots` are those that the function's instructions begin at.
    fn at_distance(&self, pending: &Pending<'_>, slots: &[i64], distance: i64) -> Result<Resolved, String> {
        let wanted = slots[pending.position] + 1 + distance;
        let Ok(position) = slots.binary_search(&wanted) else {
            return Err(format!("no instruction begins {distance:+} slots from the next one"));
        };
        let target = self.parsed.object.functions[pending.function].nodes[position].id;
        Ok(Resolved::Reference(Reference::Branch(target)))
    }
}

/// The slot that each instruction of a function begins at.
fn first_slots(function: &Function) -> Vec<i64> {
    let begin = |next: &mut i64, node: &Node| {
        let begin = *next;
        *next += i64::from(node.insn.slots());
        Some(begin)
    };
    function.nodes.iter().scan(0, begin).collect()
}

/// The values of a table whose keys are 0, 1, 2 and so on.
fn in_order<T>(table: BTreeMap<u32, T>) -> Option<Vec<T>> {
    let complete = table.keys().enumerate().all(|(index, key)| index == *key as usize);
    complete.then(|| table.into_values().collect())
}

/// `name:` at the beginning of a line. A label is a word, or a word in angle brackets as llvm-objdump writes it.
fn split_label(code: &str) -> Option<(&str, &str)> {
    let (name, rest) = code.split_once(':')?;
    let name = name.trim();
    let name = name.strip_prefix('<').and_then(|name| name.strip_suffix('>')).unwrap_or(name);
    super::words::is_plain(name).then_some((name, rest))
}

/// `key: value`, the key being one word.
fn annotation(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.trim_start().split_once(':')?;
    let is_key = key.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_'));
    (is_key && !key.is_empty()).then_some((key, value))
}

/// The 1-based column at which `part`, a piece of `line`, begins.
fn column_of(line: &str, part: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize) + 1
}
