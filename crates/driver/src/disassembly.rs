//! Machine code as text, by disassemblers that know nothing of the JITs.

use kiln_isa::operation::Arch;
use serde::Serialize;

use kiln_inspect::hex::hex;
use kiln_inspect::show::shown::Shown;

/// A machine instruction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MachineInsn {
    /// Where it begins, in bytes from the beginning of the program's code.
    pub offset: usize,
    /// Its bytes, in hexadecimal.
    pub bytes: Shown,
    /// The instruction, in Intel's or Arm's syntax. Targets of branches are offsets like [`MachineInsn::offset`].
    pub text: Shown,
}

/// The instructions of `bytes`, of which the first is at `offset`. What cannot be decoded is shown as `(bad)`.
pub fn disassemble(arch: Arch, bytes: &[u8], offset: usize) -> Vec<MachineInsn> {
    match arch {
        Arch::X86_64 => x86_64(bytes, offset),
        Arch::Aarch64 => aarch64(bytes, offset),
    }
}

fn machine_insn(offset: usize, bytes: &[u8], text: String) -> MachineInsn {
    MachineInsn { offset, bytes: hex(bytes).into(), text: text.into() }
}

fn x86_64(bytes: &[u8], offset: usize) -> Vec<MachineInsn> {
    use iced_x86::{Decoder, DecoderOptions, Formatter as _, IntelFormatter};
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(false);
    options.set_show_branch_size(false);
    let decoder = Decoder::with_ip(64, bytes, offset as u64, DecoderOptions::NONE);
    let insns = decoder.into_iter().map(|insn| {
        let mut text = String::new();
        formatter.format(&insn, &mut text);
        let at = insn.ip() as usize;
        machine_insn(at, &bytes[at - offset..at - offset + insn.len()], text)
    });
    insns.collect()
}

fn aarch64(bytes: &[u8], offset: usize) -> Vec<MachineInsn> {
    use yaxpeax_arch::{Decoder as _, U8Reader};
    let decoder = yaxpeax_arm::armv8::a64::InstDecoder::default();
    let words = bytes.chunks(4).enumerate().map(|(index, word)| {
        let at = offset + 4 * index;
        let text = decoder.decode(&mut U8Reader::new(word)).map(|insn| insn.to_string());
        machine_insn(at, word, text.map_or_else(|_| "(bad)".to_owned(), |text| absolute(&text, at)))
    });
    words.collect()
}

/// A distance such as `$-0x10` as the offset that it leads to.
fn absolute(text: &str, at: usize) -> String {
    let Some((head, distance)) = text.rsplit_once('$') else { return text.to_owned() };
    let (negative, digits) = match distance.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, distance.trim_start_matches('+')),
    };
    let Ok(distance) = u64::from_str_radix(digits.trim_start_matches("0x"), 16) else { return text.to_owned() };
    let target = if negative { (at as u64).wrapping_sub(distance) } else { at as u64 + distance };
    format!("{head}{target:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(arch: Arch, bytes: &[u8]) -> Vec<String> {
        disassemble(arch, bytes, 0x20).iter().map(|insn| insn.text.to_string()).collect()
    }

    #[test]
    fn instructions_are_named_and_targets_are_offsets() {
        let bytes = [0x8b, 0x47, 0x04, 0x85, 0xc0, 0x74, 0xf9, 0xc4, 0xe3, 0x7b, 0xf0, 0xc2, 0x1c, 0xc3];
        let expected = ["mov eax, [rdi+4]", "test eax, eax", "je 0x20", "rorx eax, edx, 0x1c", "ret"];
        assert_eq!(texts(Arch::X86_64, &bytes), expected);
        let words: [u32; 4] = [0xb9400407, 0xd503201f, 0xb5ffffc9, 0xd65f03c0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(texts(Arch::Aarch64, &bytes), ["ldr w7, [x0, #0x4]", "nop", "cbnz x9, 0x20", "ret"]);
    }

    #[test]
    fn what_is_no_instruction_is_shown_as_bad() {
        assert_eq!(texts(Arch::X86_64, &[0x06]), ["(bad)"]);
        assert_eq!(texts(Arch::Aarch64, &[0x1f, 0x20, 0x03, 0xd5, 1, 2]), ["nop", "(bad)"]);
    }
}
