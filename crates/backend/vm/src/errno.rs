//! Error numbers as helpers and map operations return them: negative, in 64 bits.

/// A kernel error number, positive, as `errno.h` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// The numbers of Linux on x86-64 and 64-bit Arm: programs are compiled for them, wherever the VM runs.
macro_rules! errnos {
    ($($name:ident $number:literal,)*) => {
        $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: Errno = Errno($number);)*

        /// Its name.
        const fn name(self) -> Option<&'static str> {
            match self.0 {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }

        #[cfg(all(test, target_os = "linux"))]
        const LIBC: &[(i32, i32)] = &[$(($number, libc::$name)),*];
    };
}

impl Errno {
    errnos! {
        E2BIG 7,
        EACCES 13,
        EAFNOSUPPORT 97,
        EAGAIN 11,
        EALREADY 114,
        EBADF 9,
        EBUSY 16,
        EDEADLK 35,
        EEXIST 17,
        EFAULT 14,
        EINVAL 22,
        EMSGSIZE 90,
        ENODEV 19,
        ENOENT 2,
        ENOMEM 12,
        ENOSPC 28,
        EOPNOTSUPP 95,
        EPERM 1,
        EPROTO 71,
        ERANGE 34,
        ETIMEDOUT 110,
    }
    /// `ENOTSUPP`, which user space never sees but programs do (kernel `include/linux/errno.h`).
    pub const ENOTSUPP: Errno = Errno(524);

    /// As R0 holds it: negated and sign-extended.
    pub const fn value(self) -> u64 {
        -(self.0 as i64) as u64
    }
}

impl std::fmt::Display for Errno {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if cfg!(target_os = "linux") {
            return write!(formatter, "{}", std::io::Error::from_raw_os_error(self.0));
        }
        write!(formatter, "{} (error {})", self.name().unwrap_or("error"), self.0)
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn numbers_are_those_of_this_linux() {
        assert!(super::Errno::LIBC.iter().all(|(own, here)| own == here));
    }
}
