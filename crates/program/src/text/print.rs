//! Objects to text.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;

use kiln_isa::{CallTarget, Insn};
use kiln_platform::Helper;

use super::words::{hex, is_plain, quote};
use crate::lower::without_encoded_reference;
use crate::object::{
    CoreId, ExternKind, Function, InsnId, LineId, Linkage, Map, MapContents, MapSlot, Node, Object, Program, Reference,
};

/// Prints the object as text. If it is valid, [`super::parse`] reads an equal object back.
pub fn print(object: &Object) -> String {
    Printer::new(object, true).object()
}

/// The object as text for people: no instruction ids, source lines, CO-RE records or BTF.
pub fn listing(object: &Object) -> String {
    Printer::new(object, false).object()
}

/// Names of a function's branch targets: `L1`, `L2`, ... in layout order.
#[derive(Clone, Debug, Default)]
pub struct Labels(HashMap<InsnId, usize>);

impl Labels {
    /// The labels of a function.
    pub fn of(function: &Function) -> Labels {
        let mut targets: HashSet<_> = function.nodes.iter().filter_map(Node::target).collect();
        targets.extend(function.jump_targets());
        let in_order = function.nodes.iter().map(|node| node.id).filter(|id| targets.contains(id));
        Labels(in_order.enumerate().map(|(index, id)| (id, index + 1)).collect())
    }

    /// The label in front of an instruction, if a branch leads there.
    pub fn get(&self, id: InsnId) -> Option<String> {
        self.0.get(&id).map(|index| format!("L{index}"))
    }
}

/// One instruction with names for what it refers to, such as `if r0 == 0x0 goto L2` or `r1 = map[counters]`. For many
/// instructions of one object, see [`Names`].
pub fn node_text(object: &Object, node: &Node, labels: &Labels) -> String {
    Names { object, counts: None }.node_text(node, labels)
}

/// The names of an object's parts with their counts, to find which names are unique.
#[derive(Clone, Debug)]
pub struct Names<'a> {
    object: &'a Object,
    /// Counts for functions, maps and externs; without them, all names are searched each time.
    counts: Option<[HashMap<&'a str, u32>; 3]>,
}

/// The kind of a named part, as an index of [`Names::counts`].
#[derive(Clone, Copy)]
enum Kind {
    Function,
    Map,
    Extern,
}

impl<'a> Names<'a> {
    /// Of an object.
    pub fn of(object: &'a Object) -> Names<'a> {
        let none = Names { object, counts: None };
        let count = |kind: Kind| {
            let mut counts = HashMap::new();
            none.all(kind).for_each(|name| *counts.entry(name).or_default() += 1);
            counts
        };
        let counts = [Kind::Function, Kind::Map, Kind::Extern].map(count);
        Names { object, counts: Some(counts) }
    }

    /// As [`node_text`].
    pub fn node_text(&self, node: &Node, labels: &Labels) -> String {
        let insn = without_encoded_reference(node.insn);
        let of = |kind: &str, name: String| format!("{kind}[{name}]");
        match (insn, node.reference) {
            (_, Reference::Branch(target)) => {
                let text = insn.to_string();
                let head = text.strip_suffix("+0x0").unwrap_or(&text);
                let label = labels.get(target).unwrap_or_else(|| format!("missing{}", target.0));
                format!("{head}{label}")
            }
            (Insn::Call(CallTarget::Subprogram(_)), Reference::Function(id)) => {
                let name = self.function(id.0);
                if is_plain(&name) { format!("call {name}") } else { format!("call {}", of("fn", name)) }
            }
            (Insn::Call(_), Reference::Extern(id)) => format!("call {}", of("kfunc", self.name(Kind::Extern, id.0))),
            (Insn::Call(CallTarget::Helper(number)), Reference::None) => match Helper::by_id(number) {
                Some(helper) if self.count(Kind::Function, helper.name) == 0 => format!("call {}", helper.name),
                _ => node.insn.to_string(),
            },
            (Insn::LoadImm64 { dst, .. }, Reference::Map(map)) => format!("{dst} = {}", of("map", self.map(map.0))),
            (Insn::LoadImm64 { dst, .. }, Reference::MapValue { map, offset }) => {
                format!("{dst} = {} + {offset:#x}", of("map_value", self.map(map.0)))
            }
            (Insn::LoadImm64 { dst, .. }, Reference::Function(id)) => {
                format!("{dst} = {}", of("fn", self.function(id.0)))
            }
            (Insn::LoadImm64 { dst, .. }, Reference::Extern(id)) => {
                format!("{dst} = {}", of("extern", self.name(Kind::Extern, id.0)))
            }
            _ => node.insn.to_string(),
        }
    }

    fn all(&self, kind: Kind) -> Box<dyn Iterator<Item = &'a str> + 'a> {
        let object = self.object;
        match kind {
            Kind::Function => Box::new(object.functions.iter().map(|function| function.name.as_str())),
            Kind::Map => Box::new(object.maps.iter().map(|map| map.name.as_str())),
            Kind::Extern => Box::new(object.externs.iter().map(|symbol| symbol.name.as_str())),
        }
    }

    fn count(&self, kind: Kind, name: &str) -> usize {
        match &self.counts {
            Some(counts) => counts[kind as usize].get(name).map_or(0, |count| *count as usize),
            None => self.all(kind).filter(|other| *other == name).count(),
        }
    }

    /// The name of the part at `index`, or `@index` if the name is not unique.
    fn name(&self, kind: Kind, index: u32) -> String {
        let name = match kind {
            Kind::Function => self.object.functions.get(index as usize).map(|function| &function.name),
            Kind::Map => self.object.maps.get(index as usize).map(|map| &map.name),
            Kind::Extern => self.object.externs.get(index as usize).map(|symbol| &symbol.name),
        };
        match name {
            Some(name) if self.count(kind, name) == 1 => quote(name),
            _ => format!("@{index}"),
        }
    }

    fn function(&self, index: u32) -> String {
        self.name(Kind::Function, index)
    }

    fn map(&self, index: u32) -> String {
        self.name(Kind::Map, index)
    }
}

struct Printer<'a> {
    object: &'a Object,
    names: Names<'a>,
    /// Whether ids and debug info are printed.
    full: bool,
    text: String,
    next_id: u32,
    lines_seen: BTreeSet<LineId>,
    core_seen: BTreeSet<CoreId>,
}

