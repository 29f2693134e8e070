//! A query on the running kernel.

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use kiln_linux::{Link, LoadedImages, MapHandle, OwnCgroup, Prog, RingReader, Statistics, load_images};
use kiln_plan::execute::{Executor, Limits};
use kiln_plan::generate::{COUNTERS, GroupMap};
use kiln_plan::table::Hook;
use kiln_plan::{Generated, Split};

use super::plan::Plan;
use super::{Session, Sink, Summary};
use crate::error::Error;

/// How long the reader waits for programs to wake it.
const WAIT: Duration = Duration::from_millis(50);

/// How long to look, and at whom.
pub struct Watch<'a> {
    /// When to end; `None`: when nobody wants more.
    pub duration: Option<Duration>,
    /// Whether to end now; asked a few times a second.
    pub stop: &'a dyn Fn() -> bool,
    /// What is kept in user space.
    pub limits: Limits,
    /// Whether to have the kernel count what the programs take, which costs some nanoseconds a run.
    pub measure: bool,
}

/// Sees each record before it is used; see [`super::replay::Recorder`].
pub type Tap<'a> = dyn FnMut(&[u8]) + 'a;

/// The kernel's half, attached.
struct Attached {
    images: LoadedImages,
    links: Vec<Link>,
}

/// A cgroup that this process and those that it starts are in as long as this lives.
pub struct Scope {
    _cgroup: OwnCgroup,
    id: u64,
}

impl Scope {
    /// Makes and enters one.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is no cgroup2, or no privilege.
    pub fn enter() -> Result<Scope, Error> {
        let cgroup = OwnCgroup::enter()?;
        let about = std::fs::metadata(cgroup.directory());
        let about = about.map_err(|error| Error::file(cgroup.directory(), &error))?;
        Ok(Scope { id: about.ino(), _cgroup: cgroup })
    }

    /// What `cgroup_id` is in it: the kernel numbers cgroups as it numbers their directories.
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// The monotonic clock, as programs see it.
pub fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Runs a query until its time is over, somebody says stop, or no row is wanted any more.
///
/// # Errors
/// [`Error::Unsupported`] where the kernel cannot be asked, or takes not even the smallest split.
pub fn run(
    session: &Session,
    plan: Plan,
    watch: &Watch<'_>,
    tap: &mut Tap<'_>,
    sink: &mut Sink<'_>,
) -> Result<Summary, Error> {
    crate::require_kernel()?;
    let statistics = if watch.measure { Some(Statistics::keep()?) } else { None };
    let (generated, attached) = attach_largest(session, plan)?;
    let mut executor = Executor::new(session.query().clone(), &generated, watch.limits);
    let map = |id| attached.images.maps.get(id).ok_or_else(|| Error::Unsupported("a map was not made".to_owned()));
    let mut ring = generated.ring.as_ref().map(|id| Ok::<_, Error>(RingReader::new(map(id)?)?)).transpose()?;
    let groups = generated.groups.as_ref().map(|groups| Ok::<_, Error>((groups, map(&groups.map)?))).transpose()?;
    let begun = Instant::now();
    let mut summary = Summary { split: Some(generated.split), ..Summary::default() };
    let mut wanted = true;
    let mut open = executor.first_open(now_ns());
    let take = |executor: &mut Executor, tap: &mut Tap<'_>, record: &[u8]| {
        tap(record);
        executor.record(record);
    };
    while wanted && !executor.is_done() && !(watch.stop)() {
        let left = watch.duration.map(|duration| duration.saturating_sub(begun.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let wait = WAIT.min(left.unwrap_or(WAIT));
        match &mut ring {
            Some(ring) => summary.records += ring.wait(wait, |record| take(&mut executor, tap, record))? as u64,
            None => std::thread::sleep(wait),
        }
        // Without being woken: what waits there is shown all the same.
        if let Some(ring) = &mut ring {
            summary.records += ring.read(|record| take(&mut executor, tap, record))? as u64;
        }
        let now = now_ns();
        if let Some((layout, map)) = groups
            && executor.first_open(now) > open
        {
            open = executor.first_open(now);
            drain(&mut executor, layout, map, |window| window < open)?;
        }
        executor.advance(now);
        wanted = give(&mut executor, &mut summary, sink);
    }
    summary.elapsed_ns = begun.elapsed().as_nanos() as u64;
    drop(attached.links);
    if let Some(ring) = &mut ring {
        loop {
            let count = ring.read(|record| take(&mut executor, tap, record))?;
            summary.records += count as u64;
            if count == 0 {
                break;
            }
        }
    }
    if let Some((layout, map)) = groups {
        drain(&mut executor, layout, map, |_| true)?;
    }
    executor.finish();
    give(&mut executor, &mut summary, sink);
    count(&attached.images.progs, &mut summary, statistics.is_some())?;
    summary.lost_in_kernel = lost(map(&generated.counters)?)?;
    summary.lost = executor.lost();
    Ok(summary)
}

fn give(executor: &mut Executor, summary: &mut Summary, sink: &mut Sink<'_>) -> bool {
    let rows = executor.take_rows();
    summary.rows += rows.len() as u64;
    rows.is_empty() || sink(rows)
}

/// Loads and attaches the largest split that the kernel takes.
fn attach_largest(session: &Session, mut plan: Plan) -> Result<(Generated, Attached), Error> {
    let mut complaint = String::new();
    while let Some(generated) = plan.accepted.pop() {
        match load_images(&generated.object) {
            Ok(images) => {
                let links = attach(session, &images.progs)?;
                return Ok((generated, Attached { images, links }));
            }
            Err(failure) if generated.split == Split::Mvsf => {
                complaint = failure.reason().map_or_else(|| failure.to_string(), ToOwned::to_owned);
            }
            // The next smaller one does the same with less.
            Err(_) => {}
        }
    }
    Err(Error::Unsupported(format!("the kernel does not take the query's programs: {complaint}")))
}

/// Attaches the last hook first: what ends without having begun is nobody's.
fn attach(session: &Session, progs: &[Prog]) -> Result<Vec<Link>, Error> {
    let hooks = session.query().table.hooks();
    let link = |(prog, hook): (&Prog, &&Hook)| {
        Ok(match hook {
            Hook::Typed(_) => Link::typed_tracepoint(prog)?,
            Hook::Record { category, name } => Link::tracepoint(prog, category, name)?,
        })
    };
    progs.iter().zip(&hooks).rev().map(link).collect()
}

/// Takes groups out of the kernel's map.
fn drain(
    executor: &mut Executor,
    layout: &GroupMap,
    map: &MapHandle,
    wanted: impl Fn(u64) -> bool,
) -> Result<(), Error> {
    for (key, values) in map.entries(usize::MAX)? {
        if wanted(executor.window_of(&key)) {
            debug_assert_eq!(values.len() % usize::from(layout.value_bytes), 0);
            executor.group(&key, &values);
            map.delete(&key)?;
        }
    }
    Ok(())
}

fn count(progs: &[Prog], summary: &mut Summary, measured: bool) -> Result<(), Error> {
    for prog in progs {
        let info = prog.info()?;
        summary.events += info.run_count;
        if measured {
            *summary.program_ns.get_or_insert_default() += info.run_time_ns;
        }
    }
    Ok(())
}

fn lost(counters: &MapHandle) -> Result<[u64; COUNTERS.len()], Error> {
    let value = counters.lookup(&0u32.to_le_bytes())?.unwrap_or_default();
    let number = |at: usize| {
        let bytes = value.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    Ok(std::array::from_fn(number))
}
