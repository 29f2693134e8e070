//! `kiln run`: one program on one input, or on each packet of a capture.

mod one;
pub mod replay;

pub use one::{MAX_MAP_ENTRIES, MapState, Maps, Place, Ran, SocketBufferFields, Stimulus, run, run_fed};
