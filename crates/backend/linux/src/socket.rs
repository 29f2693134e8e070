//! Sockets of other processes, and programs of the groups that such sockets form.
//!
//! A group of sockets with one address and port (`SO_REUSEPORT`) has a program that chooses among them. The kernel keeps
//! it as long as the group lives: there is no link that ends with the process that attached it. So a second process
//! attaches it, waits until the first one has ended in whatever way, and detaches it:
//!
//! ```text
//!   ReuseportLink::attach --fork--> guard: attach, answer ... the pair of sockets closes ... detach, end
//! ```
//!
//! Both find the sockets by process and descriptor each time (`pidfd_getfd`), so neither keeps a socket open that its
//! owner has closed. A number that was given to another socket since is told by the cookie.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::Prog;
use crate::error::Error;

/// A socket of a process, by its number there.
#[derive(Debug)]
pub struct ProcessSocket {
    process: OwnedFd,
    number: RawFd,
    cookie: u64,
}

impl ProcessSocket {
    /// The socket that a process has under this number.
    ///
    /// # Errors
    /// [`Error::Os`] where there is no such process or descriptor, or we may not ask for it (`ptrace` rights; Linux 5.6).
    pub fn new(process: u32, number: RawFd) -> Result<ProcessSocket, Error> {
        // SAFETY: two numbers are passed.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        if fd < 0 {
            return Err(Error::last_os(&format!("opening process {process}")));
        }
        // SAFETY: the kernel just gave us this descriptor.
        let owner = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        let failed = || Error::last_os(&format!("asking for socket {number} of process {process}"));
        let socket = copied(owner.as_raw_fd(), number).ok_or_else(failed)?;
        let cookie = cookie(socket.as_raw_fd()).ok_or_else(failed)?;
        Ok(ProcessSocket { process: owner, number, cookie })
    }

    /// A descriptor of our own for the socket; `None` if its process has closed it. Nothing is allocated.
    pub fn open(&self) -> Option<OwnedFd> {
        let socket = copied(self.process.as_raw_fd(), self.number)?;
        (cookie(socket.as_raw_fd())? == self.cookie).then_some(socket)
    }
}

/// A descriptor of our own for what a process has under a number.
fn copied(process: RawFd, number: RawFd) -> Option<OwnedFd> {
    // SAFETY: three numbers are passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, number, 0) };
    // SAFETY: the kernel just gave us this descriptor.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The number that no other socket ever has.
fn cookie(socket: RawFd) -> Option<u64> {
    let (mut cookie, mut bytes) = (0u64, size_of::<u64>() as libc::socklen_t);
    let place = std::ptr::from_mut(&mut cookie).cast();
    // SAFETY: the option's value is written to eight bytes of our own.
    let result = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_COOKIE, place, &mut bytes) };
    (result == 0).then_some(cookie)
}

/// Sets an option of a socket to a number. Returns whether it was taken; else `errno` says why not.
fn set(socket: RawFd, option: libc::c_int, value: libc::c_int) -> bool {
    let (place, bytes) = (std::ptr::from_ref(&value).cast(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: the option's value is read from four bytes of our own.
    unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, option, place, bytes) == 0 }
}

/// The program of a group of sockets; it is detached when this is dropped, and when the process ends in any other way.
#[derive(Debug)]
pub struct ReuseportLink {
    guard: libc::pid_t,
    /// Closing it ends the guard.
    ours: Option<OwnedFd>,
}

impl ReuseportLink {
    /// Attaches a program to the group that these sockets are of, in place of one that it has.
    ///
    /// # Errors
    /// [`Error::Os`]; `EINVAL` where the sockets were not bound with `SO_REUSEPORT`.
    pub fn attach(prog: &Prog, sockets: &[ProcessSocket]) -> Result<ReuseportLink, Error> {
        let mut pair = [0; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: two descriptors are written to the array.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) } != 0 {
            return Err(Error::last_os("making a pair of sockets"));
        }
        // SAFETY: the kernel just gave us these descriptors.
        let [ours, guards] = pair.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let mut kept: Vec<RawFd> = sockets.iter().map(|socket| socket.process.as_raw_fd()).collect();
        kept.extend([guards.as_raw_fd(), prog.fd().as_raw_fd()]);
        kept.sort_unstable();
        // SAFETY: other threads may hold locks, so the child only makes system calls: it allocates nothing, and ends by
        // `_exit`.
        let guard = match unsafe { libc::fork() } {
            -1 => return Err(Error::last_os("starting a process that detaches the program")),
            0 => watch(guards.as_raw_fd(), prog.fd().as_raw_fd(), sockets, &kept),
            guard => guard,
        };
        drop(guards);
        // From here on the guard is waited for.
        let link = ReuseportLink { guard, ours: Some(ours) };
        let mut answer = [0u8; 4];
        let what = "attaching a program to a group of sockets";
        let fd = link.ours.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: four bytes are written to an array of that size.
        let read = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), libc::MSG_WAITALL) };
        match (read, i32::from_ne_bytes(answer)) {
            (4, 0) => Ok(link),
            (4, errno) => Err(Error::Os { call: what.to_owned(), errno }),
            (..0, _) => Err(Error::last_os(what)),
            // The guard was ended by somebody else.
            (_, _) => Err(Error::Os { call: what.to_owned(), errno: libc::ECHILD }),
        }
    }
}

impl Drop for ReuseportLink {
    fn drop(&mut self) {
        drop(self.ours.take());
        // SAFETY: it is our child, and a null pointer asks for no status.
        while unsafe { libc::waitpid(self.guard, std::ptr::null_mut(), 0) } < 0
            && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
        {}
    }
}

/// The guard: attaches the program, answers with 0 or an `errno`, and detaches it when the other end is closed.
fn watch(channel: RawFd, prog: RawFd, sockets: &[ProcessSocket], kept: &[RawFd]) -> ! {
    // What ends the first process from a terminal must not end the guard with it.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
        // SAFETY: a disposition without a handler is set.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: no arguments.
    unsafe { libc::setsid() };
    close_others(kept);
    let open = || sockets.iter().find_map(ProcessSocket::open);
    let errno = match open() {
        Some(socket) if set(socket.as_raw_fd(), libc::SO_ATTACH_REUSEPORT_EBPF, prog) => 0,
        Some(_) => std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL),
        None => libc::ESRCH,
    };
    let answer = errno.to_ne_bytes();
    // SAFETY: the bytes are valid for their length.
    unsafe { libc::send(channel, answer.as_ptr().cast(), answer.len(), libc::MSG_NOSIGNAL) };
    let mut end = 0u8;
    // SAFETY: one byte is written to a place of that size.
    while errno == 0
        && unsafe { libc::read(channel, std::ptr::from_mut(&mut end).cast(), 1) } < 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
    {}
    if errno == 0 {
        // One socket of the group that is still open is enough; without any, the group is gone.
        open().map(|socket| set(socket.as_raw_fd(), libc::SO_DETACH_REUSEPORT_BPF, 0));
    }
    // SAFETY: the process ends without running anything of its parent's.
    unsafe { libc::_exit(0) }
}

/// Closes all descriptors except these, which are sorted.
fn close_others(kept: &[RawFd]) {
    let mut next = 0;
    for fd in kept {
        let fd = *fd as libc::c_uint;
        if fd > next {
            // SAFETY: nothing in this process uses what is closed.
            unsafe { libc::syscall(libc::SYS_close_range, next, fd - 1, 0) };
        }
        next = fd + 1;
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, next, libc::c_uint::MAX, 0) };
}
