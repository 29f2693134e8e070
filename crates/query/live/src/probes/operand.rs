//! Arguments of static probes, in the text that an assembler was given for each.
//!
//! ```text
//!             constant   register    memory
//!   x86-64    -4@$7      -4@%eax     8@-16(%rbp)   8@8(%rax,%rcx,4)     8@counter+4(%rip)
//!   arm64     -4@7       -4@x0       8@[sp, 12]    8@[x0, x1, lsl 3]
//! ```
//!
//! The kernel keeps the registers in `struct pt_regs`, for each processor under names of its own.

use object::read::elf::ElfFile64;
use object::{Architecture, Object as _};

use kiln_plan::programs::Argument;
use kiln_plan::table::{Read, Scalar};

/// Says how many bytes a symbol is behind the probe.
pub type Away<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// How a processor's assemblers write operands.
pub struct Assembler {
    /// The processor in a file's header.
    architecture: Architecture,
    /// Its name.
    pub name: &'static str,
    /// A constant.
    constant: fn(&str) -> Option<i64>,
    /// A register by one of its names, with how many of its bits are below those that the name means.
    register: fn(&str) -> Option<(Read, u8)>,
    /// The address of what is in memory.
    address: fn(&str, Away<'_>) -> Option<Read>,
}

/// The processors that are known.
pub const KNOWN: [Assembler; 2] = [
    Assembler {
        architecture: Architecture::X86_64,
        name: "x86-64",
        constant: |text| number(text.strip_prefix('$')?),
        register: |text| x86_64_register(text.strip_prefix('%')?),
        address: x86_64_address,
    },
    Assembler {
        architecture: Architecture::Aarch64,
        name: "arm64",
        constant: |text| number(text.strip_prefix('#').unwrap_or(text)),
        register: |text| Some((arm64_register(text)?, 0)),
        address: |text, _| arm64_address(text),
    },
];

impl Assembler {
    /// That of a file's processor, if it is known.
    pub fn of(elf: &ElfFile64<'_>) -> Option<&'static Assembler> {
        KNOWN.iter().find(|one| one.architecture == elf.architecture())
    }

    /// An argument: `SIZE@OPERAND`, where a size below 0 is one with a sign.
    pub fn argument(&self, text: &str, away: Away<'_>) -> Argument {
        let parsed = text.split_once('@').and_then(|(size, operand)| {
            let size: i8 = size.parse().ok()?;
            let bytes = size.unsigned_abs();
            let kind = matches!(bytes, 1 | 2 | 4 | 8).then_some(Scalar { bytes, signed: size < 0 })?;
            Some(Argument { read: self.operand(operand, kind, away)?, kind })
        });
        parsed.unwrap_or_else(|| {
            let why = format!("an argument that the program keeps in `{text}`, which is not understood");
            Argument { read: Read::Absent(why), kind: Scalar::unsigned(8) }
        })
    }

    fn operand(&self, text: &str, kind: Scalar, away: Away<'_>) -> Option<Read> {
        if let Some(constant) = (self.constant)(text) {
            let unused = 64 - 8 * u32::from(kind.bytes);
            let bits = constant << unused;
            return Some(Read::Constant(if kind.signed { bits >> unused } else { ((bits as u64) >> unused) as i64 }));
        }
        if let Some((register, skip)) = (self.register)(text) {
            return Some(Read::Cut { of: Box::new(register), skip, kind });
        }
        Some(Read::UserNumber { address: Box::new((self.address)(text, away)?), kind })
    }
}

/// The arguments of a probe, one after the other. Brackets have spaces of their own in them.
pub fn split(arguments: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    let is_between = move |character: char| {
        inside = (inside || character == '[') && character != ']';
        !inside && character.is_ascii_whitespace()
    };
    arguments.split(is_between).filter(|argument| !argument.is_empty())
}

/// A number as assemblers write it.
fn number(text: &str) -> Option<i64> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let number = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None if digits.starts_with(|digit: char| digit.is_ascii_digit()) => digits.parse().ok()?,
        None => return None,
    };
    Some(if is_negative { number.wrapping_neg() } else { number } as i64)
}

