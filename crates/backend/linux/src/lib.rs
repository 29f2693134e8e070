//! Linux through `bpf(2)`: the kernel's own verdict, test runs, attachment and maps.
//!
//! There are two ways to load, for two kinds of input:
//!
//! ```text
//!   an ELF object, as users load it:   ObjectFile::open -> load (libbpf: CO-RE, BTF, maps)  -> LoadedObject
//!   an IR object, as a test writes it: load_image(&Object, &Program) (raw BPF_PROG_LOAD)    -> LoadedImage
//! ```
//!
//! Both give a [`Prog`], which can be test-run, attached and asked for its statistics. libbpf loads ELF files, because
//! a drop-in object is one that libbpf and the kernel accept. Nothing is pinned, and everything is unloaded when its
//! owner is dropped. [`running`] has its profile, and [`available`] tells in advance whether loading is possible, and if not, why.
//!
//! Without the feature `libbpf` the crate needs no C library: types and functions are the same, nothing can be loaded,
//! and [`available`] says so (module `absent`).
//!
//! `unsafe` is here for the calls into libbpf.

#[cfg(not(feature = "libbpf"))]
mod absent;
#[cfg(feature = "libbpf")]
pub mod attach;
pub mod data;
#[cfg(feature = "libbpf")]
pub mod elf;
pub mod error;
#[cfg(feature = "libbpf")]
pub mod heap;
#[cfg(feature = "libbpf")]
pub mod image;
#[cfg(feature = "libbpf")]
pub mod log;
#[cfg(feature = "libbpf")]
pub mod map;
#[cfg(feature = "libbpf")]
pub mod native;
pub mod own;
pub mod privilege;
#[cfg(feature = "libbpf")]
pub mod probe;
#[cfg(feature = "libbpf")]
pub mod prog;
#[cfg(feature = "libbpf")]
pub mod ring;
pub mod running;
pub mod socket;
#[cfg(feature = "libbpf")]
pub mod struct_ops;

#[cfg(not(feature = "libbpf"))]
pub use absent::{
    Heap, Link, LoadedImage, LoadedImages, LoadedObject, MapHandle, NativeProgram, ObjectFile, Prog, Registered,
    RingReader, Statistics, attach, available, load_image, load_images, probe,
};
#[cfg(feature = "libbpf")]
pub use attach::Link;
pub use data::{LOG_STATISTICS, LoadFailure, ProgInfo, ProgramLog, TestInput, TestOutput, UserProbe, XdpMode};
#[cfg(feature = "libbpf")]
pub use elf::{LoadedObject, ObjectFile};
pub use error::{Error, advice};
#[cfg(feature = "libbpf")]
pub use heap::Heap;
#[cfg(feature = "libbpf")]
pub use image::{LoadedImage, LoadedImages, Loader, load_image, load_images};
#[cfg(feature = "libbpf")]
pub use map::MapHandle;
#[cfg(feature = "libbpf")]
pub use native::NativeProgram;
pub use own::{OwnCgroup, OwnNetwork};
pub use privilege::without_privilege;
#[cfg(feature = "libbpf")]
pub use prog::{Prog, Statistics};
#[cfg(feature = "libbpf")]
pub use ring::RingReader;
pub use socket::{ProcessSocket, ReuseportLink};
#[cfg(feature = "libbpf")]
pub use struct_ops::Registered;

/// Whether this process may load programs: tries the smallest possible one (`r0 = 0; exit`, for XDP: socket filters
/// need no privilege where `kernel.unprivileged_bpf_disabled` is 0).
///
/// # Errors
/// [`Error::Os`] with the call, the reason and what to do about it.
#[cfg(feature = "libbpf")]
pub fn available() -> Result<(), Error> {
    let loading = image::Loading {
        name: "kiln_probe",
        program_type: kiln_platform::ProgramType::Xdp,
        attach: 0,
        hook: 0,
        flags: 0,
        license: "GPL",
        types: None,
    };
    let code = [kiln_isa::Insn::mov_imm(kiln_isa::Reg::R0, 0), kiln_isa::Insn::Exit];
    image::load_slots(&loading, &kiln_isa::encoding::encode_all(&code), 0).map(drop).map_err(|failure| failure.error)
}
