//! `kiln check` on any number of objects: [`kiln_checker::reports`], with C sources and the running kernel.

use std::path::Path;

use kiln_inspect::check::Checked;
use kiln_inspect::input::{self, Input, running_kernel_types};
use kiln_linux::running;
use kiln_platform::Profile;
use kiln_program::{Error, Object, Program};

use crate::inputs::feed::Feed;
use crate::objects::Found;
use crate::source::{self, How};
use crate::{file, kernel};

pub use kiln_checker::reports::*;

/// Checks one object, or what a C source becomes.
pub fn check(found: &Found, wanted: &Wanted) -> Outcome {
    let (compiled, bytes) = read(&found.path);
    check_bytes(found, compiled, bytes, wanted)
}

/// Checks the bytes of an object.
pub fn check_bytes(
    found: &Found,
    compiled: Option<How>,
    bytes: std::result::Result<Vec<u8>, Error>,
    wanted: &Wanted,
) -> Outcome {
    kiln_checker::reports::check_bytes(found, compiled, bytes, wanted, &Here)
}

/// The bytes of an object, or those that a C source becomes, with how it was compiled.
pub fn read(path: &Path) -> (Option<How>, std::result::Result<Vec<u8>, Error>) {
    if !source::is_source(path) {
        return (None, file::read(path, input::MAX_FILE_BYTES));
    }
    match source::compile(path) {
        Ok(compiled) => (Some(compiled.how.clone()), compiled.object(path)),
        Err(error) => (None, Err(error)),
    }
}

/// The system that this process runs on.
struct Here;

impl System for Here {
    fn add_verdicts(&self, results: &mut [Checked], input: &Input, programs: &[&Program]) {
        kernel::verdict::add(results, input, programs);
    }

    fn profile(&self, object: &Object) -> std::result::Result<Profile, Error> {
        running::profile(&[object], running_kernel_types().as_deref())
    }

    fn set_globals(&self, object: &mut Object, settings: &[String]) -> std::result::Result<(), Error> {
        let mut feed = Feed::default();
        settings.iter().try_for_each(|setting| feed.global(setting))?;
        feed.set_globals(object)
    }
}
