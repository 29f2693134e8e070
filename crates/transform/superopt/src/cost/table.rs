//! Cost models are data: a line a class of instructions, a line a helper, in nanoseconds.
//!
//! ```text
//!   # Measured by `kiln bench --profile` ...
//!   machine x86-64
//!   insn multiply 1.07
//!   helper map_lookup_elem 3.4
//!   helper map_lookup_elem on percpu_hash 5.1
//!   helper * 20
//!   event typed-hook 14
//! ```
//!
//! The lines of events say what queries cost beside their programs' instructions ([`EventPart`]).
//!
//! What a file does not name costs what the table of this kind of machine says. [`CostModel::parse`] takes files from
//! anyone: what is no such line, or no time, is an error with its line, never a guess.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_isa::{CallTarget, Insn};
use kiln_platform::{Helper, MapType};

use super::{Class, EventPart};

/// What a run of each instruction costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CostModel {
    /// The kind of machine.
    pub machine: String,
    /// Picoseconds of each class, in the order of [`Class::ALL`].
    classes: Vec<u64>,
    /// Picoseconds of helpers, by number.
    helpers: BTreeMap<u32, u64>,
    /// Picoseconds of helpers on maps of one type, by number and the type's name.
    helpers_on: BTreeMap<(u32, &'static str), u64>,
    /// Picoseconds of all others.
    other_helpers: u64,
    /// Picoseconds of each part of an event, in the order of [`EventPart::ALL`].
    events: Vec<u64>,
}

/// Why a file is not a cost model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadModel {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// The table of each kind of machine that Kiln comes with; the first is for those without one.
const TABLES: &[(&str, &str)] =
    &[("x86-64", include_str!("../../costs/x86-64.cost")), ("arm64", include_str!("../../costs/arm64.cost"))];

/// Nanoseconds that one instruction or helper may take at most.
const MOST_NS: f64 = 1e9;

impl Default for CostModel {
    fn default() -> CostModel {
        CostModel::of_machine(if cfg!(target_arch = "aarch64") { "arm64" } else { "x86-64" })
    }
}

impl CostModel {
    /// Bytes of a file at most.
    pub const MAX_BYTES: usize = 1 << 20;

    /// The model that Kiln comes with for a kind of machine; that of x86-64 for those it has none for.
    pub fn of_machine(machine: &str) -> CostModel {
        let (_, text) = TABLES.iter().find(|(name, _)| *name == machine).unwrap_or(&TABLES[0]);
        let nothing = CostModel {
            machine: machine.to_owned(),
            classes: vec![0; Class::ALL.len()],
            helpers: BTreeMap::new(),
            helpers_on: BTreeMap::new(),
            other_helpers: 0,
            events: vec![0; EventPart::ALL.len()],
        };
        nothing.read(text).expect("the tables in the source are well formed, as a test says")
    }

    /// Reads a model. Classes that it does not name cost what the table of its machine says.
    ///
    /// # Errors
    /// [`BadModel`] with the first bad line.
    pub fn parse(text: &str) -> Result<CostModel, BadModel> {
        if text.len() > CostModel::MAX_BYTES {
            return Err(BadModel {
                line: 1,
                what: format!("more than {} bytes are no cost model", CostModel::MAX_BYTES),
            });
        }
        let machine = text.lines().find_map(|line| line.trim().strip_prefix("machine ")).map(str::trim);
        machine.map_or_else(CostModel::default, CostModel::of_machine).read(text)
    }

