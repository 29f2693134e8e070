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
//! owner is dropped. [`available`] tells in advance whether loading is possible, and if not, why.
//!
//! This crate and the VM are the only ones with `unsafe`: here for the calls into libbpf.

pub mod attach;
pub mod elf;
pub mod error;
pub mod heap;
pub mod image;
pub mod log;
pub mod map;
pub mod own;
pub mod privilege;
pub mod probe;
pub mod prog;
pub mod ring;

pub use attach::Link;
pub use elf::{LoadFailure, LoadedObject, ObjectFile, ProgramLog};
pub use error::{Error, advice};
pub use heap::Heap;
pub use image::{LoadedImage, LoadedImages, Loader, load_image, load_images};
pub use map::MapHandle;
pub use own::{OwnCgroup, OwnNetwork};
pub use privilege::without_privilege;
pub use prog::{Prog, ProgInfo, Statistics, TestInput, TestOutput};
pub use ring::RingReader;

/// Whether this process may load programs: tries the smallest possible one (`r0 = 0; exit`, for XDP: socket filters
/// need no privilege where `kernel.unprivileged_bpf_disabled` is 0).
///
/// # Errors
/// [`Error::Os`] with the call, the reason and what to do about it.
pub fn available() -> Result<(), Error> {
    let loading = image::Loading {
        name: "kiln_probe",
        program_type: kiln_platform::ProgramType::Xdp,
        attach_type: None,
        hook: 0,
        flags: 0,
        license: "GPL",
        types: None,
    };
    let code = [kiln_isa::Insn::mov_imm(kiln_isa::Reg::R0, 0), kiln_isa::Insn::Exit];
    image::load_slots(&loading, &kiln_isa::encoding::encode_all(&code), 0).map(drop).map_err(|failure| failure.error)
}
