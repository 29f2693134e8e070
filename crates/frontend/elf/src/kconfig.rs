//! The kernel's configuration as values of the program (`extern int CONFIG_HZ __kconfig`).
//!
//! ```text
//!   extern bool CONFIG_BPF_JIT __kconfig;      CONFIG_BPF_JIT=y        1
//!   extern int CONFIG_HZ __kconfig;            CONFIG_HZ=250           250
//!   extern char CONFIG_LSM[64] __kconfig;      CONFIG_LSM="yama,bpf"   the text, zeros behind it
//!   extern int LINUX_KERNEL_VERSION __kconfig; no line of its own      (6 << 16) + (18 << 8) + 44
//! ```
//!
//! A loader fills them in and freezes them, so the kernel's verifier treats them as constants. Here the map's contents
//! are filled in by the rules of libbpf. Like CO-RE, this fits the object to one kernel.

use std::collections::HashMap;

use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{ExternKind, Map, MapContents, Object};

/// A kernel's configuration: `CONFIG_*` values as in its file (`y`, `250`, `"text"`), and the loader's own values
/// (`LINUX_*`) as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelConfig {
    values: HashMap<String, String>,
    /// Values that are not here are unknown; otherwise the kernel was configured without them.
    partial: bool,
}

impl KernelConfig {
    /// Reads the text of a configuration file.
    pub fn parse(text: &str) -> KernelConfig {
        let set = |line: &str| {
            let (name, value) = line.split_once('=')?;
            name.starts_with("CONFIG_").then(|| (name.to_owned(), value.trim_end().to_owned()))
        };
        KernelConfig { values: text.lines().filter_map(set).collect(), partial: false }
    }

    /// A configuration of which nothing is known yet.
    pub fn unknown() -> KernelConfig {
        KernelConfig { partial: true, ..KernelConfig::default() }
    }

    /// Whether the kernel was built with an option, as far as that is known.
    pub fn is_set(&self, option: &str) -> bool {
        self.partial || self.values.get(option).is_some_and(|value| value == "y")
    }

    /// Adds a value that is not in the file.
    pub fn with_number(mut self, name: &str, value: u64) -> KernelConfig {
        self.values.insert(name.to_owned(), value.to_string());
        self
    }
}

/// Why configuration values are not filled in.
enum Unfilled {
    /// The object or the configuration does not say enough.
    Unknown,
    /// libbpf does not load the object.
    Refused(String),
}

/// Fills in the configuration values that the object declares, if all values that it needs are known and fit their
/// declarations. Returns whether they did.
pub fn resolve_kconfig(object: &mut Object, config: &KernelConfig) -> bool {
    let Some(map) = object.maps.iter().position(is_open) else { return object.btf.is_some() };
    let Ok(bytes) = filled(object, map, config) else { return false };
    object.maps[map].value_size = bytes.len() as u32;
    object.maps[map].contents = MapContents::ReadOnly(bytes);
    true
}

/// Returns why libbpf does not load an object into the kernel with this configuration: one of its values is not there,
/// or does not fit its declaration. `None` if the values are filled in, or not known.
pub fn refused_kconfig(object: &Object, config: &KernelConfig) -> Option<String> {
    let map = object.maps.iter().position(is_open)?;
    match filled(object, map, config) {
        Err(Unfilled::Refused(why)) => Some(why),
        _ => None,
    }
}

fn is_open(map: &Map) -> bool {
    matches!(map.contents, MapContents::Kconfig(_))
}

fn filled(object: &Object, map: usize, config: &KernelConfig) -> Result<Vec<u8>, Unfilled> {
    let btf = object.btf.as_deref().and_then(|bytes| Btf::parse(bytes).ok()).ok_or(Unfilled::Unknown)?;
    let MapContents::Kconfig(size) = object.maps[map].contents else { return Err(Unfilled::Unknown) };
    let mut bytes = vec![0; size as usize];
    for symbol in &object.externs {
        let ExternKind::Kconfig { map: of, offset } = symbol.kind else { continue };
        let place = bytes.get_mut(offset as usize..).filter(|_| of.index() == map).ok_or(Unfilled::Unknown)?;
        let name = &symbol.name;
        let of_loader = !name.starts_with("CONFIG_");
        match config.values.get(name) {
            Some(value) => fill(&btf, TypeId(symbol.btf_id), (value, of_loader), place).ok_or_else(|| {
                Unfilled::Refused(format!("{name} is {value} in this kernel, which does not fit its declared type"))
            })?,
            None if config.partial && !of_loader => return Err(Unfilled::Unknown),
            None if symbol.weak && (!of_loader || name.starts_with("LINUX_")) => {}
            None => return Err(Unfilled::Refused(format!("this kernel's configuration has no {name}"))),
        }
    }
    Ok(bytes)
}

