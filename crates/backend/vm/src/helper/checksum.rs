//! Internet checksums (RFC 1071): one's complement sums, in the byte order they are in memory.

use super::answer::{Answer, refuse, value};
use crate::errno::Errno;
use crate::packet::Checksum;
use crate::state::State;

/// Adds with the carry coming back in.
pub fn add(one: u32, other: u32) -> u32 {
    let (sum, carry) = one.overflowing_add(other);
    sum + u32::from(carry)
}

fn subtract(one: u32, other: u32) -> u32 {
    add(one, !other)
}

/// Folds to 16 bits and complements.
pub fn fold(sum: u32) -> u16 {
    !fold_plain(sum)
}

fn fold_plain(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum + (sum >> 16)) as u16
}

fn add16(one: u16, other: u16) -> u16 {
    let (sum, carry) = one.overflowing_add(other);
    sum.wrapping_add(carry.into())
}

/// The sum of bytes, starting from `seed`.
pub fn partial(bytes: &[u8], seed: u32) -> u32 {
    let mut sum = u64::from(seed);
    for chunk in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        sum += u64::from(u32::from_le_bytes(word));
    }
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    ((sum & 0xffff_ffff) + (sum >> 32)) as u32
}

fn replace_by_difference(sum: u16, difference: u32) -> u16 {
    fold(add(difference, u32::from(!sum)))
}

fn replace4(sum: u16, from: u32, to: u32) -> u16 {
    fold(add(subtract(u32::from(!sum), from), to))
}

fn replace2(sum: u16, from: u16, to: u16) -> u16 {
    !add16(add16(!sum, !from), to)
}

/// The field's size in the flags' lowest bits: 0 (a difference), 2 or 4.
const SIZE_MASK: u64 = 0xf;

/// The address of the 16-bit checksum at an offset, checked as the kernel does.
fn place(state: &State, offset: u64) -> Result<u64, Errno> {
    let offset = offset as u32;
    if offset > 0xffff || offset & 1 != 0 {
        return Err(Errno::EFAULT);
    }
    state.packet.range(offset, 2)
}

fn read(state: &State, at: u64) -> Result<u16, kiln_program::interpret::Fault> {
    Ok(u16::from_le_bytes(state.bytes(at, 2)?[..].try_into().unwrap_or_default()))
}

pub fn l3_replace(state: &mut State, [_, offset, from, to, flags]: [u64; 5]) -> Answer {
    if flags & !SIZE_MASK != 0 {
        return refuse(Errno::EINVAL);
    }
    let at = match place(state, offset) {
        Ok(at) => at,
        Err(errno) => return refuse(errno),
    };
    let sum = read(state, at)?;
    let replaced = match flags {
        0 if from == 0 => replace_by_difference(sum, to as u32),
        2 => replace2(sum, from as u16, to as u16),
        4 => replace4(sum, from as u32, to as u32),
        _ => return refuse(Errno::EINVAL),
    };
    state.write(at, &replaced.to_le_bytes())?;
    value(0)
}

pub fn l4_replace(state: &mut State, [_, offset, from, to, flags]: [u64; 5]) -> Answer {
    const PSEUDO_HEADER: u64 = 1 << 4;
    const MARK_MANGLED_0: u64 = 1 << 5;
    const MARK_ENFORCE: u64 = 1 << 6;
    const IPV6: u64 = 1 << 7;
    /// What a checksum of 0 is sent as, where 0 means none (UDP).
    const MANGLED_0: u16 = 0xffff;
    if flags & !(SIZE_MASK | PSEUDO_HEADER | MARK_MANGLED_0 | MARK_ENFORCE | IPV6) != 0 {
        return refuse(Errno::EINVAL);
    }
    let at = match place(state, offset) {
        Ok(at) => at,
        Err(errno) => return refuse(errno),
    };
    let sum = read(state, at)?;
    if flags & MARK_MANGLED_0 != 0 && flags & MARK_ENFORCE == 0 && sum == 0 {
        return value(0);
    }
    let mut replaced = match flags & SIZE_MASK {
        0 if from == 0 => replace_by_difference(sum, to as u32),
        2 => replace4(sum, u32::from(from as u16), u32::from(to as u16)),
        4 => replace4(sum, from as u32, to as u32),
        _ => return refuse(Errno::EINVAL),
    };
    if flags & MARK_MANGLED_0 != 0 && replaced == 0 {
        replaced = MANGLED_0;
    }
    state.write(at, &replaced.to_le_bytes())?;
    value(0)
}

/// `bpf_csum_diff`: the sum of `to` less that of `from`, from a seed; folded to 16 bits since Linux 6.13.
pub fn difference(state: &mut State, [from, from_size, to, to_size, seed]: [u64; 5]) -> Answer {
    let (from_size, to_size, seed) = (from_size as u32, to_size as u32, seed as u32);
    if (from_size | to_size) & 3 != 0 {
        return refuse(Errno::EINVAL);
    }
    let old = state.bytes(from, from_size.into())?;
    let new = state.bytes(to, to_size.into())?;
    let sum = match (from_size, to_size) {
        (0, 0) => seed,
        (0, _) => partial(&new, seed),
        (_, 0) => !partial(&old, !seed),
        _ => subtract(partial(&new, seed), partial(&old, 0)),
    };
    value(fold_plain(sum).into())
}

/// The test run's packets carry no complete checksum to update.
pub fn update(_: &mut State, _: [u64; 5]) -> Answer {
    refuse(Errno::ENOTSUPP)
}

pub fn level(state: &mut State, [_, level, ..]: [u64; 5]) -> Answer {
    const MAX_LEVEL: u8 = 3;
    let checksum = state.packet.checksum_mut();
    *checksum = match (level, *checksum) {
        (0, Checksum::Unnecessary { level: 0 }) => return value(0),
        (0, Checksum::Unnecessary { level }) => return value(level.into()),
        (0, Checksum::None) => return refuse(Errno::EACCES),
        (1, Checksum::Unnecessary { level }) => Checksum::Unnecessary { level: (level + 1).min(MAX_LEVEL) },
        (1, Checksum::None) => Checksum::Unnecessary { level: 0 },
        (2, Checksum::Unnecessary { level }) if level > 0 => Checksum::Unnecessary { level: level - 1 },
        (2 | 3, _) => Checksum::None,
        _ => return refuse(Errno::EINVAL),
    };
    value(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071, section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2 (big-endian).
    #[test]
    fn sums_as_the_standard() {
        let sum = fold_plain(partial(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0));
        assert_eq!(sum.to_le_bytes(), [0xdd, 0xf2]);
    }

    #[test]
    fn replacing_equals_recomputing() {
        let mut header = [0x45, 0, 0, 0x54, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = fold(partial(&header, 0));
        let old = u32::from_le_bytes([10, 0, 0, 2]);
        let new = u32::from_le_bytes([192, 168, 7, 9]);
        header[16..].copy_from_slice(&[192, 168, 7, 9]);
        assert_eq!(replace4(sum, old, new), fold(partial(&header, 0)));
    }
}