/// A register, by the kernel's name of it.
fn kept(name: &str) -> Read {
    Read::Field { structure: "pt_regs".to_owned(), name: name.to_owned() }
}

/// `-16(%rbp)`, `8(%rax,%rcx,4)`, `counter+4(%rip)`.
fn x86_64_address(text: &str, away: Away<'_>) -> Option<Read> {
    let (before, inside) = text.strip_suffix(')')?.split_once('(')?;
    let mut parts = inside.split(',').map(str::trim);
    let wide = |text: &str| text.strip_prefix('%').and_then(x86_64_register).map(|(register, _)| register);
    if inside == "%rip" {
        let at = before.find(['+', '-']).unwrap_or(before.len());
        let (symbol, more) = before.split_at(at);
        let more = if more.is_empty() { 0 } else { number(more.trim_start_matches('+'))? };
        return Some(Read::Sum { of: vec![(kept("ip"), 0)], more: (away(symbol)? as i64).wrapping_add(more) });
    }
    let more = if before.is_empty() { 0 } else { number(before)? };
    let base = parts.next().filter(|base| !base.is_empty());
    let index = parts.next();
    let scale = parts.next().map_or(Some(1), |scale| scale.parse::<u8>().ok())?;
    let shift = [1, 2, 4, 8].iter().position(|known| *known == scale)? as u8;
    let mut of = Vec::new();
    for (name, shift) in base.map(|base| (base, 0)).into_iter().chain(index.map(|index| (index, shift))) {
        of.push((wide(name)?, shift));
    }
    (!of.is_empty() && parts.next().is_none()).then_some(Read::Sum { of, more })
}

/// `eax`, `ah`, `r8d`.
fn x86_64_register(name: &str) -> Option<(Read, u8)> {
    /// The letters that are the same in all names of a register, and the kernel's name of it.
    const LEGACY: [(&str, &str); 8] =
        [("a", "ax"), ("b", "bx"), ("c", "cx"), ("d", "dx"), ("si", "si"), ("di", "di"), ("bp", "bp"), ("sp", "sp")];
    let numbered = |name: &str| {
        let digits = name.strip_prefix('r')?.trim_end_matches(['b', 'w', 'd']);
        let number: u8 = digits.parse().ok().filter(|number| (8..16).contains(number))?;
        let is_short = name.len() - 1 - digits.len() <= 1;
        is_short.then(|| kept(&format!("r{number}")))
    };
    if let Some(read) = numbered(name) {
        return Some((read, 0));
    }
    for (letters, kernel) in LEGACY {
        if name.len() == 2 && name.starts_with(letters) && name.ends_with('h') && letters.len() == 1 {
            return Some((kept(kernel), 8));
        }
        let low = format!("{letters}l");
        if name == low || name == kernel || [format!("e{kernel}"), format!("r{kernel}")].iter().any(|own| own == name) {
            return Some((kept(kernel), 0));
        }
    }
    None
}

/// `[x1]`, `[sp, 12]`, `[x29, #-8]`, `[x0, x1]`, `[x0, x1, lsl 3]`.
fn arm64_address(text: &str) -> Option<Read> {
    let mut parts = text.strip_prefix('[')?.strip_suffix(']')?.split(',').map(str::trim);
    let wide = |name: &str| if name.starts_with('w') { None } else { arm64_register(name) };
    let plain = |text: &str| number(text.strip_prefix('#').unwrap_or(text));
    let mut of = vec![(wide(parts.next()?)?, 0)];
    let mut more = 0;
    match (parts.next(), parts.next()) {
        (None, _) => {}
        (Some(second), None) => match plain(second) {
            Some(constant) => more = constant,
            None => of.push((wide(second)?, 0)),
        },
        (Some(index), Some(shift)) => {
            let shift = plain(shift.strip_prefix("lsl")?.trim_start())?;
            of.push((wide(index)?, u8::try_from(shift).ok().filter(|shift| *shift < 4)?));
        }
    }
    parts.next().is_none().then_some(Read::Sum { of, more })
}