/// Writes a value as its declaration says. The loader's own values, all numbers, may also be truth values.
fn fill(btf: &Btf, declaration: TypeId, (value, of_loader): (&str, bool), place: &mut [u8]) -> Option<()> {
    let declared = match *btf.kind(declaration) {
        Kind::Variable { target, .. } => btf.resolve(target)?,
        _ => return None,
    };
    let size = usize::try_from(btf.size_of(declared)?).ok()?;
    let place = place.get_mut(..size)?;
    let number = match (value, btf.kind(declared)) {
        ("y" | "n" | "m", Kind::Int { boolean: true, .. }) if value != "m" => u64::from(value == "y"),
        ("y" | "n" | "m", Kind::Enum { .. }) => match value {
            "n" => 0,
            "y" => 1,
            _ => 2,
        },
        ("y" | "n" | "m", Kind::Int { boolean: false, size: 1, .. }) => u64::from(*value.as_bytes().first()?),
        (_, Kind::Array { element, .. }) if btf.size_of(*element) == Some(1) => {
            let text = value.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
            // The last byte stays zero.
            let kept = text.len().min(size.checked_sub(1)?);
            place[..kept].copy_from_slice(&text[..kept]);
            return Some(());
        }
        (_, Kind::Int { boolean: false, size: 1..=8, .. }) => number(value)?,
        ("0" | "1", Kind::Int { boolean: true, size: 1, .. }) if of_loader => number(value)?,
        _ => return None,
    };
    let bytes = number.to_le_bytes();
    let fits = match btf.kind(declared) {
        _ if size == 8 => true,
        Kind::Int { signed: true, .. } => number.wrapping_add(1 << (8 * size - 1)) >> (8 * size) == 0,
        _ => number >> (8 * size) == 0,
    };
    place.copy_from_slice(bytes.get(..size).filter(|_| fits)?);
    Some(())
}

/// A number as C writes it.
fn number(text: &str) -> Option<u64> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok()?,
        None => text.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use kiln_program::btf::{Btf, TypeId};

    use super::{KernelConfig, fill, number};

    #[test]
    fn lines_of_a_configuration_file() {
        let config = KernelConfig::parse("# CONFIG_A is not set\nCONFIG_B=y\nCONFIG_C=\"a=b\"\nOTHER=1\n");
        let config = config.with_number("LINUX_KERNEL_VERSION", 0x6_1202);
        let value = |name: &str| config.values.get(name).map(String::as_str);
        assert_eq!((value("CONFIG_A"), value("OTHER")), (None, None));
        assert_eq!((value("CONFIG_B"), value("CONFIG_C")), (Some("y"), Some("\"a=b\"")));
        assert_eq!(value("LINUX_KERNEL_VERSION"), Some("397826"));
    }

    #[test]
    fn numbers_as_c_writes_them() {
        assert_eq!((number("250"), number("0xdead"), number("-1")), (Some(250), Some(0xdead), Some(u64::MAX)));
        assert_eq!((number(""), number("y"), number("0x")), (None, None, None));
    }

    /// The types of a number of some bytes and of an extern variable with it.
    fn number_of(bytes: u32, signed: bool) -> Btf {
        let types = [1, 1 << 24, bytes, 8 * bytes | u32::from(signed) << 24, 1, 14 << 24, 1, 2];
        let header = [0x1_eb9f, 24, 0, 4 * types.len() as u32, 4 * types.len() as u32, 3];
        let words = header.iter().chain(&types).flat_map(|word| word.to_le_bytes());
        Btf::parse(&words.chain(*b"\0x\0").collect::<Vec<u8>>()).expect("types")
    }

    #[test]
    fn numbers_have_eight_bytes_at_most() {
        let filled = |bytes, signed| fill(&number_of(bytes, signed), TypeId(2), ("250", false), &mut [0; 16]);
        assert_eq!([1, 2, 8, 16].map(|bytes| filled(bytes, false)), [Some(()), Some(()), Some(()), None]);
        assert_eq!([1, 2, 8, 16].map(|bytes| filled(bytes, true)), [None, Some(()), Some(()), None]);
    }
}
