//! Text to objects.
//!
//! One pass over the lines collects functions, labels and names. A second pass at the end turns names into references,
//! so that everything may be used before it is declared.

use std::collections::{BTreeMap, HashMap, HashSet};

use kiln_isa::text::{Symbol, parse_symbolic};
use kiln_isa::{CallTarget, Insn};
use kiln_platform::limits::MAX_INNER_MAPS;
use kiln_platform::{AttachType, Helper, MapType, ProgramType};

use super::words::{Words, find_semicolon, unhex, unquote, without_comment};
use crate::btf::Btf;
use crate::lower::without_encoded_reference;
use crate::object::{
    CoreId, CoreRelocation, Extern, ExternId, ExternKind, Function, FunctionId, InsnId, LineId, Linkage, Map,
    MapContents, MapId, MapSlot, Node, Object, Program, Reference, SourceLine,
};
use crate::shown::Clean;

/// An error in a text, with its place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}, column {column}: {}", Clean(message))]
pub struct TextError {
    /// 1-based line.
    pub line: usize,
    /// 1-based byte column.
    pub column: usize,
    /// What was expected, or what is wrong.
    pub message: String,
}

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
enum Late {
    Entry { program: usize, name: String },
    Slot { map: usize, depth: usize, index: u32, name: String },
    Kconfig { symbol: usize, name: String },
}

