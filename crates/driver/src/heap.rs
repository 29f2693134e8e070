//! The heaps of loaded extensions, in the VM and the kernel: supplied before a run, accounted for after it.

use kiln_platform::MapType;
use kiln_program::{Map, Object};
use kiln_sandbox::supply::{self, Accounts, Memory, NoMemory, SUPPLY_BYTES};
use serde::Serialize;

use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// What a heap takes, and what its allocator has given out.
#[derive(Clone, Debug, Serialize)]
pub struct HeapState {
    /// The heap's map.
    pub name: Shown,
    /// Its size: the memory that it may take.
    pub bytes: u64,
    /// The memory that it takes, in the VM: pages that were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// What the allocator has given out, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accounts: Option<Accounts>,
}

/// A heap in the kernel.
pub struct KernelHeap<'o>(pub kiln_linux::Heap<'o>);

impl Memory for KernelHeap<'_> {
    fn address(&self) -> u64 {
        self.0.address()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn load(&self, offset: usize) -> Option<u64> {
        self.0.load(offset)
    }

    fn store(&self, offset: usize, value: u64) -> Option<()> {
        self.0.store(offset, value)
    }

    fn compare_exchange(&self, offset: usize, expected: u64, new: u64) -> Option<u64> {
        self.0.compare_exchange(offset, expected, new)
    }

    fn populate(&self, offset: usize, bytes: usize) -> Result<(), NoMemory> {
        self.0.populate(offset, bytes).map_err(|error| match error {
            kiln_linux::Error::Os { call, errno } => NoMemory::Os { call, errno },
            other => NoMemory::Damaged(other.to_string()),
        })
    }
}

/// A heap in the VM.
pub struct VmHeap<'v>(pub kiln_vm::Heap<'v>);

impl Memory for VmHeap<'_> {
    fn address(&self) -> u64 {
        self.0.address()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    fn load(&self, offset: usize) -> Option<u64> {
        self.0.load(offset)
    }

    fn store(&self, offset: usize, value: u64) -> Option<()> {
        self.0.store(offset, value)
    }

    fn compare_exchange(&self, offset: usize, expected: u64, new: u64) -> Option<u64> {
        self.0.compare_exchange(offset, expected, new)
    }

    fn populate(&self, _: usize, _: usize) -> Result<(), NoMemory> {
        Ok(())
    }

    fn resident_bytes(&self) -> Option<u64> {
        self.0.resident_bytes()
    }
}

/// Supplies memory to the allocator of each of an object's heaps that has one.
///
/// # Errors
/// [`Error::Os`] if memory runs out, [`Error::Limit`] if variables take all of the heap, [`Error::InvalidInput`] if the
/// object's allocator begins in a state that is not the header's.
pub(crate) fn supply_all<'h>(
    object: &Object,
    open: &dyn Fn(&str) -> Option<Box<dyn Memory + 'h>>,
) -> Result<(), Error> {
    for (map, heap) in heaps(object, open).into_iter().filter(|(map, _)| supply::has_allocator(map)) {
        let failed = |error: NoMemory| match error {
            NoMemory::Full => Error::Limit(format!("the heap {} is full of variables", map.name)),
            NoMemory::Damaged(reason) => Error::InvalidInput(format!("the heap {}: {reason}", map.name)),
            NoMemory::Os { call, errno } => Error::os(format!("memory for the heap {}: {call}", map.name), errno),
        };
        supply::supply(&*heap, supply::variable_bytes(map), SUPPLY_BYTES).map_err(failed)?;
    }
    Ok(())
}

/// Returns the state of each of an object's heaps.
pub(crate) fn states<'h>(object: &Object, open: &dyn Fn(&str) -> Option<Box<dyn Memory + 'h>>) -> Vec<HeapState> {
    let state = |(map, heap): (&Map, Box<dyn Memory + 'h>)| HeapState {
        name: map.name.clone().into(),
        bytes: heap.bytes() as u64,
        resident_bytes: heap.resident_bytes(),
        accounts: supply::has_allocator(map).then(|| supply::accounts(&*heap)).flatten(),
    };
    heaps(object, open).into_iter().map(state).collect()
}

fn heaps<'o, 'h>(
    object: &'o Object,
    open: &dyn Fn(&str) -> Option<Box<dyn Memory + 'h>>,
) -> Vec<(&'o Map, Box<dyn Memory + 'h>)> {
    let arenas = object.maps.iter().filter(|map| map.map_type == MapType::Arena);
    arenas.filter_map(|map| Some((map, open(&map.name)?))).collect()
}
