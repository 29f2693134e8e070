//! Values that are more than bytes: hashes and sorted sets.
//!
//! ```text
//!   item in the heap: key, when it ends, kind, number --> table of objects --> Fields, SortedSet     memory of this process
//! ```
//!
//! They are in memory of this process and not in the heap, because programs do nothing with them: a program that meets the item of
//! one leaves the request to user space. [`crate::store`] finds them by key, counts their bytes, and evicts them as it does strings.

mod edit;
mod fields;
mod order;
mod sorted;

pub use edit::Edit;
pub use fields::Fields;
pub use sorted::SortedSet;

/// Bytes that an allocation of the process takes beyond those that were asked for.
const ALLOCATION_BYTES: u64 = 16;
/// Bytes of a place in a hash table: a number of 32 bits, a byte of its hash, and the places that are free.
const TABLE_BYTES: u64 = 8;

/// What a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Bytes, in the heap.
    String,
    /// [`Fields`].
    Hash,
    /// A [`SortedSet`].
    Sorted,
}

impl Kind {
    /// Its name in Redis' protocol.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::Sorted => "zset",
        }
    }
}

/// A value that is not in the heap.
pub enum Object {
    /// A hash.
    Hash(Fields),
    /// A sorted set.
    Sorted(SortedSet),
}

impl Object {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Object::Hash(_) => Kind::Hash,
            Object::Sorted(_) => Kind::Sorted,
        }
    }
}

/// A type of object.
pub trait Typed: Default {
    /// What it is.
    const KIND: Kind;
    /// The object, if it is of this type.
    fn of(object: &mut Object) -> Option<&mut Self>;
    /// The object that it becomes.
    fn into_object(self) -> Object;
    /// Elements.
    fn len(&self) -> usize;
    /// About how many bytes of memory it takes.
    fn bytes(&self) -> u64;
    /// Whether it has no elements. A key never has such an object.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// About how many bytes an element with so many bytes of text takes.
pub const fn element_bytes(text_bytes: usize) -> u64 {
    let fields = fields::Fields::element_bytes(text_bytes);
    let sorted = sorted::SortedSet::element_bytes(text_bytes);
    if fields > sorted { fields } else { sorted }
}
