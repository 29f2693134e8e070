//! Attachment: a link that detaches when dropped.
//!
//! ```text
//!   xdp, tcx, cgroup       BPF_LINK_CREATE on an interface or cgroup directory
//!   sk_lookup              BPF_LINK_CREATE on a network namespace
//!   raw tracepoint         BPF_RAW_TRACEPOINT_OPEN by name; of a tracing program, by what it was loaded for
//!   tracepoint, uprobe,    perf_event_open(2), then BPF_LINK_CREATE on the event (Linux 5.15)
//!   cpu clock, page faults
//! ```

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use kiln_platform::AttachType;

pub use crate::data::{UserProbe, XdpMode};
use crate::error::{Error, check};
use crate::prog::Prog;

/// An attachment (a `bpf_link`); dropping it detaches.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
}

impl Link {
    fn create(what: &str, prog: &Prog, target: i32, attach_type: AttachType, flags: u32) -> Result<Link, Error> {
        let options = libbpf_sys::bpf_link_create_opts { flags, ..Default::default() };
        Link::create_with(what, prog, target, attach_type, options)
    }

    fn create_with(
        what: &str,
        prog: &Prog,
        target: i32,
        attach_type: AttachType,
        mut options: libbpf_sys::bpf_link_create_opts,
    ) -> Result<Link, Error> {
        options.sz = size_of::<libbpf_sys::bpf_link_create_opts>() as _;
        // SAFETY: the descriptors are open and the options outlive the call.
        let fd = check(what, unsafe {
            libbpf_sys::bpf_link_create(prog.fd().as_raw_fd(), target, attach_type.number(), &options)
        })?;
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Link { _fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Refuses an interface, by index, that has an XDP program: it takes no second one.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] with the program's number; [`Error::Os`].
    pub fn require_no_xdp(interface: u32) -> Result<(), Error> {
        let mut id = 0;
        // SAFETY: `id` outlives the call.
        check("asking for an XDP program", unsafe { libbpf_sys::bpf_xdp_query_id(interface as i32, 0, &mut id) })?;
        let message = || {
            format!(
                "the interface has an XDP program already, number {id} (`bpftool prog show id {id}`, `bpftool net`)"
            )
        };
        if id == 0 { Ok(()) } else { Err(Error::InvalidInput(message())) }
    }

    /// Attaches an XDP program to an interface, by index.
    ///
    /// # Errors
    /// As [`Link::require_no_xdp`].
    pub fn xdp(prog: &Prog, interface: u32, mode: XdpMode) -> Result<Link, Error> {
        Link::require_no_xdp(interface)?;
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
        let cgroup = std::fs::File::open(directory).map_err(|error| Error::file("opening", directory, &error))?;
        Link::create("attaching a cgroup program", prog, cgroup.as_raw_fd(), attach_type, 0)
    }

    /// Attaches a socket lookup program to a network namespace, by its file such as `/proc/self/ns/net` (Linux 5.9).
    ///
    /// # Errors
    /// [`Error::Os`], also when the file cannot be opened.
    pub fn socket_lookup(prog: &Prog, namespace: &Path) -> Result<Link, Error> {
        let file = std::fs::File::open(namespace).map_err(|error| Error::file("opening", namespace, &error))?;
        Link::create("attaching a socket lookup program", prog, file.as_raw_fd(), AttachType::SkLookup, 0)
    }

    /// Attaches a raw tracepoint program by the tracepoint's name (`sys_enter`, `sched_switch`).
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn raw_tracepoint(prog: &Prog, name: &str) -> Result<Link, Error> {
        Link::open_raw_tracepoint(prog, Some(&crate::error::c_string(name)?))
    }

    /// Attaches a tracing program to the tracepoint that it was loaded for (`tp_btf/xdp_redirect`).
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn typed_tracepoint(prog: &Prog) -> Result<Link, Error> {
        Link::open_raw_tracepoint(prog, None)
    }

    fn open_raw_tracepoint(prog: &Prog, name: Option<&CStr>) -> Result<Link, Error> {
        let name = name.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the name is null or a C string that outlives the call.
        let result = unsafe { libbpf_sys::bpf_raw_tracepoint_open(name, prog.fd().as_raw_fd()) };
        let fd = check("attaching to a raw tracepoint", result)?;
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Link { _fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Attaches a tracepoint program by the tracepoint's category and name (`syscalls`, `sys_enter_openat`).
    ///
    /// # Errors
    /// As [`tracepoint_id`]; else [`Error::Os`].
    pub fn tracepoint(prog: &Prog, category: &str, name: &str) -> Result<Link, Error> {
        Link::tracepoint_by_id(prog, tracepoint_id(category, name)?)
    }

    /// Attaches a tracepoint program by the tracepoint's id; see [`tracepoint_id`].
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn tracepoint_by_id(prog: &Prog, id: u64) -> Result<Link, Error> {
        let attributes =
            libbpf_sys::perf_event_attr { type_: libbpf_sys::PERF_TYPE_TRACEPOINT, config: id, ..Default::default() };
        // The event is one CPU's, the program runs on all: the kernel keeps it with the tracepoint.
        let event = open_event("opening a tracepoint", attributes, Whose::Cpu(0))?;
        Link::create("attaching a tracepoint program", prog, event.as_raw_fd(), AttachType::PerfEvent, 0)
    }

    /// Attaches a kprobe program to an instruction of an executable or library, by its offset in the file (a uprobe).
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::InvalidInput`] where the kernel has no uprobes.
    pub fn uprobe(prog: &Prog, file: &Path, offset: u64) -> Result<Link, Error> {
        Link::uprobe_of(prog, file, UserProbe { offset, ..UserProbe::default() }, Whose::ThisThread)
    }

    /// As [`Link::uprobe`], in all processes.
    ///
    /// # Errors
    /// As [`Link::uprobe`].
    pub fn uprobe_everywhere(prog: &Prog, file: &Path, probe: UserProbe) -> Result<Link, Error> {
        // The event is one CPU's, the program runs on all: the kernel keeps it with the probe.
        Link::uprobe_of(prog, file, probe, Whose::Cpu(0))
    }

    fn uprobe_of(prog: &Prog, file: &Path, probe: UserProbe, whose: Whose) -> Result<Link, Error> {
        const KIND: &str = "/sys/bus/event_source/devices/uprobe/type";
        let kind = std::fs::read_to_string(KIND).ok().and_then(|text| text.trim().parse().ok());
        let kind = kind.ok_or_else(|| Error::InvalidInput(format!("this kernel has no uprobes: no {KIND}")))?;
        let file = crate::error::c_string(&file.to_string_lossy())?;
        let semaphore = u32::try_from(probe.semaphore)
            .map_err(|_| Error::InvalidInput("the probe's counter is more than 4 GiB into its file".to_owned()))?;
        // `format/retprobe` of the event source: the lowest bit. `format/ref_ctr_offset`: the upper half.
        let config = u64::from(probe.returns) | u64::from(semaphore) << 32;
        let mut attributes = libbpf_sys::perf_event_attr { type_: kind, config, ..Default::default() };
        // The name is read before the call returns.
        attributes.__bindgen_anon_3.uprobe_path = file.as_ptr() as u64;
        attributes.__bindgen_anon_4.probe_offset = probe.offset;
        let event = open_event("opening a uprobe", attributes, whose)?;
        let mut options = libbpf_sys::bpf_link_create_opts::default();
        options.__bindgen_anon_1.perf_event.bpf_cookie = probe.cookie;
        Link::create_with("attaching a kprobe program", prog, event.as_raw_fd(), AttachType::PerfEvent, options)
    }

    /// Runs a perf_event program at each page fault of the calling thread.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn own_page_faults(prog: &Prog) -> Result<Link, Error> {
        let mut attributes = libbpf_sys::perf_event_attr {
            type_: libbpf_sys::PERF_TYPE_SOFTWARE,
            config: libbpf_sys::PERF_COUNT_SW_PAGE_FAULTS.into(),
            ..Default::default()
        };
        attributes.__bindgen_anon_1.sample_period = 1;
        let event = open_event("opening page faults", attributes, Whose::ThisThread)?;
        Link::create("attaching a perf_event program", prog, event.as_raw_fd(), AttachType::PerfEvent, 0)
    }

    /// Runs a perf_event program on one CPU, this many times a second of that CPU's time.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn cpu_clock(prog: &Prog, cpu: u32, frequency_hz: u64) -> Result<Link, Error> {
        let mut attributes = libbpf_sys::perf_event_attr {
            type_: libbpf_sys::PERF_TYPE_SOFTWARE,
            config: libbpf_sys::PERF_COUNT_SW_CPU_CLOCK.into(),
            ..Default::default()
        };
        attributes.__bindgen_anon_1.sample_freq = frequency_hz;
        attributes.set_freq(1);
        let event = open_event("opening a CPU's clock", attributes, Whose::Cpu(cpu))?;
        Link::create("attaching a perf_event program", prog, event.as_raw_fd(), AttachType::PerfEvent, 0)
    }
}

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// Whose events count.
enum Whose {
    /// All processes' on one CPU.
    Cpu(u32),
    /// Those of the calling thread, on any.
    ThisThread,
}

/// An event, counting from now on.
fn open_event(what: &str, mut attributes: libbpf_sys::perf_event_attr, whose: Whose) -> Result<OwnedFd, Error> {
    attributes.size = size_of_val(&attributes) as u32;
    let no_group: libc::c_int = -1;
    let (process, cpu): (libc::pid_t, libc::c_int) = match whose {
        Whose::Cpu(cpu) => (-1, cpu as libc::c_int),
        Whose::ThisThread => (0, -1),
    };
    // SAFETY: the attributes state their size and outlive the call; the other arguments are numbers.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, std::ptr::from_ref(&attributes), process, cpu, no_group, CLOSE_ON_EXEC)
    };
    if fd < 0 {
        return Err(Error::last_os(what));
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Where tracefs is mounted, the usual place first.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Where tracefs is mounted, if it is.
pub fn tracefs() -> Option<PathBuf> {
    TRACEFS.iter().map(PathBuf::from).find(|folder| folder.join("events").is_dir())
}

/// The id of a tracepoint, from tracefs.
///
/// # Errors
/// [`Error::InvalidInput`] when there is no such tracepoint, or tracefs is not mounted (with the command that mounts
/// it).
pub fn tracepoint_id(category: &str, name: &str) -> Result<u64, Error> {
    let plain =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !plain(category) || !plain(name) {
        return Err(Error::InvalidInput(format!("{category:?}/{name:?} is no tracepoint's name")));
    }
    let Some(folder) = tracefs() else {
        let mend = format!("mount -t tracefs tracefs {}", TRACEFS[0]);
        return Err(Error::InvalidInput(format!("tracepoints need tracefs, which is not mounted here: {mend}")));
    };
    let path = folder.join("events").join(category).join(name).join("id");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Error::InvalidInput(format!("no tracepoint {category}/{name}: {}: {error}", path.display()))
    })?;
    text.trim().parse().map_err(|_| Error::InvalidInput(format!("{} holds {text:?}, no id", path.display())))
}
