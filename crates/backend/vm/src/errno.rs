//! Error numbers as helpers and map operations return them: negative, in 64 bits.

/// A kernel error number, positive, as `errno.h` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident),* $(,)?) => { $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: Errno = Errno(libc::$name);)* };
}

impl Errno {
    errnos! { E2BIG, EACCES, EAFNOSUPPORT, EAGAIN, EBADF, EBUSY, EDEADLK, EEXIST, EFAULT, EINVAL, EMSGSIZE, ENODEV, ENOENT, ENOMEM, ENOSPC, EOPNOTSUPP, EPERM, EPROTO, ERANGE, ETIMEDOUT }
    /// `ENOTSUPP`, which user space never sees but programs do (kernel `include/linux/errno.h`).
    pub const ENOTSUPP: Errno = Errno(524);

    /// As R0 holds it: negated and sign-extended.
    pub const fn value(self) -> u64 {
        -(self.0 as i64) as u64
    }
}

impl std::fmt::Display for Errno {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", std::io::Error::from_raw_os_error(self.0))
    }
}

impl std::error::Error for Errno {}

/// R0 of a helper that returns 0 or an error.
pub const fn status(result: Result<(), Errno>) -> u64 {
    match result {
        Ok(()) => 0,
        Err(errno) => errno.value(),
    }
}
