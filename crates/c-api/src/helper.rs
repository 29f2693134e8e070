//! Helpers that a C program adds.

use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};

use kiln_platform::FIRST_OWN_HELPER;
use kiln_platform::{ArgKind, Helper, Memory};
use kiln_vm::{Call, OwnHelper};

use crate::failure::{Failure, guard, kiln_status};
use crate::pointer;

/// What an argument of a helper must be.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum kiln_argument_kind {
    /// Any number.
    KILN_INTEGER = 0,
    /// The program's context.
    KILN_CONTEXT = 1,
    /// Memory that the helper reads, its size in the next argument.
    KILN_READ = 2,
    /// Memory that the helper writes whole, its size in the next argument.
    KILN_WRITE = 3,
    /// The size, from 1, of the memory in the argument before.
    KILN_SIZE = 4,
    /// `size` bytes that the helper reads.
    KILN_READ_FIXED = 5,
    /// `size` bytes that the helper writes whole.
    KILN_WRITE_FIXED = 6,
}

/// An argument of a helper.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_argument {
    /// A `kiln_argument_kind`.
    pub kind: u32,
    /// Bytes, for the kinds with a fixed size; else 0.
    pub size: u32,
}

/// A call of a helper. It exists only while the helper runs.
pub struct kiln_call {
    /// To the call that [`Target::call`] borrows; its real lifetime is that of the helper's run.
    call: *mut Call<'static>,
}

/// The function of a helper: it gets the `data` of its declaration and the call, and returns R0. Threads may run it at
/// once. It must return: no `longjmp`, no C++ exception.
pub type kiln_helper_function = Option<unsafe extern "C" fn(data: *mut c_void, call: *mut kiln_call) -> u64>;

/// A helper that programs may call besides the kernel's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct kiln_helper {
    /// The number in the call instruction, from 65536 on.
    pub id: u32,
    /// Its name, for messages.
    pub name: *const c_char,
    /// What its arguments must be.
    pub arguments: *const kiln_argument,
    /// How many there are, 5 at most.
    pub argument_count: usize,
    /// Its function.
    pub function: kiln_helper_function,
    /// Passed to its function. Lives as long as the VM.
    pub data: *mut c_void,
}

/// What a helper's function is called with.
struct Target {
    function: unsafe extern "C" fn(*mut c_void, *mut kiln_call) -> u64,
    data: *mut c_void,
}

// SAFETY: whoever makes a VM with this helper promises that any thread may call the function with the data.
unsafe impl Send for Target {}
// SAFETY: as above, several threads at once.
unsafe impl Sync for Target {}

impl Target {
    fn call(&self, call: &mut Call<'_>) -> u64 {
        let mut call = kiln_call { call: std::ptr::from_mut(call).cast() };
        // SAFETY: the function and its data go together, as whoever made the VM promised; the call is live.
        unsafe { (self.function)(self.data, &raw mut call) }
    }
}

/// The helpers of a list.
///
/// # Safety
/// Names are strings, arguments arrays of their counts; functions may be called with their data from any thread as long
/// as the result lives.
pub(crate) unsafe fn helpers(list: &[kiln_helper]) -> Result<Vec<OwnHelper>, Failure> {
    let own = list.iter().map(|helper| {
        // SAFETY: a string and an array, as the caller promises.
        let (name, arguments) = unsafe {
            let arguments = pointer::slice(helper.arguments, helper.argument_count, "a helper's arguments")?;
            (pointer::text(helper.name, "a helper's name")?, arguments)
        };
        let function = helper.function.ok_or_else(|| Failure::invalid(format!("helper {name} has no function")))?;
        if helper.id < FIRST_OWN_HELPER || arguments.len() > 5 {
            let what = format!("helper {name}: numbers begin at {FIRST_OWN_HELPER}, arguments are 5 at most");
            return Err(Failure::invalid(what));
        }
        let arguments = arguments.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        let target = Target { function, data: helper.data };
        Ok(OwnHelper::new(declaration(helper.id, name, &arguments), move |call| target.call(call)))
    });
    own.collect()
}

