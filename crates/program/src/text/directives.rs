//! Directives: lines that declare maps, programs, functions, source lines and relocations.

use kiln_platform::limits::MAX_INNER_MAPS;
use kiln_platform::{AttachType, MapType, ProgramType};

use super::error::TextError;
use super::parse::{Late, Parser};
use super::words::{Words, unhex};
use crate::object::{
    CoreId, CoreRelocation, Extern, ExternKind, FunctionId, LineId, Linkage, Map, MapContents, MapId, Program,
    SourceLine,
};

impl Parser<'_> {
    /// Reads a directive.
    pub(super) fn directive(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
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
            "table" => self.table(words)?,
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
                    "expected a directive (object, license, version, map, inner, extern, program, function, table, \
                     line, core, insn, next_insn, btf) or `key: value`; comments begin with `#`",
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
        let mut program = Program::new("", "", program_type, FunctionId(0));
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

    fn table(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        words.next_raw();
        let (line, column) = words.position();
        let map = words.convert("a map's name", |word| Some(word.to_owned()))?;
        let mut labels = Vec::new();
        while let Some(label) = words.peek() {
            words.next_raw();
            labels.push(label.to_owned());
        }
        let function = self.function_index();
        self.late.push((Late::Table { function, map, labels }, line, column));
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
