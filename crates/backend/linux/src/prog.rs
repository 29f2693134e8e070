//! A loaded program: information and test runs.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use crate::data::{ProgInfo, TestInput, TestOutput};
use crate::error::{Error, check};

/// A program in the kernel, by descriptor; unloaded when the last descriptor closes.
#[derive(Debug)]
pub struct Prog {
    fd: OwnedFd,
}

/// The kernel keeps run times of all programs (`BPF_ENABLE_STATS`) as long as this lives.
#[derive(Debug)]
pub struct Statistics {
    _fd: OwnedFd,
}

impl Statistics {
    /// Begins to keep them.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn keep() -> Result<Statistics, Error> {
        // SAFETY: only a number is passed.
        let fd = check("keeping run times", unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) })?;
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Statistics { _fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }
}

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// Room for packets that grow, in bytes beyond the input.
const GROWTH_BYTES: usize = 4096;

impl Prog {
    pub(crate) fn new(fd: OwnedFd) -> Prog {
        Prog { fd }
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the kernel's information about it.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn info(&self) -> Result<ProgInfo, Error> {
        let mut map_ids = vec![0u32; 64];
        let mut info = libbpf_sys::bpf_prog_info {
            nr_map_ids: map_ids.len() as u32,
            map_ids: map_ids.as_mut_ptr() as u64,
            ..Default::default()
        };
        let mut bytes = size_of_val(&info) as u32;
        // SAFETY: `info` and `bytes` are valid for writes of the sizes they state, as is the array `map_ids`.
        let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(self.fd.as_raw_fd(), &mut info, &mut bytes) };
        check("reading a program's information", result)?;
        map_ids.truncate(info.nr_map_ids as usize);
        Ok(ProgInfo {
            verified_insns: info.verified_insns,
            xlated_bytes: info.xlated_prog_len,
            jited_bytes: info.jited_prog_len,
            id: info.id,
            map_ids,
            run_time_ns: info.run_time_ns,
            run_count: info.run_cnt,
            missed_count: info.recursion_misses,
        })
    }

    /// Runs a program on a context of no fixed form: a raw tracepoint's arguments, or what a `syscall` program gets and may
    /// change. Gives R0 and the context. The kernel takes no place for anything else to come back, and no repetitions.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn test_run_context(&self, context: &[u8]) -> Result<(u32, Vec<u8>), Error> {
        let mut context = context.to_vec();
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            ctx_in: context.as_mut_ptr().cast(),
            ctx_size_in: context.len() as u32,
            ..Default::default()
        };
        // SAFETY: the context is valid for the size beside it, also for writes, and outlives the call; all other pointers are
        // null.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.fd.as_raw_fd(), &mut options) };
        check("test-running a program (BPF_PROG_TEST_RUN)", result)?;
        Ok((options.retval, context))
    }

    /// Runs an XDP program on so many copies of a packet, and lets the kernel do with each what the program says
    /// (Linux 5.18): redirect it, or pass it on as received by the loopback interface of this thread's namespace.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn send_frames(&self, packet: &[u8], count: u32) -> Result<(), Error> {
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            data_in: packet.as_ptr().cast(),
            data_size_in: packet.len() as u32,
            repeat: count as i32,
            flags: LIVE_FRAMES,
            ..Default::default()
        };
        // SAFETY: the packet is valid for the size beside it and outlives the call; all other pointers are null.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.fd.as_raw_fd(), &mut options) };
        check("sending frames (BPF_PROG_TEST_RUN)", result).map(drop)
    }

    /// Runs it with `BPF_PROG_TEST_RUN`.
    ///
    /// # Errors
    /// [`Error::Os`]; `ENOTSUP` (524) for program types that the kernel cannot test-run.
    pub fn test_run(&self, input: &TestInput) -> Result<TestOutput, Error> {
        let mut packet = vec![0u8; if input.packet.is_empty() { 0 } else { input.packet.len() + GROWTH_BYTES }];
        let mut context = vec![0u8; input.context.len()];
        let pointer = |bytes: &[u8]| {
            if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr().cast() }
        };
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
            data_in: pointer(&input.packet),
            data_size_in: input.packet.len() as u32,
            data_out: if packet.is_empty() { std::ptr::null_mut() } else { packet.as_mut_ptr().cast() },
            data_size_out: packet.len() as u32,
            ctx_in: pointer(&input.context),
            ctx_size_in: input.context.len() as u32,
            ctx_out: if context.is_empty() { std::ptr::null_mut() } else { context.as_mut_ptr().cast() },
            ctx_size_out: context.len() as u32,
            // Program types without packets refuse a repeat count.
            repeat: if input.repeat <= 1 { 0 } else { input.repeat as i32 },
            ..Default::default()
        };
        // SAFETY: every pointer is null or valid for the size beside it, and the buffers outlive the call.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.fd.as_raw_fd(), &mut options) };
        check("test-running a program (BPF_PROG_TEST_RUN)", result)?;
        packet.truncate(options.data_size_out as usize);
        context.truncate(options.ctx_size_out as usize);
        Ok(TestOutput { value: options.retval, packet, context, duration_ns: options.duration })
    }
}
