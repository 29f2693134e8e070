//! The heaps of loaded extensions, in the VM and the kernel: supplied before a run, accounted for after it.

use kiln_platform::MapType;
use kiln_program::{Map, Object};
use kiln_sandbox::supply::{self, Accounts, Memory, SUPPLY_BYTES};
use serde::Serialize;

use crate::error::Error;
use crate::show::shown::Shown;

/// What the allocator of a heap has given out.
#[derive(Clone, Debug, Serialize)]
pub struct HeapState {
    /// The heap's map.
    pub name: Shown,
    /// Its accounts.
    pub accounts: Accounts,
}

/// A heap in the kernel.
pub(crate) struct KernelHeap<'o>(pub kiln_linux::Heap<'o>);

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

    fn populate(&self, offset: usize, bytes: usize) -> Result<(), String> {
        self.0.populate(offset, bytes).map_err(|error| error.to_string())
    }
}

/// A heap in the VM.
pub(crate) struct VmHeap<'v>(pub kiln_vm::Heap<'v>);

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

    fn populate(&self, _: usize, _: usize) -> Result<(), String> {
        Ok(())
    }
}

/// `ENOMEM`.
const ENOMEM: i32 = 12;

/// Gives the allocator of each of an object's heaps memory, where it has one.
///
/// # Errors
/// [`Error::Os`] if memory runs out.
pub(crate) fn supply_all<'h>(
    object: &Object,
    open: &dyn Fn(&str) -> Option<Box<dyn Memory + 'h>>,
) -> Result<(), Error> {
    for (map, heap) in heaps(object, open) {
        let failed = |reason: String| Error::Os {
            call: "supplying the heap".to_owned(),
            errno: ENOMEM,
            advice: format!(" ({reason})"),
        };
        supply::supply(&*heap, supply::variable_bytes(map), SUPPLY_BYTES).map_err(failed)?;
    }
    Ok(())
}

/// Returns the accounts of each of an object's heaps that has an allocator.
pub(crate) fn states<'h>(object: &Object, open: &dyn Fn(&str) -> Option<Box<dyn Memory + 'h>>) -> Vec<HeapState> {
    let state = |(map, heap): (&Map, Box<dyn Memory + 'h>)| {
        Some(HeapState { name: map.name.clone().into(), accounts: supply::accounts(&*heap)? })
    };
    heaps(object, open).into_iter().filter_map(state).collect()
}

fn heaps<'o, 'h>(
    object: &'o Object,
    open: &dyn Fn(&str) -> Option<Box<dyn Memory + 'h>>,
) -> Vec<(&'o Map, Box<dyn Memory + 'h>)> {
    let arenas = object.maps.iter().filter(|map| map.map_type == MapType::Arena);
    arenas.filter_map(|map| Some((map, open(&map.name)?))).collect()
}
