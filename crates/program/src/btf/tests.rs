//! Hand-made tables, hostile ones among them, and the running kernel's own.

use std::sync::Arc;

use super::{Btf, Kind, TypeId};

/// A section of these type words and strings.
fn section(types: &[u32], strings: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    for word in [24, 0, 4 * types.len() as u32, 4 * types.len() as u32, strings.len() as u32] {
        bytes.extend(word.to_le_bytes());
    }
    for word in types {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(strings);
    bytes
}

const INT: u32 = 1 << 24;
const POINTER: u32 = 2 << 24;
const ARRAY: u32 = 3 << 24;
const STRUCT: u32 = 4 << 24;
const TYPEDEF: u32 = 8 << 24;

#[test]
fn sizes_and_members() {
    // [1] u32, [2] struct key { u32 a; u32 b[3]; }, [3] u32[3], [4] typedef struct key other
    let types = [
        1,
        INT,
        4,
        32, //
        5,
        STRUCT | 2,
        16,
        9,
        1,
        0,
        11,
        3,
        32, //
        0,
        ARRAY,
        0,
        1,
        1,
        3, //
        13,
        TYPEDEF,
        2,
    ];
    let btf = Btf::parse(&section(&types, b"\0u32\0key\0a\0b\0other\0")).unwrap();
    assert_eq!(btf.type_count(), 5);
    let other = btf.find("other", |_| true).unwrap();
    assert_eq!(btf.size_of(other), Some(16));
    assert_eq!(btf.align_of(other), Some(4));
    assert_eq!(btf.resolve(other), Some(TypeId(2)));
    let names: Vec<_> = btf.members(TypeId(2)).iter().map(|member| btf.text(member.name)).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(btf.size_of(TypeId(3)), Some(12));
}

#[test]
fn split_tables_continue_their_base() {
    let base = Arc::new(Btf::parse(&section(&[1, INT, 4, 32], b"\0u32\0")).unwrap());
    // String offsets go on at 5: "ptr" names nothing here, the typedef's name is at 5.
    let split = Btf::parse_split(&section(&[0, POINTER, 1, 5, TYPEDEF, 2], b"handle\0"), base).unwrap();
    let handle = split.find("handle", |_| true).unwrap();
    assert_eq!(handle, TypeId(3));
    assert_eq!(split.size_of(handle), Some(8));
    assert_eq!(split.find("u32", |_| true), Some(TypeId(1)));
}

#[test]
fn types_that_contain_themselves_have_no_size() {
    // [1] typedef of itself, [2] array of itself, [3] struct { [3] a; } states its size, but has no alignment.
    let types = [1, TYPEDEF, 1, 0, ARRAY, 0, 2, 2, 1000, 0, STRUCT | 1, 8, 1, 3, 0];
    let btf = Btf::parse(&section(&types, b"\0a\0")).unwrap();
    assert_eq!(btf.size_of(TypeId(1)), None);
    assert_eq!(btf.resolve(TypeId(1)), None);
    assert_eq!(btf.size_of(TypeId(2)), None);
    assert_eq!(btf.align_of(TypeId(3)), None);
}

#[test]
fn malformed_tables_are_refused() {
    let good = section(&[1, INT, 4, 32], b"\0u32\0");
    for length in 0..good.len() {
        assert!(Btf::parse(&good[..length]).is_err(), "truncated to {length} bytes");
    }
    let refused = |types: &[u32], strings: &[u8]| Btf::parse(&section(types, strings)).unwrap_err().message;
    assert!(refused(&[9, INT, 4, 32], b"\0u32\0").contains("string table"));
    assert!(refused(&[1, 31 << 24, 4], b"\0u32\0").contains("kind 31"));
    assert!(refused(&[1, POINTER, 7], b"\0u32\0").contains("type 7 does not exist"));
    assert!(refused(&[1, STRUCT | 0xffff, 4], b"\0u32\0").contains("65535 items"));
    assert!(refused(&[1, INT, 4, 32], b"\0u32").contains("zero byte"));
    let mut overlapping = good.clone();
    overlapping[16..20].copy_from_slice(&0u32.to_le_bytes());
    assert!(Btf::parse(&overlapping).is_err());
}

#[test]
fn the_running_kernels_types() {
    let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
        println!("skipped: this kernel exports no BTF");
        return;
    };
    let btf = Btf::parse(&bytes).unwrap();
    let task = btf.find("task_struct", |kind| matches!(kind, Kind::Composite { .. })).unwrap();
    assert!(btf.members(task).iter().any(|member| btf.text(member.name) == "pid"));
    let socket_buffer = btf.find("__sk_buff", |kind| matches!(kind, Kind::Composite { .. })).unwrap();
    assert_eq!(btf.size_of(socket_buffer), Some(192));
    assert_eq!(btf.align_of(socket_buffer), Some(8));
}