#[derive(Default)]
struct Parser<'a> {
    parsed: Parsed,
    /// Label to node position, per function.
    labels: Vec<HashMap<&'a str, usize>>,
    /// Names of the functions so far.
    taken: HashSet<String>,
    pending: Vec<Pending<'a>>,
    late: Vec<(Late, usize, usize)>,
    /// Programs that begin at the next function.
    waiting: Vec<usize>,
    next_id: u32,
    stated_next: Option<u32>,
    current_line: Option<LineId>,
    next_core: Option<CoreId>,
    lines: BTreeMap<u32, SourceLine>,
    core: BTreeMap<u32, CoreRelocation>,
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

    fn function_index(&mut self) -> usize {
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

    fn begin_function(&mut self, name: String, linkage: Linkage, section: Option<String>, btf_id: u32) {
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
        object.functions.push(Function { name, section, linkage, btf_id, nodes: Vec::new() });
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

// Directives.
impl Parser<'_> {
    fn directive(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        let object = &mut self.parsed.object;
        match words.peek().unwrap_or_default() {
            "object" => {
                words.next_raw();
                object.name = words.name("a name")?;
            }
            "license" => {
                words.next_raw();
                object.license = words.name("a license")?;
            }
            "version" => {
                words.next_raw();
                object.kernel_version = words.number32("a version number")?;
            }
            "map" => {
                words.next_raw();
                let index = object.maps.len();
                let map = self.map(words, index, 0)?;
                self.parsed.object.maps.push(map);
            }
            "inner" => self.inner(words)?,
            "extern" => self.external(words)?,
            "program" => self.program(words)?,
            "function" => self.function(words)?,
            "line" => self.source_line(words)?,
            "core" => self.core_record(words)?,
            "insn" => {
                words.next_raw();
                self.next_id = words.number32("an instruction id")?;
            }
            "next_insn" => {
                words.next_raw();
                self.stated_next = Some(words.number32("an instruction id")?);
            }
            "btf" => {
                words.next_raw();
                let bytes = words.convert("hexadecimal bytes", unhex)?;
                object.btf.get_or_insert_default().extend(bytes);
            }
            _ => {
                return words.fail(
                    "expected a directive (object, license, version, map, inner, extern, program, function, line, \
                     core, insn, next_insn, btf) or `key: value`; comments begin with `#`",
                );
            }
        }
        Ok(())
    }

    fn map(&mut self, words: &mut Words<'_>, index: usize, depth: usize) -> Result<Map, TextError> {
        let name = words.name("a map's name")?;
        let map_type = words.convert("a map type such as array or hash", MapType::from_name)?;
        let mut map = Map {
            name,
            map_type,
            key_size: 0,
            value_size: 0,
            max_entries: 0,
            flags: 0,
            extra: 0,
            pinned_by_name: false,
            key_btf: 0,
            value_btf: 0,
            inner: None,
            contents: MapContents::Empty,
        };
        while let Some(word) = words.peek() {
            words.next_raw();
            match word {
                "key" => map.key_size = words.number32("bytes")?,
                "value" => map.value_size = words.number32("bytes")?,
                "entries" => map.max_entries = words.number32("a number of entries")?,
                "flags" => map.flags = words.number32("flags")?,
                "extra" => map.extra = words.number("a number")?,
                "key_btf" => map.key_btf = words.number32("a BTF id")?,
                "value_btf" => map.value_btf = words.number32("a BTF id")?,
                "pinned" => map.pinned_by_name = true,
                "data" => map.contents = MapContents::Data(words.convert("hexadecimal bytes", unhex)?),
                "rodata" => map.contents = MapContents::ReadOnly(words.convert("hexadecimal bytes", unhex)?),
                "struct_ops" => map.contents = MapContents::StructOps(words.convert("hexadecimal bytes", unhex)?),
                "kconfig" => map.contents = MapContents::Kconfig(words.number32("bytes")?),
                "slots" => map.contents = MapContents::Slots(Vec::new()),
                "slot" => {
                    let (at, name) = words.convert("`INDEX=fn:NAME` or `INDEX=map:NAME`", |word| {
                        let (at, name) = word.split_once('=')?;
                        Some((at.parse().ok()?, name.to_owned()))
                    })?;
                    if !matches!(map.contents, MapContents::Slots(_)) {
                        map.contents = MapContents::Slots(Vec::new());
                    }
                    let (line, column) = words.position();
                    self.late.push((Late::Slot { map: index, depth, index: at, name }, line, column));
                }
                _ => {
                    return words.fail(format!(
                        "`{word}` is no map attribute: key, value, entries, flags, extra, pinned, key_btf, value_btf, \
                         data, rodata, kconfig, struct_ops, slots, slot"
                    ));
                }
            }
        }
        Ok(map)
    }

    fn inner(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        words.next_raw();
        let Some(index) = self.parsed.object.maps.len().checked_sub(1) else {
            return words.fail("`inner` follows the map that holds the maps");
        };
        let (mut depth, mut outer) = (1, &self.parsed.object.maps[index]);
        while let Some(next) = &outer.inner {
            (depth, outer) = (depth + 1, next);
        }
        if depth > MAX_INNER_MAPS {
            return words.fail("the map already has its inner map, which can hold no maps itself");
        }
        let map = self.map(words, index, depth)?;
        let mut outer = &mut self.parsed.object.maps[index];
        for _ in 1..depth {
            outer = outer.inner.as_mut().expect("counted above");
        }
        outer.inner = Some(Box::new(map));
        Ok(())
    }

    fn external(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        words.next_raw();
        let name = words.name("a symbol's name")?;
        let kind = words.convert("kfunc, ksym, typed_ksym or kconfig", |word| match word {
            "kfunc" => Some(ExternKind::Kfunc),
            "ksym" => Some(ExternKind::Ksym),
            "typed_ksym" => Some(ExternKind::TypedKsym),
            "kconfig" => Some(ExternKind::Kconfig { map: MapId(0), offset: 0 }),
            _ => None,
        })?;
        let mut symbol = Extern { name, kind, weak: false, btf_id: 0 };
        while let Some(word) = words.peek() {
            words.next_raw();
            match (word, &mut symbol.kind) {
                ("weak", _) => symbol.weak = true,
                ("btf", _) => symbol.btf_id = words.number32("a BTF id")?,
                ("offset", ExternKind::Kconfig { offset, .. }) => *offset = words.number32("bytes")?,
                ("map", ExternKind::Kconfig { .. }) => {
                    let (line, column) = words.position();
                    let name = words.convert("a map's name", |word| Some(word.to_owned()))?;
                    let late = Late::Kconfig { symbol: self.parsed.object.externs.len(), name };
                    self.late.push((late, line, column));
                }
                _ => return words.fail(format!("`{word}` is no attribute here: weak, btf; of a kconfig map, offset")),
            }
        }
        self.parsed.object.externs.push(symbol);
        Ok(())
    }

    fn program(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        words.next_raw();
        let program_type = words.convert("a program type such as xdp, or none", |word| match word {
            "none" => Some(None),
            name => ProgramType::from_name(name).map(Some),
        })?;
        let mut program = Program {
            name: String::new(),
            section: String::new(),
            program_type,
            attach_type: None,
            entry: FunctionId(0),
            autoload: true,
            sleepable: false,
            frags: false,
            target: None,
        };
        let (mut entry, mut section) = (None, None);
        while let Some(word) = words.peek() {
            words.next_raw();
            match word {
                "name" => program.name = words.name("a name")?,
                "section" => section = Some(words.name("a section")?),
                "attach" => {
                    program.attach_type = Some(words.convert("an attach type", AttachType::from_name)?);
                }
                "entry" => {
                    let (line, column) = words.position();
                    entry = Some((words.convert("a function's name", |word| Some(word.to_owned()))?, line, column));
                }
                "sleepable" => program.sleepable = true,
                "frags" => program.frags = true,
                "target" => program.target = Some(words.name("a hook's name")?),
                "noautoload" => program.autoload = false,
                _ => {
                    return words.fail(format!(
                        "`{word}` is no program attribute: name, section, attach, entry, sleepable, frags, target, noautoload"
                    ));
                }
            }
        }
        program.section = section.unwrap_or_else(|| default_section(program_type).to_owned());
        let index = self.parsed.object.programs.len();
        self.parsed.object.programs.push(program);
        match entry {
            Some((name, line, column)) => self.late.push((Late::Entry { program: index, name }, line, column)),
            None => self.waiting.push(index),
        }
        Ok(())
    }

    fn function(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        words.next_raw();
        let name = words.name("a function's name")?;
        let (mut linkage, mut section, mut btf_id) = (None, None, 0);
        while let Some(word) = words.peek() {
            words.next_raw();
            match word {
                "static" => linkage = Some(Linkage::Static),
                "global" => linkage = Some(Linkage::Global),
                "weak" => linkage = Some(Linkage::Weak),
                "section" => section = Some(words.name("a section")?),
                "btf" => btf_id = words.number32("a BTF id")?,
                _ => {
                    let known = "static, global, weak, section, btf";
                    return words.fail(format!("`{word}` is no function attribute: {known}"));
                }
            }
        }
        let default = if self.waiting.is_empty() { Linkage::Static } else { Linkage::Global };
        self.begin_function(name, linkage.unwrap_or(default), section, btf_id);
        self.current_line = None;
        Ok(())
    }

    fn source_line(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        words.next_raw();
        if words.accept("none") {
            self.current_line = None;
            return Ok(());
        }
        let stated = words.accept_index();
        let id = stated.unwrap_or(self.lines.len() as u32);
        self.current_line = Some(LineId(id));
        if stated.is_some() && words.peek().is_none() {
            return Ok(());
        }
        let (line, column) = words.convert("LINE:COLUMN", |word| {
            let (line, column) = word.split_once(':')?;
            Some((line.parse().ok()?, column.parse().ok()?))
        })?;
        let file = words.name("a file's name")?;
        let text = words.name("a line's text")?;
        let (mut file_offset, mut text_offset) = (0, 0);
        if words.accept("at") {
            file_offset = words.number32("an offset in the BTF strings")?;
            text_offset = words.number32("an offset in the BTF strings")?;
        }
        let source = SourceLine { file, line, column, text, file_offset, text_offset };
        match self.lines.insert(id, source) {
            None => Ok(()),
            Some(_) => words.fail(format!("source line @{id} is defined twice")),
        }
    }

    fn core_record(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        words.next_raw();
        let stated = words.accept_index();
        let id = stated.unwrap_or(self.core.len() as u32);
        self.next_core = Some(CoreId(id));
        if stated.is_some() && words.peek().is_none() {
            return Ok(());
        }
        let type_id = words.number32("a BTF id")?;
        let access = words.name("an access string")?;
        let kind = words.number32("a relocation kind")?;
        let access_offset = if words.accept("at") { words.number32("an offset in the BTF strings")? } else { 0 };
        match self.core.insert(id, CoreRelocation { type_id, access, access_offset, kind, keeps_width: false }) {
            None => Ok(()),
            Some(_) => words.fail(format!("CO-RE record @{id} is defined twice")),
        }
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
        let function = &self.parsed.object.functions[pending.function];
        let position = self.labels[pending.function]
            .get(label)
            .ok_or_else(|| format!("there is no label `{label}` in function `{}`", function.name))?;
        let target = function.nodes.get(*position).ok_or_else(|| format!("no instruction follows `{label}:`"))?;
        Ok(Resolved::Reference(Reference::Branch(target.id)))
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

enum Resolved {
    Reference(Reference),
    Helper(u32),
}

/// Names to indices. A name that occurs twice is known, but does not resolve.
struct Names {
    functions: HashMap<String, Vec<u32>>,
    maps: HashMap<String, Vec<u32>>,
    externs: HashMap<String, Vec<u32>>,
}

impl Names {
    fn of(object: &Object) -> Names {
        let index = |names: &mut dyn Iterator<Item = &String>| {
            let mut table: HashMap<String, Vec<u32>> = HashMap::new();
            for (index, name) in names.enumerate() {
                table.entry(name.clone()).or_default().push(index as u32);
            }
            table
        };
        Names {
            functions: index(&mut object.functions.iter().map(|function| &function.name)),
            maps: index(&mut object.maps.iter().map(|map| &map.name)),
            externs: index(&mut object.externs.iter().map(|symbol| &symbol.name)),
        }
    }

    fn callee(&self, name: &str) -> Result<Resolved, String> {
        if self.functions.contains_key(name) {
            let id = find(&self.functions, "function", name)?;
            return Ok(Resolved::Reference(Reference::Function(FunctionId(id))));
        }
        match Helper::by_name(name) {
            Some(helper) => Ok(Resolved::Helper(helper.id)),
            None => Err(format!("there is no function and no helper `{name}`")),
        }
    }

    fn named(&self, kind: &str, name: &str, offset: u32) -> Result<Resolved, String> {
        if offset != 0 && kind != "map_value" {
            return Err(format!("`{kind}[...]` takes no offset"));
        }
        let reference = match kind {
            "map" => Reference::Map(MapId(find(&self.maps, "map", name)?)),
            "map_value" => Reference::MapValue { map: MapId(find(&self.maps, "map", name)?), offset },
            "fn" => Reference::Function(FunctionId(find(&self.functions, "function", name)?)),
            "kfunc" | "extern" => Reference::Extern(ExternId(find(&self.externs, "extern", name)?)),
            "" if self.maps.contains_key(name) => Reference::Map(MapId(find(&self.maps, "map", name)?)),
            "" => Reference::Extern(ExternId(find(&self.externs, "map or extern", name)?)),
            _ => return Err(format!("`{kind}[...]` is unknown: map, map_value, fn, kfunc, extern")),
        };
        Ok(Resolved::Reference(reference))
    }
}

fn find(table: &HashMap<String, Vec<u32>>, what: &str, written: &str) -> Result<u32, String> {
    if let Some(index) = written.strip_prefix('@') {
        let count: usize = table.values().map(Vec::len).sum();
        return match index.parse() {
            Ok(index) if (index as usize) < count => Ok(index),
            _ => Err(format!("there is no {what} {written}")),
        };
    }
    let name = unquote(written).ok_or_else(|| format!("`{written}` is not a well-formed string"))?;
    match table.get(&name).map(Vec::as_slice) {
        Some([index]) => Ok(*index),
        Some(_) => Err(format!("there is more than one {what} `{name}`: write its index, as in @0")),
        None => Err(format!("there is no {what} `{name}`")),
    }
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

/// The section name that libbpf takes for a program of this type.
fn default_section(program_type: Option<ProgramType>) -> &'static str {
    match program_type {
        None => ".text",
        Some(ProgramType::SocketFilter) => "socket",
        Some(ProgramType::SchedCls) => "tc",
        Some(ProgramType::SchedAct) => "action",
        Some(ProgramType::CgroupSkb) => "cgroup/skb",
        Some(ProgramType::RawTracepoint) => "raw_tp",
        Some(other) => other.name(),
    }
}
