//! Numbers of Linux that programs are compiled for, wherever the VM runs.

/// `AF_UNSPEC`
pub(crate) const AF_UNSPEC: i32 = 0;
/// `AF_INET`
pub(crate) const AF_INET: i32 = 2;
/// `AF_INET6`
pub(crate) const AF_INET6: i32 = 10;
/// `SOCK_STREAM`
pub(crate) const SOCK_STREAM: i32 = 1;
/// `SOCK_DGRAM`
pub(crate) const SOCK_DGRAM: i32 = 2;
/// `IPPROTO_TCP`
pub(crate) const IPPROTO_TCP: i32 = 6;
/// `IPPROTO_UDP`
pub(crate) const IPPROTO_UDP: i32 = 17;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_this_linux() {
        assert_eq!([AF_UNSPEC, AF_INET, AF_INET6], [libc::AF_UNSPEC, libc::AF_INET, libc::AF_INET6]);
        assert_eq!([SOCK_STREAM, SOCK_DGRAM], [libc::SOCK_STREAM, libc::SOCK_DGRAM]);
        assert_eq!([IPPROTO_TCP, IPPROTO_UDP], [libc::IPPROTO_TCP, libc::IPPROTO_UDP]);
    }
}