fn kind(argument: &kiln_argument) -> Result<ArgKind, Failure> {
    use kiln_argument_kind as C;
    let fixed = |memory| ArgKind::FixedMemory { size: argument.size, memory, aligned: false };
    let kinds = [
        (C::KILN_INTEGER, ArgKind::Anything),
        (C::KILN_CONTEXT, ArgKind::Context),
        (C::KILN_READ, ArgKind::Memory(Memory::READ)),
        (C::KILN_WRITE, ArgKind::Memory(Memory::WRITE_UNINIT)),
        (C::KILN_SIZE, ArgKind::Size { zero_allowed: false }),
        (C::KILN_READ_FIXED, fixed(Memory::READ)),
        (C::KILN_WRITE_FIXED, fixed(Memory::WRITE_UNINIT)),
    ];
    let found = kinds.into_iter().find(|(kind, _)| *kind as u32 == argument.kind);
    found.map(|(_, kind)| kind).ok_or_else(|| Failure::invalid(format!("no argument has the kind {}", argument.kind)))
}

/// A declaration, which the verifier wants to live forever: equal ones are made once.
fn declaration(id: u32, name: &str, arguments: &[ArgKind]) -> &'static Helper {
    static KNOWN: Mutex<Vec<&'static Helper>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |it: &&&'static Helper| it.id == id && it.name == name && it.prototype.args == arguments;
    if let Some(helper) = known.iter().find(same) {
        return helper;
    }
    let (name, arguments) = (name.to_owned().leak(), arguments.to_vec().leak());
    let helper: &'static Helper = Box::leak(Box::new(Helper::own(id, name, arguments)));
    known.push(helper);
    helper
}

/// An argument of the call, from 0 to 4; 0 for another index or a null pointer.
///
/// # Safety
/// `call` is null or the call that a helper's function was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_call_argument(call: *const kiln_call, index: usize) -> u64 {
    // SAFETY: a call, as the caller promises.
    let call = unsafe { pointer::reference(call, "the call") };
    // SAFETY: the helper runs, so the call that it points to is borrowed for it.
    let arguments = call.ok().map(|call| unsafe { (*call.call).arguments });
    arguments.and_then(|arguments| arguments.get(index).copied()).unwrap_or(0)
}

/// Copies bytes from an address that the program passed. `KILN_INVALID_INPUT` if they are not all the program's.
///
/// # Safety
/// `call` is the call that a helper's function was given, `into` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_call_read(
    call: *const kiln_call,
    address: u64,
    into: *mut c_void,
    size: usize,
) -> kiln_status {
    guard(|| {
        // SAFETY: a call and bytes, as the caller promises.
        let (call, into) =
            unsafe { (pointer::reference(call, "the call")?, pointer::bytes_mut(into, size, "the buffer")?) };
        // SAFETY: the helper runs, so the call that it points to is borrowed for it.
        let call = unsafe { &*call.call };
        let bytes = call.read(address, size).ok_or_else(|| Failure::invalid("not all bytes are the program's"))?;
        into.copy_from_slice(&bytes);
        Ok(())
    })
}

/// Copies bytes to an address that the program passed. `KILN_INVALID_INPUT` if they are not all in one argument that the
/// helper's declaration lets it write.
///
/// # Safety
/// `call` is the call that a helper's function was given, `from` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_call_write(
    call: *mut kiln_call,
    address: u64,
    from: *const c_void,
    size: usize,
) -> kiln_status {
    guard(|| {
        // SAFETY: a call and bytes, as the caller promises.
        let (call, from) = unsafe { (pointer::exclusive(call, "the call")?, pointer::bytes(from, size, "the bytes")?) };
        // SAFETY: the helper runs, so the call that it points to is borrowed for it, and this thread alone has it.
        let wrote = unsafe { &mut *call.call }.write(address, from);
        wrote.ok_or_else(|| Failure::invalid("the declaration does not let the helper write there"))
    })
}
