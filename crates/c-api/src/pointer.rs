//! Pointers of the caller, checked as far as they can be: null, alignment, size.

use std::ffi::{CStr, c_char, c_void};

use crate::failure::Failure;

fn check<T>(pointer: *const T, what: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{what} is a null pointer")));
    }
    if !pointer.is_aligned() {
        return Err(Failure::invalid(format!("{what} is not aligned")));
    }
    Ok(())
}

/// A handle or other value that is read.
///
/// # Safety
/// `pointer` is null or to a live value that nobody changes as long as the reference is used.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    check(pointer, what)?;
    // SAFETY: not null and aligned, as just checked; live, as the caller promises.
    Ok(unsafe { &*pointer })
}

/// A handle that is changed.
///
/// # Safety
/// `pointer` is null or to a live value that nobody else uses as long as the reference is used.
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    check(pointer, what)?;
    // SAFETY: not null and aligned, as just checked; live and not shared, as the caller promises.
    Ok(unsafe { &mut *pointer })
}

/// Gives a result to the caller. What was there is overwritten, not read.
///
/// # Safety
/// `pointer` is null or to memory of a `T` that may be written.
pub(crate) unsafe fn give<T>(pointer: *mut T, what: &str, value: T) -> Result<(), Failure> {
    check(pointer, what)?;
    // SAFETY: not null and aligned, as just checked; writable, as the caller promises.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Gives a new handle to the caller.
///
/// # Safety
/// As [`give`].
pub(crate) unsafe fn give_handle<T>(pointer: *mut *mut T, value: T) -> Result<(), Failure> {
    check(pointer, "the place for the result")?;
    // SAFETY: as the caller promises.
    unsafe { give(pointer, "the place for the result", Box::into_raw(Box::new(value))) }
}

/// Frees a handle; null is none.
///
/// # Safety
/// `pointer` is null or came from [`give_handle`] and was not freed; nobody uses it any more.
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: it came from `Box::into_raw`, as the caller promises. A panic while dropping would be a bug of Kiln's
        // and ends the process: `extern "C"` functions do not unwind.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

fn check_size<T>(count: usize, what: &str) -> Result<(), Failure> {
    let fits = count.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if fits { Ok(()) } else { Err(Failure::invalid(format!("{what} cannot have {count} elements"))) }
}

/// An array that is read. A null pointer is fine for no elements.
///
/// # Safety
/// `pointer` is null or to `count` live values that nobody changes as long as the slice is used.
pub(crate) unsafe fn slice<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    check(pointer, what)?;
    check_size::<T>(count, what)?;
    // SAFETY: not null, aligned and of a possible size, as just checked; live, as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Bytes that are read.
///
/// # Safety
/// As [`slice`].
pub(crate) unsafe fn bytes<'a>(pointer: *const c_void, size: usize, what: &str) -> Result<&'a [u8], Failure> {
    // SAFETY: as the caller promises.
    unsafe { slice(pointer.cast::<u8>(), size, what) }
}

/// Bytes that are written.
///
/// # Safety
/// `pointer` is null or to `size` initialized bytes that nobody else uses as long as the slice is used.
pub(crate) unsafe fn bytes_mut<'a>(pointer: *mut c_void, size: usize, what: &str) -> Result<&'a mut [u8], Failure> {
    if size == 0 {
        return Ok(&mut []);
    }
    check(pointer.cast::<u8>(), what)?;
    check_size::<u8>(size, what)?;
    // SAFETY: not null and of a possible size, as just checked; live and not shared, as the caller promises.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast::<u8>(), size) })
}

/// A string.
///
/// # Safety
/// `pointer` is null or to a live string that ends with NUL.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    check(pointer, what)?;
    // SAFETY: not null, as just checked; ends with NUL, as the caller promises.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}