    fn read(mut self, text: &str) -> Result<CostModel, BadModel> {
        let mut rows = 0;
        for (index, line) in text.lines().enumerate() {
            let bad = |what: String| BadModel { line: index + 1, what };
            let line = line.split('#').next().unwrap_or("").trim();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => continue,
                ["machine", machine] => self.machine = machine.chars().take(40).collect(),
                ["insn", name, time] => {
                    let class = Class::ALL.iter().position(|class| class.name() == name);
                    let class = class.ok_or_else(|| bad(unknown_class(name)))?;
                    self.classes[class] = picoseconds(time).map_err(bad)?;
                }
                ["helper", "*", time] => self.other_helpers = picoseconds(time).map_err(bad)?,
                ["helper", name, time] => {
                    let helper = Helper::by_name(name);
                    let helper = helper.ok_or_else(|| bad(format!("there is no helper {name:.60}")))?;
                    self.helpers.insert(helper.id, picoseconds(time).map_err(bad)?);
                }
                ["helper", name, "on", map_type, time] => {
                    let helper = Helper::by_name(name);
                    let helper = helper.ok_or_else(|| bad(format!("there is no helper {name:.60}")))?;
                    let map_type = MapType::from_name(map_type);
                    let map_type = map_type.ok_or_else(|| bad("there is no such map type".to_owned()))?;
                    self.helpers_on.insert((helper.id, map_type.name()), picoseconds(time).map_err(bad)?);
                }
                ["event", name, time] => {
                    let part = EventPart::ALL.iter().position(|part| part.name() == name);
                    let part = part.ok_or_else(|| bad(format!("events have no part {name:.60}")))?;
                    self.events[part] = picoseconds(time).map_err(bad)?;
                }
                _ => {
                    let wanted = "`machine NAME`, `insn CLASS NANOSECONDS`, `helper NAME [on MAP] NANOSECONDS` or `event PART NANOSECONDS`";
                    return Err(bad(format!("{line:.60?} is not {wanted}")));
                }
            }
            rows += 1;
        }
        match rows {
            0 => Err(BadModel { line: 1, what: "it says nothing".to_owned() }),
            _ => Ok(self),
        }
    }

    /// Sets what a class costs.
    pub fn set_class(&mut self, class: Class, picoseconds: u64) {
        self.classes[class as usize] = picoseconds;
    }

    /// Sets what a helper costs.
    pub fn set_helper(&mut self, id: u32, picoseconds: u64) {
        self.helpers.insert(id, picoseconds);
    }

    /// Sets what a helper costs on maps of one type.
    pub fn set_helper_on(&mut self, id: u32, map_type: MapType, picoseconds: u64) {
        self.helpers_on.insert((id, map_type.name()), picoseconds);
    }

    /// What a helper costs, in picoseconds; on maps of one type, if that is known.
    pub fn helper(&self, id: u32, map_type: Option<MapType>) -> u64 {
        let on = map_type.and_then(|map_type| self.helpers_on.get(&(id, map_type.name())));
        on.or_else(|| self.helpers.get(&id)).copied().unwrap_or(self.other_helpers)
    }

    /// Sets what a part of an event costs.
    pub fn set_event(&mut self, part: EventPart, picoseconds: u64) {
        self.events[part as usize] = picoseconds;
    }

    /// What a part of an event costs, in picoseconds.
    pub fn event(&self, part: EventPart) -> u64 {
        self.events[part as usize]
    }

    /// Sets what helpers without a row cost.
    pub fn set_other_helpers(&mut self, picoseconds: u64) {
        self.other_helpers = picoseconds;
    }

    /// What a class costs, in picoseconds.
    pub fn class(&self, class: Class) -> u64 {
        self.classes[class as usize]
    }

    /// What an instruction costs, in picoseconds; of a call of a subprogram, the call and the return.
    pub fn picoseconds(&self, insn: &Insn) -> u64 {
        match (Class::of(insn), insn) {
            // Half of the time it is taken, which is a jump.
            (Some(Class::Branch), _) => self.class(Class::Branch) + self.class(Class::Jump) / 2,
            (Some(class), _) => self.class(class),
            (None, Insn::Call(CallTarget::Helper(id))) => self.helper(*id, None),
            (None, _) => 0,
        }
    }

    /// The model as a file.
    pub fn to_text(&self) -> String {
        let ns = |picoseconds: u64| picoseconds as f64 / 1000.0;
        let mut text = format!("machine {}\n", self.machine);
        for class in Class::ALL {
            let _ = writeln!(text, "insn {} {:.3}", class.name(), ns(self.class(*class)));
        }
        for (id, time) in &self.helpers {
            if let Some(helper) = Helper::by_id(*id) {
                let _ = writeln!(text, "helper {} {:.3}", helper.name, ns(*time));
            }
        }
        for ((id, map_type), time) in &self.helpers_on {
            if let Some(helper) = Helper::by_id(*id) {
                let _ = writeln!(text, "helper {} on {map_type} {:.3}", helper.name, ns(*time));
            }
        }
        let _ = writeln!(text, "helper * {:.3}", ns(self.other_helpers));
        for part in EventPart::ALL {
            let _ = writeln!(text, "event {} {:.3}", part.name(), ns(self.event(*part)));
        }
        text
    }
}

fn unknown_class(name: &str) -> String {
    let names: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
    format!("there is no class {name:.60}; they are {}", names.join(", "))
}

fn picoseconds(text: &str) -> Result<u64, String> {
    let ns: f64 = text.parse().map_err(|_| format!("{text:.60} is no number of nanoseconds"))?;
    if !(0.0..=MOST_NS).contains(&ns) {
        return Err(format!("{text:.60} nanoseconds: between 0 and {MOST_NS} may be"));
    }
    Ok((ns * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_in_the_source_are_whole() {
        for (machine, text) in TABLES {
            let model = CostModel::of_machine(machine);
            assert_eq!(model.machine, *machine);
            assert_eq!(CostModel::parse(&model.to_text()).as_ref(), Ok(&model));
            for class in Class::ALL {
                assert!(text.contains(&format!("insn {} ", class.name())), "{machine} lacks {}", class.name());
            }
            for part in EventPart::ALL {
                assert!(text.contains(&format!("event {} ", part.name())), "{machine} lacks {}", part.name());
            }
            assert!(text.contains("helper * "), "{machine} lacks other helpers");
        }
    }

    #[test]
    fn what_is_no_model_is_refused_with_its_line() {
        let refused = |text: &str| CostModel::parse(text).expect_err("it is no model");
        assert_eq!(refused("").line, 1);
        assert_eq!(refused("machine x86-64\n\ninsn alu fast").line, 3);
        assert_eq!(refused("insn alu -1").line, 1);
        assert_eq!(refused("insn alu NaN").line, 1);
        assert_eq!(refused("insn alu 1e300").line, 1);
        assert_eq!(refused("insn adder 1").line, 1);
        assert_eq!(refused("# fine\nhelper no_such_helper 1").line, 2);
        assert_eq!(refused("\u{0}\u{1}\u{2}").line, 1);
        assert_eq!(refused(&"x".repeat(CostModel::MAX_BYTES + 1)).line, 1);
    }

    #[test]
    fn a_file_overrides_the_table() {
        let model =
            CostModel::parse("machine arm64\ninsn multiply 77 # dear\nhelper map_lookup_elem 5").expect("a model");
        let table = CostModel::of_machine("arm64");
        assert_eq!(model.class(Class::Multiply), 77_000);
        assert_eq!(model.class(Class::Alu), table.class(Class::Alu));
        assert_eq!(model.picoseconds(&Insn::Call(CallTarget::Helper(1))), 5_000);
    }
}