/// `x0`, `w30`, `sp`.
fn arm64_register(name: &str) -> Option<Read> {
    if name == "sp" {
        return Some(kept(name));
    }
    let digits = name.strip_prefix(['x', 'w'])?;
    let number: u8 = digits.parse().ok().filter(|number| *number < 31)?;
    (digits == number.to_string()).then(|| kept(&format!("regs[{number}]")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> Read {
        Read::Field { structure: "pt_regs".to_owned(), name: name.to_owned() }
    }

    fn read(text: &str) -> Read {
        KNOWN[0].argument(text, &|symbol| (symbol == "counter").then_some(0x100)).read
    }

    fn read_arm64(text: &str) -> Read {
        KNOWN[1].argument(text, &|_| panic!("{text} has no symbol")).read
    }

    #[test]
    fn registers_have_several_names() {
        let cut = |name: &str, skip: u8, kind: Scalar| Read::Cut { of: Box::new(field(name)), skip, kind };
        for (text, wanted) in [
            ("8@%rdi", cut("di", 0, Scalar::unsigned(8))),
            ("-4@%eax", cut("ax", 0, Scalar::signed(4))),
            ("2@%bp", cut("bp", 0, Scalar::unsigned(2))),
            ("-1@%sil", cut("si", 0, Scalar::signed(1))),
            ("1@%ch", cut("cx", 8, Scalar::unsigned(1))),
            ("1@%al", cut("ax", 0, Scalar::unsigned(1))),
            ("-8@%r15", cut("r15", 0, Scalar::signed(8))),
            ("4@%r8d", cut("r8", 0, Scalar::unsigned(4))),
            ("1@%r9b", cut("r9", 0, Scalar::unsigned(1))),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn constants_have_their_size() {
        for (text, wanted) in [
            ("-4@$-7", -7),
            ("4@$-1", 0xffff_ffff),
            ("8@$0x10", 16),
            ("1@$300", 44),
            ("-1@$255", -1),
            ("8@$-1", -1),
            ("8@$18446744073709551615", -1),
        ] {
            assert_eq!(read(text), Read::Constant(wanted), "{text}");
        }
    }

    #[test]
    fn memory_is_at_sums() {
        let sum = |of: &[(&str, u8)], more: i64| {
            let of = of.iter().map(|(name, shift)| (field(name), *shift)).collect();
            Read::UserNumber { address: Box::new(Read::Sum { of, more }), kind: Scalar::signed(4) }
        };
        for (text, wanted) in [
            ("-4@-20(%rbp)", sum(&[("bp", 0)], -20)),
            ("-4@(%rax)", sum(&[("ax", 0)], 0)),
            ("-4@8(%rax,%rcx,4)", sum(&[("ax", 0), ("cx", 2)], 8)),
            ("-4@0(,%rdx,8)", sum(&[("dx", 3)], 0)),
            ("-4@(%rbx,%r12)", sum(&[("bx", 0), ("r12", 0)], 0)),
            ("-4@counter(%rip)", sum(&[("ip", 0)], 0x100)),
            ("-4@counter+4(%rip)", sum(&[("ip", 0)], 0x104)),
            ("-4@counter-4(%rip)", sum(&[("ip", 0)], 0xfc)),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for text in [
            "",
            "@",
            "8@",
            "%rdi",
            "3@%rdi",
            "-128@%rdi",
            "8@%xmm0",
            "8f@%rdi",
            "8@%rdx1",
            "1@%sih",
            "8@$",
            "8@$x",
            "8@$0x",
            "8@(%rdi",
            "8@()",
            "8@(,)",
            "8@(%rdi,%rsi,3)",
            "8@(%rdi,%rsi,4,1)",
            "8@x(%rdi)",
            "8@unknown(%rip)",
            "8@%fs:40",
            "8@counter",
            "8@%r16",
            "8@%r7",
            "8@%rbw",
            "8@%r8bb",
            "8@$-",
            "8@$+1",
        ] {
            let Read::Absent(why) = read(text) else { panic!("{text}: {:?}", read(text)) };
            assert!(why.contains(&format!("`{text}`")), "{why}");
        }
    }

    #[test]
    fn arguments_of_arm64_are_registers_constants_and_memory() {
        let cut = |name: &str, kind: Scalar| Read::Cut { of: Box::new(field(name)), skip: 0, kind };
        let memory = |of: &[(&str, u8)], more: i64, kind: Scalar| {
            let of = of.iter().map(|(name, shift)| (field(name), *shift)).collect();
            Read::UserNumber { address: Box::new(Read::Sum { of, more }), kind }
        };
        let [int, long] = [Scalar::signed(4), Scalar::unsigned(8)];
        for (text, wanted) in [
            ("8@x0", cut("regs[0]", long)),
            ("-4@x29", cut("regs[29]", int)),
            ("-4@w30", cut("regs[30]", int)),
            ("8@sp", cut("sp", long)),
            ("-4@7", Read::Constant(7)),
            ("-4@-9", Read::Constant(-9)),
            ("4@#-1", Read::Constant(0xffff_ffff)),
            ("8@0x10", Read::Constant(16)),
            ("8@[x1]", memory(&[("regs[1]", 0)], 0, long)),
            ("-4@[sp, 12]", memory(&[("sp", 0)], 12, int)),
            ("-4@[sp,12]", memory(&[("sp", 0)], 12, int)),
            ("-4@[x29, #-8]", memory(&[("regs[29]", 0)], -8, int)),
            ("8@[x0, x1]", memory(&[("regs[0]", 0), ("regs[1]", 0)], 0, long)),
            ("8@[x0, x1, lsl 3]", memory(&[("regs[0]", 0), ("regs[1]", 3)], 0, long)),
            ("8@[x0, x1, lsl #3]", memory(&[("regs[0]", 0), ("regs[1]", 3)], 0, long)),
        ] {
            assert_eq!(read_arm64(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_of_arm64_is_said() {
        for text in [
            "",
            "8@",
            "3@x0",
            "8@x31",
            "8@x00",
            "8@x",
            "8@d0",
            "8@xzr",
            "8@%x0",
            "8@$1",
            "8@#",
            "8@[]",
            "8@[x1",
            "8@[x1]!",
            "8@[x1], 8",
            "8@[w1]",
            "8@[x1, ]",
            "8@[x1, w2, uxtw 3]",
            "8@[x1, x2, lsl 4]",
            "8@[x1, x2, lsl -1]",
            "8@[x1, x2, lsl 3, 1]",
            "8@[x1, 8, lsl 3]",
            "8@[x0, #:lo12:counter]",
            "8@-16(%rbp)",
        ] {
            let Read::Absent(why) = read_arm64(text) else { panic!("{text}: {:?}", read_arm64(text)) };
            assert!(why.contains(&format!("`{text}`")), "{why}");
        }
    }

    #[test]
    fn brackets_have_spaces_in_them() {
        for (text, wanted) in [
            ("", &[][..]),
            (" 8@%rdi\t-4@$5 ", &["8@%rdi", "-4@$5"]),
            // What GCC writes for `driver/tests/query/probed/probed.c`.
            ("-4@[sp, 28] 1@x3 -2@x0 -4@-9", &["-4@[sp, 28]", "1@x3", "-2@x0", "-4@-9"]),
            ("8@[x0 8@x1", &["8@[x0 8@x1"]),
            ("8@x0] 8@x1", &["8@x0]", "8@x1"]),
        ] {
            assert_eq!(split(text).collect::<Vec<_>>(), wanted, "{text}");
        }
    }
}
