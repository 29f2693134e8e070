//! Attachment: a link that detaches when dropped.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use kiln_platform::AttachType;

use crate::error::{Error, check};
use crate::prog::Prog;

/// An attachment (a `bpf_link`); dropping it detaches.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
}

/// Where XDP runs (`XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// Before the driver builds an skb, where the driver can; else generic.
    Default,
    /// On the skb.
    Generic,
    /// In the driver, or fail.
    Native,
}

impl Link {
    fn create(
        what: &str,
        prog: &Prog,
        target: i32,
        attach_type: AttachType,
        flags: u32,
    ) -> Result<Link, Error> {
        let options = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
            flags,
            ..Default::default()
        };
        // SAFETY: the descriptors are open and the options outlive the call.
        let fd = check(what, unsafe {
            libbpf_sys::bpf_link_create(prog.fd().as_raw_fd(), target, attach_type.number(), &options)
        })?;
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Link { _fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Attaches an XDP program to an interface, by index.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn xdp(prog: &Prog, interface: u32, mode: XdpMode) -> Result<Link, Error> {
        let flags = match mode {
            XdpMode::Default => 0,
            XdpMode::Generic => 1 << 1,
            XdpMode::Native => 1 << 2,
        };
        Link::create("attaching an XDP program", prog, interface as i32, AttachType::Xdp, flags)
    }

    /// Attaches a TC program to an interface's ingress or egress through TCX (Linux 6.6).
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn tcx(prog: &Prog, interface: u32, egress: bool) -> Result<Link, Error> {
        let attach_type = if egress { AttachType::TcxEgress } else { AttachType::TcxIngress };
        Link::create("attaching a TC program (TCX)", prog, interface as i32, attach_type, 0)
    }

    /// Attaches a cgroup program to a cgroup directory.
    ///
    /// # Errors
    /// [`Error::Os`], also when the directory cannot be opened.
    pub fn cgroup(prog: &Prog, directory: &Path, attach_type: AttachType) -> Result<Link, Error> {
        let cgroup = std::fs::File::open(directory).map_err(|error| Error::Os {
            call: format!("opening {}", directory.display()),
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        Link::create("attaching a cgroup program", prog, cgroup.as_raw_fd(), attach_type, 0)
    }

    /// Attaches a raw tracepoint program by the tracepoint's name (`sys_enter`, `sched_switch`).
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn raw_tracepoint(prog: &Prog, name: &str) -> Result<Link, Error> {
        let name = crate::error::c_string(name)?;
        // SAFETY: the name is a C string that outlives the call.
        let result =
            unsafe { libbpf_sys::bpf_raw_tracepoint_open(name.as_ptr(), prog.fd().as_raw_fd()) };
        let fd = check("attaching a raw tracepoint program", result)?;
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Link { _fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}
