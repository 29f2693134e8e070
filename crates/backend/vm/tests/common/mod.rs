//! Types of a map whose values have a lock.

/// `int`; `struct bpf_spin_lock { int val; }`; `struct { struct bpf_spin_lock lock; int a; int b; }`; `int work(void *)`.
pub fn locked_btf() -> String {
    let names = b"\0int\0bpf_spin_lock\0val\0value\0lock\0a\0b\0ctx\0work\0";
    let name = |wanted: &str| {
        let at = names.windows(wanted.len() + 1).position(|name| name == [wanted.as_bytes(), b"\0"].concat());
        at.expect("it is there") as u32
    };
    let words = [
        vec![name("int"), 1 << 24, 4, 1 << 24 | 32],
        vec![name("bpf_spin_lock"), 4 << 24 | 1, 4, name("val"), 1, 0],
        vec![name("value"), 4 << 24 | 3, 12, name("lock"), 2, 0, name("a"), 1, 32, name("b"), 1, 64],
        vec![0, 2 << 24, 0],
        vec![0, 13 << 24 | 1, 1, name("ctx"), 4],
        vec![name("work"), 12 << 24 | 1, 5],
    ];
    let types: Vec<u8> = words.concat().into_iter().flat_map(u32::to_le_bytes).collect();
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    for word in [24, 0, types.len() as u32, types.len() as u32, names.len() as u32] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(types);
    bytes.extend_from_slice(names);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
