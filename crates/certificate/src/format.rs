//! A certificate as text.
//!
//! ```text
//! kiln certificate 2
//! bind original.bpf 9f86d081884c...       what the certificate belongs to: a name, and the SHA-256 of its bytes
//! stage                                   the next listing, as a difference from the one before
//! keep 41
//! drop 2
//! add   r3 = r7
//! keep 120
//! function 2                              a function that changed, and where the two versions meet
//! left-out 17 31                          calls that the new one does not make
//! pair 12 10 equal 6,7,9 differ -16,-15 same o3 n8 ffffffffffffffff range o2 u 0 ff
//! end
//! ```
//!
//! Places are `o3` and `n3` (R3 of the old and the new function) and `os-16:4`, `ns-16:4` (four bytes of a frame).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::relation::{Claim, Order, Place, Relation, Side, Target};
use crate::walk::Pair;

/// The first line.
pub const HEADER: &str = "kiln certificate 2";
/// Maximum size of a certificate's text in bytes.
pub const MAX_BYTES: usize = 64 << 20;
/// Maximum number of claims at one pair.
const MAX_CLAIMS: usize = 4096;

/// One line of a difference, or several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// This many lines stay.
    Keep(usize),
    /// This many lines are removed.
    Drop(usize),
    /// A line is added.
    Add(String),
}

/// The claims about a function that a stage changes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Proof {
    /// The relation at each meeting pair.
    pub pairs: BTreeMap<Pair, Relation>,
    /// Positions of calls that only the old version makes.
    pub left_out: BTreeSet<u32>,
}

/// A listing, and the proof that it may replace the one before.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Stage {
    /// How the listing differs from the one before.
    pub edits: Vec<Edit>,
    /// A proof of each function that changes.
    pub proofs: BTreeMap<u32, Proof>,
}

/// The whole chain.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Certificate {
    /// What it belongs to: names, and digests in hexadecimal digits.
    pub bound: BTreeMap<String, String>,
    /// From the original to the optimized listing.
    pub stages: Vec<Stage>,
}

impl Stage {
    /// The listing after the stage.
    ///
    /// # Errors
    /// Returns where the difference does not fit the listing.
    pub fn apply(&self, before: &str) -> Result<String, String> {
        let mut lines = before.lines();
        let mut after = String::with_capacity(before.len());
        let misfit = || "a difference is longer than its listing".to_owned();
        for edit in &self.edits {
            match edit {
                Edit::Keep(count) => {
                    for _ in 0..*count {
                        after.push_str(lines.next().ok_or_else(misfit)?);
                        after.push('\n');
                    }
                }
                Edit::Drop(count) => {
                    for _ in 0..*count {
                        lines.next().ok_or_else(misfit)?;
                    }
                }
                Edit::Add(line) => {
                    after.push_str(line);
                    after.push('\n');
                }
            }
        }
        if lines.next().is_some() {
            return Err("a difference ends before its listing".to_owned());
        }
        Ok(after)
    }
}

impl Certificate {
    /// A chain that is bound to nothing.
    pub fn of(stages: Vec<Stage>) -> Certificate {
        Certificate { bound: BTreeMap::new(), stages }
    }

    /// Writes it as text.
    pub fn print(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (name, digest) in &self.bound {
            let _ = writeln!(text, "bind {name} {digest}");
        }
        for stage in &self.stages {
            text.push_str("stage\n");
            for edit in &stage.edits {
                // Writing to a string cannot fail.
                let _ = match edit {
                    Edit::Keep(count) => writeln!(text, "keep {count}"),
                    Edit::Drop(count) => writeln!(text, "drop {count}"),
                    Edit::Add(line) => writeln!(text, "add {line}"),
                };
            }
            for (function, proof) in &stage.proofs {
                let _ = writeln!(text, "function {function}");
                if !proof.left_out.is_empty() {
                    let _ = writeln!(text, "left-out {}", list(&proof.left_out, " "));
                }
                for ((old, new), relation) in &proof.pairs {
                    let _ = writeln!(text, "pair {old} {new}{}", print_relation(relation));
                }
            }
        }
        text.push_str("end\n");
        text
    }

    /// Reads it from text.
    ///
    /// # Errors
    /// Returns the line that is not of a certificate.
    pub fn parse(text: &str) -> Result<Certificate, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("a certificate has no more than {MAX_BYTES} bytes"));
        }
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(HEADER) {
            return Err(format!("a certificate begins with {HEADER:?}"));
        }
        let mut reader = Reader::default();
        for (number, line) in lines {
            if reader.ended {
                return Err(format!("line {}: something follows the end", number + 1));
            }
            reader.line(line).ok_or_else(|| {
                let shown: String = line.chars().take(80).collect();
                format!("line {}: {shown:?} is none of a certificate", number + 1)
            })?;
        }
        if !reader.ended {
            return Err("the certificate is cut off: it has no end".to_owned());
        }
        Ok(reader.certificate)
    }
}

