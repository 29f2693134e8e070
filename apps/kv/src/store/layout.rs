//! Where things are in the heap: `apps/kv/bpf/store.h` in numbers. The tests let either side read what the other one wrote.

/// The first word of `struct kv_state`, `KV_MAGIC`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"KILNKV01");

/// Offsets in `struct kv_state`.
pub mod state {
    /// The address of the first bucket.
    pub const BUCKETS: usize = 8;
    /// Buckets, less one.
    pub const MASK: usize = 16;
    /// The seed of the hash.
    pub const SEED: usize = 24;
    /// Milliseconds of the store's clock.
    pub const NOW: usize = 32;
    /// Bytes of all items.
    pub const BYTES: usize = 40;
    /// All items.
    pub const ITEMS: usize = 48;
    /// Bytes beyond which programs add no item.
    pub const MOST_BYTES: usize = 56;
    /// The UDP port, in network order.
    pub const PORT: usize = 64;
    /// The IPv4 address, in network order.
    pub const ADDRESS: usize = 72;
    /// The counters of the first CPU.
    pub const CPU: usize = 128;
    /// Bytes of a CPU's counters: gets, hits, sets, passed.
    pub const CPU_BYTES: usize = 64;
    /// CPUs.
    pub const CPUS: usize = 64;
    /// Bytes of it all.
    pub const ALL: usize = CPU + CPUS * CPU_BYTES;
}

/// Offsets in `struct kv_bucket`.
pub mod bucket {
    /// The lock.
    pub const LOCK: usize = 0;
    /// The address of the first item.
    pub const FIRST: usize = 8;
    /// Counts changes.
    pub const VERSION: usize = 16;
    /// Bytes of a bucket.
    pub const ALL: usize = 32;
}

/// Offsets in `struct kv_item`.
pub mod item {
    /// The address of the next item.
    pub const NEXT: usize = 0;
    /// The key's hash.
    pub const HASH: usize = 8;
    /// The change of the bucket that made it.
    pub const CAS: usize = 16;
    /// When it ends, in milliseconds of the store's clock; 0: never.
    pub const EXPIRES: usize = 24;
    /// The key's bytes, and in the upper half those of the text.
    pub const SIZES: usize = 32;
    /// The value's bytes and [`super::mark`], or [`OBJECT`] with its kind and number; in the upper half whether it was used.
    pub const VALUE: usize = 40;
    /// `KV_OBJECT`: the value is not in the heap, and programs leave requests for it to user space.
    pub const OBJECT: u64 = 1 << 31;
    /// With [`OBJECT`]: it is a sorted set, and not a hash.
    pub const SORTED: u64 = 1 << 30;
    /// The bits of the value's bytes.
    pub const VALUE_BYTES: u64 = (1 << 26) - 1;
    /// The text.
    pub const TEXT: usize = 48;
}

/// What memcached's meta commands know of an item: bits beside the value's bytes.
pub mod mark {
    /// The key is no text: it came in base64.
    pub const BINARY: u32 = 1 << 26;
    /// A client has asked for it since it was stored. `KV_FETCHED`.
    pub const FETCHED: u32 = 1 << 27;
    /// A client was told to make the value anew.
    pub const SENT: u32 = 1 << 28;
    /// The value is out of date.
    pub const STALE: u32 = 1 << 29;
    /// All of them.
    pub const ALL: u32 = BINARY | FETCHED | SENT | STALE;
}
