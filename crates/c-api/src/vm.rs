//! The VM: loading, runs, maps.

use std::ffi::{c_char, c_void};

use ::kiln_vm::{Options, UpdateFlag, Vm, prepare};

use crate::failure::{Failure, guard, kiln_status};
use crate::helper::{helpers, kiln_helper};
use crate::object::kiln_object;
use crate::pointer;

/// A VM: the maps of one object, and its programs that were loaded. Threads may run programs and use maps at once; while
/// [`kiln_vm_load`] or [`kiln_vm_free`] has it, nobody else may.
pub struct kiln_vm {
    vm: Vm,
}

/// Makes a VM, with helpers of one's own if there are any.
///
/// # Safety
/// `object` is an object, `helpers` an array of `count` helpers, `vm` a place for a handle. The functions of the helpers
/// may be called with their data by any thread that runs a program, as long as the VM lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_vm_new(
    object: *const kiln_object,
    helpers: *const kiln_helper,
    count: usize,
    vm: *mut *mut kiln_vm,
) -> kiln_status {
    guard(|| {
        // SAFETY: an object, an array and what belongs to it, as the caller promises.
        let (object, own_helpers) = unsafe {
            let list = pointer::slice(helpers, count, "the helpers")?;
            (&pointer::reference(object, "the object")?.input.object, self::helpers(list)?)
        };
        let options = Options { own_helpers, ..Options::default() };
        let made = Vm::new(&prepare(object.clone(), &options), options)?;
        // SAFETY: a place for a handle, as the caller promises.
        unsafe { pointer::give_handle(vm, kiln_vm { vm: made }) }
    })
}

/// Verifies and compiles a program, and those that its tail calls may lead to. Gives its number for [`kiln_vm_run`].
///
/// # Safety
/// `vm` is a VM that nobody else uses now, `name` a string, `program` a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_vm_load(vm: *mut kiln_vm, name: *const c_char, program: *mut usize) -> kiln_status {
    guard(|| {
        // SAFETY: a VM and a string, as the caller promises.
        let (vm, name) = unsafe { (pointer::exclusive(vm, "the VM")?, pointer::text(name, "the program's name")?) };
        vm.vm.load_needed(name)?;
        let number = vm.vm.program(name)?.number();
        // SAFETY: a place for a number, as the caller promises.
        unsafe { pointer::give(program, "the place for the program's number", number) }
    })
}

/// Runs a program on a packet in place, and gives R0. A packet whose length changes is `KILN_INVALID_INPUT` and stays as
/// it was.
///
/// # Safety
/// `vm` is a VM, `packet` has `size` bytes that nobody else uses now, `result` is null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_vm_run(
    vm: *const kiln_vm,
    program: usize,
    packet: *mut c_void,
    size: usize,
    result: *mut u64,
) -> kiln_status {
    guard(|| {
        // SAFETY: a VM and bytes, as the caller promises.
        let (vm, packet) =
            unsafe { (pointer::reference(vm, "the VM")?, pointer::bytes_mut(packet, size, "the packet")?) };
        let value = vm.vm.program_at(program)?.run(packet)?;
        // SAFETY: null or a place for a number, as the caller promises.
        if result.is_null() { Ok(()) } else { unsafe { pointer::give(result, "the place for R0", value) } }
    })
}

/// Runs a program without packets on a context in place, and gives R0.
///
/// # Safety
/// As [`kiln_vm_run`], with the context for the packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_vm_run_context(
    vm: *const kiln_vm,
    program: usize,
    context: *mut c_void,
    size: usize,
    result: *mut u64,
) -> kiln_status {
    guard(|| {
        // SAFETY: a VM and bytes, as the caller promises.
        let (vm, context) =
            unsafe { (pointer::reference(vm, "the VM")?, pointer::bytes_mut(context, size, "the context")?) };
        let value = vm.vm.program_at(program)?.run_context(context)?;
        // SAFETY: null or a place for a number, as the caller promises.
        if result.is_null() { Ok(()) } else { unsafe { pointer::give(result, "the place for R0", value) } }
    })
}

/// A map of a VM, with its sizes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct kiln_map {
    /// Its number.
    pub index: u32,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value; per-CPU maps have one after the other for each CPU.
    pub value_size: u32,
    /// Entries at most.
    pub max_entries: u32,
}