#[derive(Default)]
struct Reader {
    certificate: Certificate,
    function: Option<u32>,
    ended: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "stage" if rest.is_empty() => {
                self.certificate.stages.push(Stage::default());
                self.function = None;
                return Some(());
            }
            "end" if rest.is_empty() => {
                self.ended = true;
                return Some(());
            }
            "bind" if self.certificate.stages.is_empty() => {
                let (name, digest) = rest.split_once(' ')?;
                let sound = digest.len() == 64 && digest.bytes().all(|digit| digit.is_ascii_hexdigit());
                let bound = &mut self.certificate.bound;
                return (sound && bound.insert(name.to_owned(), digest.to_owned()).is_none()).then_some(());
            }
            _ => {}
        }
        let stage = self.certificate.stages.last_mut()?;
        match (word, self.function) {
            ("keep", None) => stage.edits.push(Edit::Keep(rest.parse().ok()?)),
            ("drop", None) => stage.edits.push(Edit::Drop(rest.parse().ok()?)),
            ("add", None) => stage.edits.push(Edit::Add(rest.to_owned())),
            ("function", _) => {
                let function = rest.parse().ok()?;
                self.function = Some(function);
                return stage.proofs.insert(function, Proof::default()).is_none().then_some(());
            }
            ("left-out", Some(function)) => {
                let numbers: Option<BTreeSet<u32>> = rest.split(' ').map(|number| number.parse().ok()).collect();
                stage.proofs.get_mut(&function)?.left_out = numbers?;
            }
            ("pair", Some(function)) => {
                let mut words = rest.split(' ');
                let pair = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                let relation = relation(&mut words)?;
                return stage.proofs.get_mut(&function)?.pairs.insert(pair, relation).is_none().then_some(());
            }
            _ => return None,
        }
        Some(())
    }
}

fn list<T: ToString>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(between)
}

/// How ranges are written.
const ORDERS: [(&str, Order); 4] =
    [("u", Order::Unsigned), ("s", Order::Signed), ("u32", Order::Unsigned32), ("s32", Order::Signed32)];

fn print_relation(relation: &Relation) -> String {
    let mut text = String::new();
    let equal = (0..10).filter(|number| relation.equal >> number & 1 == 1);
    if relation.equal != 0 {
        let _ = write!(text, " equal {}", list(equal, ","));
    }
    if !relation.differ.is_empty() {
        let _ = write!(text, " differ {}", list(&relation.differ, ","));
    }
    for claim in &relation.claims {
        let _ = match *claim {
            Claim::Same(one, other, bits) => write!(text, " same {} {} {bits:x}", print_place(one), print_place(other)),
            Claim::Bits(place, bits, value) => write!(text, " bits {} {bits:x} {value:x}", print_place(place)),
            Claim::Frame(place, offset) => write!(text, " frame {} {offset}", print_place(place)),
            Claim::Address(place, target, offset) => {
                let (kind, number) = match target {
                    Target::Map(number) => ("map", number),
                    Target::Section(number) => ("section", number),
                    Target::Function(number) => ("function", number),
                    Target::Extern(number) => ("extern", number),
                };
                write!(text, " address {} {kind} {number} {offset}", print_place(place))
            }
            Claim::Range(place, order, low, high) => {
                let order = ORDERS.iter().find(|(_, own)| *own == order).map_or("", |(name, _)| name);
                write!(text, " range {} {order} {low:x} {high:x}", print_place(place))
            }
            Claim::Below(one, other, distance) => {
                write!(text, " below {} {} {distance}", print_place(one), print_place(other))
            }
        };
    }
    text
}

fn print_place(place: Place) -> String {
    let letter = |side: Side| if side == Side::Old { 'o' } else { 'n' };
    match place {
        Place::Register(side, number) => format!("{}{number}", letter(side)),
        Place::Frame(side, at, bytes) => format!("{}s{at}:{bytes}", letter(side)),
    }
}

fn place(text: &str) -> Option<Place> {
    let side = match text.chars().next()? {
        'o' => Side::Old,
        'n' => Side::New,
        _ => return None,
    };
    match text[1..].strip_prefix('s') {
        Some(slot) => {
            let (at, bytes) = slot.split_once(':')?;
            Some(Place::Frame(side, at.parse().ok()?, bytes.parse().ok()?))
        }
        None => Some(Place::Register(side, text[1..].parse().ok()?)),
    }
}

fn relation<'t>(words: &mut impl Iterator<Item = &'t str>) -> Option<Relation> {
    let mut relation = Relation::default();
    while let Some(word) = words.next() {
        let mut next = || words.next();
        let hex = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
        let claim = match word {
            "equal" => {
                for number in next()?.split(',') {
                    let number: u16 = number.parse().ok().filter(|number| *number < 10)?;
                    relation.equal |= 1 << number;
                }
                continue;
            }
            "differ" => {
                for at in next()?.split(',') {
                    relation.differ.insert(at.parse().ok().filter(|at| (-2048..0).contains(at))?);
                }
                continue;
            }
            "same" => Claim::Same(place(next()?)?, place(next()?)?, hex(next())?),
            "below" => Claim::Below(place(next()?)?, place(next()?)?, next()?.parse().ok()?),
            "bits" => Claim::Bits(place(next()?)?, hex(next())?, hex(next())?),
            "frame" => Claim::Frame(place(next()?)?, next()?.parse().ok()?),
            "address" => {
                let own = place(next()?)?;
                let (kind, number) = (next()?, next()?.parse().ok()?);
                let target = match kind {
                    "map" => Target::Map(number),
                    "section" => Target::Section(number),
                    "function" => Target::Function(number),
                    "extern" => Target::Extern(number),
                    _ => return None,
                };
                Claim::Address(own, target, next()?.parse().ok()?)
            }
            "range" => {
                let own = place(next()?)?;
                let name = next()?;
                let (_, order) = *ORDERS.iter().find(|(own, _)| *own == name)?;
                Claim::Range(own, order, hex(next())?, hex(next())?)
            }
            _ => return None,
        };
        relation.claims.push(claim);
        if relation.claims.len() > MAX_CLAIMS {
            return None;
        }
    }
    Some(relation)
}