impl<'a> Printer<'a> {
    fn new(object: &'a Object, full: bool) -> Printer<'a> {
        let (lines_seen, core_seen) = (BTreeSet::new(), BTreeSet::new());
        Printer { object, names: Names::of(object), full, text: String::new(), next_id: 0, lines_seen, core_seen }
    }

    fn put(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{line}"); // Writing to a string cannot fail.
    }

    fn object(mut self) -> String {
        let object = self.object;
        if self.full && !object.name.is_empty() {
            self.put(format_args!("; object {}", quote(&object.name)));
        }
        self.put(format_args!("; license {}", quote(&object.license)));
        if object.kernel_version != 0 {
            self.put(format_args!("; version {:#x}", object.kernel_version));
        }
        for map in &object.maps {
            self.map("map", map);
        }
        for symbol in &object.externs {
            self.external(symbol);
        }
        let entries: Vec<_> = object.programs.iter().map(|program| program.entry).collect();
        let beside = entries.is_sorted_by(|one, next| one < next);
        if !beside {
            for program in &object.programs {
                let entry = format!(" entry {}", self.names.function(program.entry.0));
                self.program(program, &entry);
            }
        }
        let by_entry: BTreeMap<_, _> = object.programs.iter().map(|program| (program.entry.index(), program)).collect();
        for (index, function) in object.functions.iter().enumerate() {
            self.text.push('\n');
            if let Some(program) = by_entry.get(&index).filter(|_| beside) {
                self.program(program, "");
            }
            self.function(function);
        }
        if self.full {
            self.rest();
        }
        self.text
    }

    fn map(&mut self, word: &str, map: &Map) {
        let mut line = format!("; {word} {} {}", quote(&map.name), map.map_type.name());
        for (name, value) in [
            ("key", u64::from(map.key_size)),
            ("value", map.value_size.into()),
            ("entries", map.max_entries.into()),
            ("flags", map.flags.into()),
            ("extra", map.extra),
            ("key_btf", map.key_btf.into()),
            ("value_btf", map.value_btf.into()),
        ] {
            if value != 0 && (self.full || !name.ends_with("btf")) {
                let _ = write!(line, " {name} {value}");
            }
        }
        if map.pinned_by_name {
            line.push_str(" pinned");
        }
        line.push_str(&self.contents(&map.contents));
        self.put(format_args!("{line}"));
        if let Some(inner) = &map.inner {
            self.map("inner", inner);
        }
    }

    fn contents(&self, contents: &MapContents) -> String {
        match contents {
            MapContents::Empty => String::new(),
            MapContents::Data(bytes) => format!(" data {}", hex(bytes)),
            MapContents::ReadOnly(bytes) => format!(" rodata {}", hex(bytes)),
            MapContents::Kconfig(bytes) => format!(" kconfig {bytes}"),
            MapContents::StructOps(bytes) => format!(" struct_ops {}", hex(bytes)),
            MapContents::Slots(slots) if slots.is_empty() => " slots".to_owned(),
            MapContents::Slots(slots) => slots.iter().fold(String::new(), |mut line, (index, slot)| {
                let _ = match slot {
                    MapSlot::Function(id) => write!(line, " slot {index}=fn:{}", self.names.function(id.0)),
                    MapSlot::Map(id) => write!(line, " slot {index}=map:{}", self.names.map(id.0)),
                };
                line
            }),
        }
    }

    fn external(&mut self, symbol: &crate::Extern) {
        let mut line = format!("; extern {} ", quote(&symbol.name));
        match symbol.kind {
            ExternKind::Kfunc => line.push_str("kfunc"),
            ExternKind::TypedKsym => line.push_str("typed_ksym"),
            ExternKind::Ksym => line.push_str("ksym"),
            ExternKind::Kconfig { map, offset } => {
                let _ = write!(line, "kconfig map {} offset {offset}", self.names.map(map.0));
            }
        }
        if symbol.weak {
            line.push_str(" weak");
        }
        if self.full && symbol.btf_id != 0 {
            let _ = write!(line, " btf {}", symbol.btf_id);
        }
        self.put(format_args!("{line}"));
    }

    fn program(&mut self, program: &Program, entry: &str) {
        let program_type = program.program_type.map_or("none", |program_type| program_type.name());
        let mut line = format!("; program {program_type} name {}", quote(&program.name));
        let _ = write!(line, " section {}{entry}", quote(&program.section));
        if let Some(attach) = program.attach_type {
            let _ = write!(line, " attach {}", attach.name());
        }
        for (is_set, word) in
            [(program.sleepable, " sleepable"), (program.frags, " frags"), (!program.autoload, " noautoload")]
        {
            if is_set {
                line.push_str(word);
            }
        }
        if let Some(target) = &program.target {
            let _ = write!(line, " target {}", quote(target));
        }
        self.put(format_args!("{line}"));
    }

    fn function(&mut self, function: &Function) {
        let linkage = match function.linkage {
            Linkage::Static => "static",
            Linkage::Global => "global",
            Linkage::Weak => "weak",
        };
        let mut line = format!("; function {} {linkage} section {}", quote(&function.name), quote(&function.section));
        if self.full && function.btf_id != 0 {
            let _ = write!(line, " btf {}", function.btf_id);
        }
        self.put(format_args!("{line}"));
        let labels = Labels::of(function);
        for table in &function.tables {
            let label = |id: &InsnId| labels.get(*id).unwrap_or_else(|| format!("missing{}", id.0));
            let targets: Vec<String> = table.targets.iter().map(label).collect();
            self.put(format_args!("; table {} {}", self.names.map(table.map.0), targets.join(" ")));
        }
        let mut source = None;
        for node in &function.nodes {
            if self.full {
                self.node_directives(node, &mut source);
            }
            if let Some(label) = labels.get(node.id) {
                self.put(format_args!("{label}:"));
            }
            let text = self.names.node_text(node, &labels);
            self.put(format_args!("  {text}"));
        }
    }

    fn node_directives(&mut self, node: &Node, source: &mut Option<LineId>) {
        if node.id.0 != self.next_id {
            self.put(format_args!("; insn {}", node.id.0));
        }
        self.next_id = node.id.0.saturating_add(1);
        if node.line != *source {
            *source = node.line;
            match node.line {
                None => self.put(format_args!("; line none")),
                Some(id) if self.lines_seen.contains(&id) => self.put(format_args!("; line @{}", id.0)),
                Some(id) => self.line(id),
            }
        }
        match node.core {
            None => {}
            Some(id) if self.core_seen.contains(&id) => self.put(format_args!("; core @{}", id.0)),
            Some(id) => self.core(id),
        }
    }

    fn line(&mut self, id: LineId) {
        let Some(line) = self.object.lines.get(id.index()) else { return };
        let at = if id.index() == self.lines_seen.len() { String::new() } else { format!("@{} ", id.0) };
        self.lines_seen.insert(id);
        self.put(format_args!(
            "; line {at}{}:{} {:?} {:?} at {} {}",
            line.line, line.column, line.file, line.text, line.file_offset, line.text_offset
        ));
    }

    fn core(&mut self, id: CoreId) {
        let Some(core) = self.object.core.get(id.index()) else { return };
        let at = if id.index() == self.core_seen.len() { String::new() } else { format!("@{} ", id.0) };
        self.core_seen.insert(id);
        self.put(format_args!("; core {at}{} {:?} {} at {}", core.type_id, core.access, core.kind, core.access_offset));
    }

    /// Items that no instruction refers to.
    fn rest(&mut self) {
        let object = self.object;
        for id in (0..object.lines.len() as u32).map(LineId) {
            if !self.lines_seen.contains(&id) {
                self.line(id);
            }
        }
        for id in (0..object.core.len() as u32).map(CoreId) {
            if !self.core_seen.contains(&id) {
                self.core(id);
            }
        }
        if object.next_insn != self.next_id {
            self.put(format_args!("; next_insn {}", object.next_insn));
        }
        if let Some(btf) = &object.btf {
            if btf.is_empty() {
                self.put(format_args!("; btf -"));
            }
            for chunk in btf.chunks(48) {
                self.put(format_args!("; btf {}", hex(chunk)));
            }
        }
    }
}