/// Finds a map by name.
///
/// # Safety
/// `vm` is a VM, `name` a string, `map` a place for a map.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_vm_map(vm: *const kiln_vm, name: *const c_char, map: *mut kiln_map) -> kiln_status {
    guard(|| {
        // SAFETY: a VM and a string, as the caller promises.
        let (vm, name) = unsafe { (pointer::reference(vm, "the VM")?, pointer::text(name, "the map's name")?) };
        let id = vm.vm.map(name)?;
        let definition = vm.vm.definition(id).ok_or_else(|| Failure::invalid("the map is gone"))?;
        let found = kiln_map {
            index: id.0,
            key_size: definition.key_size,
            value_size: definition.value_size,
            max_entries: definition.max_entries,
        };
        // SAFETY: a place for a map, as the caller promises.
        unsafe { pointer::give(map, "the place for the map", found) }
    })
}

/// Copies the value of a key, in all its bytes. `KILN_INVALID_INPUT` if there is no entry, or sizes are not the map's.
///
/// # Safety
/// `vm` is a VM, `key` and `value` have the sizes that go with them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_vm_lookup(
    vm: *const kiln_vm,
    map: u32,
    key: *const c_void,
    key_size: usize,
    value: *mut c_void,
    value_size: usize,
) -> kiln_status {
    guard(|| {
        // SAFETY: a VM and bytes, as the caller promises.
        let (vm, key, value) = unsafe {
            let key = pointer::bytes(key, key_size, "the key")?;
            (pointer::reference(vm, "the VM")?, key, pointer::bytes_mut(value, value_size, "the value")?)
        };
        check_key(&vm.vm, map, key)?;
        let found =
            vm.vm.look_up(map_id(map), key)?.ok_or_else(|| Failure::invalid("there is no entry with this key"))?;
        if found.len() != value.len() {
            return Err(Failure::invalid(format!("a value has {} bytes, not {}", found.len(), value.len())));
        }
        value.copy_from_slice(&found);
        Ok(())
    })
}

/// Sets the value of a key.
///
/// # Safety
/// `vm` is a VM, `key` and `value` have the sizes that go with them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_vm_update(
    vm: *const kiln_vm,
    map: u32,
    key: *const c_void,
    key_size: usize,
    value: *const c_void,
    value_size: usize,
) -> kiln_status {
    guard(|| {
        // SAFETY: a VM and bytes, as the caller promises.
        let (vm, key, value) = unsafe {
            let key = pointer::bytes(key, key_size, "the key")?;
            (pointer::reference(vm, "the VM")?, key, pointer::bytes(value, value_size, "the value")?)
        };
        check_key(&vm.vm, map, key)?;
        Ok(vm.vm.update(map_id(map), key, value, UpdateFlag::Any)?)
    })
}

/// Removes the entry of a key.
///
/// # Safety
/// `vm` is a VM, `key` has `key_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_vm_delete(
    vm: *const kiln_vm,
    map: u32,
    key: *const c_void,
    key_size: usize,
) -> kiln_status {
    guard(|| {
        // SAFETY: a VM and bytes, as the caller promises.
        let (vm, key) = unsafe { (pointer::reference(vm, "the VM")?, pointer::bytes(key, key_size, "the key")?) };
        check_key(&vm.vm, map, key)?;
        Ok(vm.vm.delete(map_id(map), key)?)
    })
}

fn map_id(map: u32) -> kiln_program::MapId {
    kiln_program::MapId(map)
}

fn check_key(vm: &Vm, map: u32, key: &[u8]) -> Result<(), Failure> {
    let definition = vm.definition(map_id(map)).ok_or_else(|| Failure::invalid(format!("there is no map {map}")))?;
    if definition.key_size as usize == key.len() {
        return Ok(());
    }
    Err(Failure::invalid(format!("a key has {} bytes, not {}", definition.key_size, key.len())))
}

/// Frees a VM; null is none.
///
/// # Safety
/// `vm` is null or a VM that was not freed and that nobody uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_vm_free(vm: *mut kiln_vm) {
    // SAFETY: as the caller promises.
    unsafe { pointer::free(vm) }
}
