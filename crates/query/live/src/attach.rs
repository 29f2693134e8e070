//! Programs at their hooks.

use std::path::Path;

use kiln_linux::{Link, LoadedImages, Prog, UserProbe, load_images};
use kiln_plan::table::{Hook, Moment, Place};
use kiln_program::Error;

use crate::functions;

/// Attaches a program to its hook: to a clock on each processor, to a static probe at each of its places.
pub(crate) fn link(prog: &Prog, hook: &Hook) -> Result<Vec<Link>, Error> {
    Ok(vec![match hook {
        Hook::Typed(_) | Hook::Datagram { .. } => Link::typed_tracepoint(prog)?,
        Hook::Kernel { function, .. } => Link::typed_tracepoint(prog).map_err(|error| {
            Error::Unsupported(format!("this kernel lets no program be attached to its function `{function}`: {error}"))
        })?,
        Hook::Record { category, name } => Link::tracepoint(prog, category, name)?,
        Hook::Function { file, function, at } => {
            let file = Path::new(file);
            let (offset, returns) = (functions::offset(file, function)?, *at == Moment::Return);
            Link::uprobe_everywhere(prog, file, UserProbe { offset, returns, ..UserProbe::default() })?
        }
        Hook::Probe { file, places, .. } => {
            let place = |Place { offset, semaphore, cookie }: &Place| {
                let probe = UserProbe { offset: *offset, semaphore: *semaphore, cookie: *cookie, returns: false };
                Ok::<_, Error>(Link::uprobe_everywhere(prog, Path::new(file), probe)?)
            };
            return places.iter().map(place).collect();
        }
        Hook::Clock { hertz } => {
            let clock = |cpu| Ok::<_, Error>(Link::cpu_clock(prog, cpu, u64::from(*hertz))?);
            return processors().into_iter().map(clock).collect();
        }
    }])
}

/// The numbers of the processors that run, by `/sys/devices/system/cpu/online` (`0-3,6`).
fn processors() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().take(MAX_PROCESSORS).collect()
}

/// Maximum number of processors whose clocks are used.
const MAX_PROCESSORS: usize = 4096;

/// A program that does nothing at a hook.
pub struct Nothing {
    /// The program.
    images: LoadedImages,
    _links: Vec<Link>,
}

impl Nothing {
    /// Loads and attaches one.
    ///
    /// # Errors
    /// What the kernel lacks.
    pub fn at(hook: &Hook) -> Result<Nothing, Error> {
        let kind = match hook {
            Hook::Typed(_) | Hook::Datagram { .. } => {
                format!("tracing section \"{}\" attach trace_raw_tp", hook.section())
            }
            Hook::Kernel { at: Moment::Call, .. } => {
                format!("tracing section \"{}\" attach trace_fentry", hook.section())
            }
            Hook::Kernel { at: Moment::Return, .. } => {
                format!("tracing section \"{}\" attach trace_fexit", hook.section())
            }
            Hook::Record { .. } => format!("tracepoint section \"{}\"", hook.section()),
            Hook::Function { .. } | Hook::Probe { .. } => format!("kprobe section \"{}\"", hook.name()),
            Hook::Clock { .. } => "perf_event section \"perf_event\"".to_owned(),
        };
        let images = loaded(&format!("; license GPL\n; program {kind}\n; function main\nr0 = 0\nexit\n"))?;
        let links = link(&images.progs[0], hook)?;
        Ok(Nothing { images, _links: links })
    }

    /// How often it ran since it was loaded, where the kernel counts.
    pub fn runs(&self) -> Result<u64, Error> {
        Ok(self.counted()?.0)
    }

    /// How often it ran since it was loaded, and for how many nanoseconds, where the kernel counts.
    pub fn counted(&self) -> Result<(u64, u64), Error> {
        let info = self.images.progs[0].info()?;
        Ok((info.run_count, info.run_time_ns))
    }
}

/// Loads the programs of a text.
pub fn loaded(text: &str) -> Result<LoadedImages, Error> {
    let object = kiln_program::text::parse(text).map_err(|error| Error::Unsupported(error.to_string()))?;
    load_images(&object).map_err(|failure| Error::Unsupported(failure.why()))
}
