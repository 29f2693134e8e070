//! A query on the running kernel.

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use kiln_inspect::show::shown::Shown;
use kiln_linux::{Link, LoadedImages, MapHandle, OwnCgroup, Prog, RingReader, Statistics, load_images};
use kiln_plan::execute::decode;
use kiln_plan::execute::flow::Running;
use kiln_plan::execute::{Executor, Limits, Lost};
use kiln_plan::flow::EngineQuery;
use kiln_plan::generate::{COUNTERS, GroupMap};
use kiln_plan::table::Hook;
use kiln_plan::{Generated, Query, Row};
use kiln_program::MapId;

use crate::attach::link;
pub use crate::attach::{Nothing, loaded};
pub use crate::clock::now_ns;
use crate::plan::Plan;
use crate::session::{ProgramRuns, Session, Sink, Summary};
use crate::settled::Settled;
use kiln_program::Error;

/// How long the reader waits for programs to wake it.
const WAIT: Duration = Duration::from_millis(50);

/// How long to look, and at whom.
pub struct Watch<'a> {
    /// When to end; `None` to go on until it is stopped.
    pub duration: Option<Duration>,
    /// Whether to end now; asked a few times a second.
    pub stop: &'a dyn Fn() -> bool,
    /// Ends an answer that the SQL engine is computing within 100 ms when it is set, from any thread; the query then fails. `stop`
    /// may clear it, so that the last answer is computed.
    pub interrupt: Arc<AtomicBool>,
    /// What is kept in user space.
    pub limits: Limits,
    /// Whether to have the kernel count what the programs take, which costs some nanoseconds a run.
    pub measure: bool,
    /// The part of one processor's time that the programs may take. The query ends when they took more over
    /// [`BUDGET_INTERVAL`], which is measured whatever `measure` says.
    pub max_overhead: Option<f64>,
    /// Is told how the query goes: when its programs are attached, and every [`STATUS_INTERVAL`] from then on.
    pub status: Option<&'a dyn Fn(&Summary)>,
}

/// How long it takes at most to tell all programs of a time.
const TOLD: Duration = Duration::from_millis(2);

/// How often a query reports how it goes.
pub const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How often stacks of programs in the kernel's groups are given names. A process that has ended by then has none.
const NAMES_INTERVAL: Duration = Duration::from_millis(200);

/// How long programs may be above their budget before a query ends.
pub const BUDGET_INTERVAL: Duration = Duration::from_millis(500);

/// Holds the programs to their budget.
struct Budget {
    allowed: f64,
    since: Instant,
    program_ns: u64,
}

impl Budget {
    /// The part of a processor that the programs took over the last interval, if it was more than is allowed.
    fn exceeded(&mut self, progs: &[&Prog]) -> Result<Option<f64>, Error> {
        let elapsed = self.since.elapsed();
        if elapsed < BUDGET_INTERVAL {
            return Ok(None);
        }
        let program_ns = progs.iter().try_fold(0, |sum, prog| Ok::<_, Error>(sum + prog.info()?.run_time_ns))?;
        let taken = (program_ns - self.program_ns) as f64 / elapsed.as_nanos() as f64;
        (self.since, self.program_ns) = (Instant::now(), program_ns);
        Ok((taken > self.allowed).then_some(taken))
    }
}

/// Sees each record before it is used, with the number of its scan; see [`super::replay::Recorder`].
pub type Tap<'a> = dyn FnMut(usize, &[u8]) + 'a;

/// The kernel's half of a scan.
struct InKernel {
    generated: Generated,
    images: LoadedImages,
}

impl InKernel {
    /// The stacks that the programs keep.
    fn take_stacks(&mut self) -> Option<Box<dyn decode::Stacks>> {
        let map = self.images.maps.remove(&self.generated.stacks?)?;
        Some(Box::new(crate::stacks::Stacks::new(map)))
    }
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
        let about = about.map_err(|error| Error::machine(&cgroup.directory().display().to_string(), &error, ""))?;
        Ok(Scope { id: about.ino(), _cgroup: cgroup })
    }

    /// What `cgroup_id` is in it: the kernel numbers cgroups as it numbers their directories.
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// Runs a query until its time is over, `watch.stop` says so, or no more rows are wanted.
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
    if !session.scans().is_empty() {
        kiln_linux::running::require_kernel()?;
    }
    let measured = watch.measure || watch.max_overhead.is_some();
    let statistics = if measured && !session.scans().is_empty() { Some(Statistics::keep()?) } else { None };
    let (mut halves_in_kernel, links) = attach_all(session, plan)?;
    let stacks: Vec<_> = halves_in_kernel.iter_mut().map(InKernel::take_stacks).collect();
    let limits = session.shared(watch.limits);
    let scans = session.scans().into_iter().zip(&halves_in_kernel);
    let executor = |((query, half), stacks): ((&Query, &InKernel), Option<Box<dyn decode::Stacks>>)| {
        Executor::new(query.clone(), &half.generated, limits).with_stacks(stacks)
    };
    let mut halves = Halves::new(session, scans.zip(stacks).map(executor).collect(), limits, &watch.interrupt)?;
    let feeds = halves_in_kernel.iter().zip(&halves.executors);
    let mut feeds: Vec<Feed<'_>> = feeds.map(|(half, executor)| Feed::new(half, executor)).collect::<Result<_, _>>()?;
    let progs: Vec<&Prog> = halves_in_kernel.iter().flat_map(|half| &half.images.progs).collect();
    let begun = Instant::now();
    let mut summary = Summary {
        split: halves_in_kernel.first().map(|half| half.generated.split),
        sample: halves_in_kernel.first().map_or(1, |half| half.generated.sample),
        ..Summary::default()
    };
    let mut wanted = true;
    let mut reported: Option<Instant> = None;
    let mut settled = Settled::new(&session.parsed.flow.windows(), watch.limits.late_ns, now_ns());
    let mut budget = watch.max_overhead.map(|allowed| Budget { allowed, since: begun, program_ns: 0 });
    while wanted && !halves.is_done() && !(watch.stop)() {
        let left = watch.duration.map(|duration| duration.saturating_sub(begun.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        if let Some(budget) = &mut budget {
            summary.over_budget = budget.exceeded(&progs)?;
            if summary.over_budget.is_some() {
                break;
            }
        }
        if let Some(report) = watch.status.filter(|_| reported.is_none_or(|at| at.elapsed() >= STATUS_INTERVAL)) {
            reported = Some(Instant::now());
            let mut status = summary.clone();
            status.elapsed_ns = begun.elapsed().as_nanos() as u64;
            status.lost = halves.lost();
            status.refused = halves.refused();
            count(&halves_in_kernel, &mut status, statistics.is_some())?;
            status.lost_in_kernel = lost_in(&halves_in_kernel)?;
            report(&status);
        }
        let longest = settled.wait(WAIT.min(left.unwrap_or(WAIT)), now_ns());
        let (records, now) = wait(&mut feeds, longest, &mut halves.executors, &mut settled, tap)?;
        summary.records += records;
        wanted = halves.give(now, &mut summary, sink)?;
    }
    summary.elapsed_ns = begun.elapsed().as_nanos() as u64;
    tell_time(&halves_in_kernel, |soon| -soon)?;
    drop(links);
    for (scan, (feed, executor)) in feeds.iter_mut().zip(&mut halves.executors).enumerate() {
        summary.records += feed.finish(executor, &mut |record| tap(scan, record))?;
    }
    halves.finish(&mut summary, sink)?;
    count(&halves_in_kernel, &mut summary, statistics.is_some())?;
    summary.lost_in_kernel = lost_in(&halves_in_kernel)?;
    Ok(summary)
}

/// Waits for records of any scan, and moves the clock for windows of all scans on to the same time. Returns the number of
/// records and this time.
fn wait(
    feeds: &mut [Feed<'_>],
    longest: Duration,
    executors: &mut [Executor],
    settled: &mut Settled,
    tap: &mut Tap<'_>,
) -> Result<(u64, u64), Error> {
    let mut records = 0;
    // The reader waits for the first scan, and looks at the others each time.
    if let Some((feed, executor)) = feeds.first_mut().zip(executors.first_mut()) {
        records += feed.wait(longest, executor, &mut |record| tap(0, record))?;
    }
    // Events before this time have their records in the ring buffers. A later time would make rows late that wait there.
    let now = now_ns();
    let over = settled.over(now);
    let mut is_all = true;
    for (scan, (feed, executor)) in feeds.iter_mut().zip(executors.iter_mut()).enumerate() {
        // Programs do not wake the reader for every record: take the others too.
        let mut seen = |record: &[u8]| tap(scan, record);
        records += if over.is_some() {
            let (own, is_own_all) = feed.take_all(executor, &mut seen)?;
            is_all &= is_own_all;
            own
        } else {
            feed.take_records(executor, &mut seen)?
        };
    }
    let now = settled.advance(over.filter(|_| is_all), now);
    feeds.iter_mut().zip(executors).try_for_each(|(feed, executor)| feed.advance(now, executor))?;
    Ok((records, now))
}

/// A map of the query's programs.
fn map_of<'i>(images: &'i LoadedImages, id: &MapId) -> Result<&'i MapHandle, Error> {
    images.maps.get(id).ok_or_else(|| Error::Unsupported("a map was not made".to_owned()))
}

/// What the kernel's half hands over: records through a ring buffer, and groups in a map.
struct Feed<'h> {
    ring: Option<RingReader>,
    groups: Option<(&'h GroupMap, &'h MapHandle)>,
    /// The first window that is still open.
    open: u64,
    /// When the groups' stacks were given names, where they have some.
    named: Option<Instant>,
}

/// Sees each record of a scan.
type Seen<'a> = dyn FnMut(&[u8]) + 'a;

impl<'h> Feed<'h> {
    fn new(half: &'h InKernel, executor: &Executor) -> Result<Feed<'h>, Error> {
        let InKernel { generated, images } = half;
        let ring =
            generated.ring.as_ref().map(|id| Ok::<_, Error>(RingReader::new(map_of(images, id)?)?)).transpose()?;
        let groups = generated.groups.as_ref();
        let groups = groups.map(|groups| Ok::<_, Error>((groups, map_of(images, &groups.map)?))).transpose()?;
        let named = executor.groups_by_user_stacks().then(Instant::now);
        Ok(Feed { ring, groups, open: executor.first_open(now_ns()), named })
    }

    /// Waits until programs wake the reader, and takes the records that are there then. Returns their number.
    fn wait(&mut self, wait: Duration, executor: &mut Executor, seen: &mut Seen<'_>) -> Result<u64, Error> {
        match &mut self.ring {
            Some(ring) => Ok(ring.wait(wait, |record| take(executor, seen, record))? as u64),
            None => {
                std::thread::sleep(wait);
                Ok(0)
            }
        }
    }

    /// Takes the groups of windows that have closed, and moves the executor's clock on.
    fn advance(&mut self, now: u64, executor: &mut Executor) -> Result<(), Error> {
        if let Some((layout, map)) = self.groups
            && executor.first_open(now) > self.open
        {
            self.open = executor.first_open(now);
            let open = self.open;
            drain(executor, layout, map, |window| window < open)?;
        }
        if let Some((_, map)) = self.groups
            && self.named.is_some_and(|named| named.elapsed() >= NAMES_INTERVAL)
        {
            map.entries(usize::MAX)?.iter().for_each(|(key, _)| executor.name_stacks(key));
            self.named = Some(Instant::now());
        }
        executor.advance(now);
        Ok(())
    }

    /// Takes the records that are there. Returns their number.
    fn take_records(&mut self, executor: &mut Executor, seen: &mut Seen<'_>) -> Result<u64, Error> {
        match &mut self.ring {
            Some(ring) => Ok(ring.read(|record| take(executor, seen, record))? as u64),
            None => Ok(0),
        }
    }

    /// Takes the records that were handed over before now. Returns their number, and whether it was all of them: a record that
    /// a program is still writing hides those after it.
    fn take_all(&mut self, executor: &mut Executor, seen: &mut Seen<'_>) -> Result<(u64, bool), Error> {
        let unread = |feed: &Self| feed.ring.as_ref().map_or(0, RingReader::unread);
        let mut left = unread(self);
        let mut records = 0;
        while left > 0 {
            let mut taken = 0;
            // In the ring buffer a record has a head of 8 bytes, and begins at a multiple of 8.
            let mut count = |record: &[u8]| {
                taken += 8 + record.len().next_multiple_of(8);
                seen(record);
            };
            let own = self.take_records(executor, &mut count)?;
            records += own;
            if own == 0 {
                return Ok((records, unread(self) == 0));
            }
            left = left.saturating_sub(taken);
        }
        Ok((records, true))
    }

    /// Takes all that is left, once the programs are detached. Returns the number of records.
    fn finish(&mut self, executor: &mut Executor, seen: &mut Seen<'_>) -> Result<u64, Error> {
        let mut records = 0;
        let mut nothing_since = Instant::now();
        loop {
            let count = self.take_records(executor, seen)?;
            records += count;
            if count > 0 {
                nothing_since = Instant::now();
                continue;
            }
            // A record that a program is still writing hides those after it.
            if self.ring.as_ref().is_none_or(|ring| ring.unread() == 0) || nothing_since.elapsed() >= WAIT {
                break;
            }
            std::thread::yield_now();
        }
        if let Some((layout, map)) = self.groups {
            drain(executor, layout, map, |_| true)?;
        }
        Ok(records)
    }
}

fn take(executor: &mut Executor, seen: &mut Seen<'_>, record: &[u8]) {
    seen(record);
    executor.record(record);
}

/// The user-space half of a statement: of each of its scans, and of what is asked of their rows.
pub(crate) struct Halves {
    pub executors: Vec<Executor>,
    flow: Running,
}

impl Halves {
    pub(crate) fn new(
        session: &Session,
        executors: Vec<Executor>,
        limits: Limits,
        interrupt: &Arc<AtomicBool>,
    ) -> Result<Halves, Error> {
        let engine = |query: &EngineQuery| crate::engine::make(query, interrupt);
        let flow = Running::new(&session.parsed.flow, limits, &engine).map_err(Error::Unsupported)?;
        Ok(Halves { executors, flow })
    }

    /// Whether no further row will be shown.
    pub(crate) fn is_done(&self) -> bool {
        self.executors.iter().all(Executor::is_done) || self.flow.is_done()
    }

    /// The time of the latest row of all scans.
    pub(crate) fn latest_ns(&self) -> u64 {
        self.executors.iter().map(Executor::latest_ns).max().unwrap_or_default()
    }

    /// Moves the clock of all scans on to the time of the latest row, and hands over the rows that are ready; returns
    /// whether more are wanted.
    ///
    /// # Errors
    /// As [`Halves::give`].
    pub(crate) fn give_to_latest(&mut self, summary: &mut Summary, sink: &mut Sink<'_>) -> Result<bool, Error> {
        let latest = self.latest_ns();
        self.executors.iter_mut().for_each(|executor| executor.advance(latest));
        self.give(latest, summary, sink)
    }

    /// Hands over the rows that are ready at a time of the monotonic clock; returns whether more are wanted.
    ///
    /// # Errors
    /// [`Error::Limit`] if the SQL engine fails.
    pub(crate) fn give(&mut self, now_ns: u64, summary: &mut Summary, sink: &mut Sink<'_>) -> Result<bool, Error> {
        self.pass(now_ns, false, summary, sink)
    }

    /// Ends the query and hands over the last rows.
    ///
    /// # Errors
    /// As [`Halves::give`].
    pub(crate) fn finish(&mut self, summary: &mut Summary, sink: &mut Sink<'_>) -> Result<(), Error> {
        self.executors.iter_mut().for_each(Executor::finish);
        self.pass(u64::MAX, true, summary, sink)?;
        summary.lost.add(self.lost());
        summary.refused = self.refused();
        Ok(())
    }

    /// Sentences about the groups that found no room so far.
    fn refused(&self) -> Vec<Shown> {
        let scans = self.executors.iter().filter_map(Executor::refused);
        scans.chain(self.flow.refused()).map(|sentence| sentence.as_str().into()).collect()
    }

    /// What was lost in user space so far.
    fn lost(&self) -> Lost {
        let mut lost = self.flow.lost();
        self.executors.iter().for_each(|executor| lost.add(executor.lost()));
        lost
    }

    fn pass(&mut self, now_ns: u64, is_over: bool, summary: &mut Summary, sink: &mut Sink<'_>) -> Result<bool, Error> {
        let mut rows: Vec<Vec<Row>> = self.executors.iter_mut().map(Executor::take_rows).collect();
        let rows = self.flow.pass(&mut rows, now_ns, is_over);
        if let Some(why) = self.flow.failure() {
            return Err(Error::Limit(why.to_owned()));
        }
        summary.rows += rows.len() as u64;
        Ok(rows.is_empty() || sink(rows))
    }
}

/// Loads and attaches the kernel's halves of all scans. They are attached until the links are dropped.
fn attach_all(session: &Session, mut plan: Plan) -> Result<(Vec<InKernel>, Vec<Link>), Error> {
    let others = std::mem::take(&mut plan.others);
    let (mut halves, mut links) = (Vec::new(), Vec::new());
    for plan in std::iter::once(plan).chain(others).take(session.scans().len()) {
        let (half, own) = attach_cheapest(plan)?;
        halves.push(half);
        links.extend(own);
    }
    // All programs are attached: from here on each sees the same events.
    tell_time(&halves, |soon| soon)?;
    tell_span(&halves, 0)?;
    Ok((halves, links))
}

/// Tells programs which events count; see [`Generated::span`].
fn tell_span(halves: &[InKernel], span: i64) -> Result<(), Error> {
    for half in halves {
        if let Some(map) = &half.generated.span {
            map_of(&half.images, map)?.update(&[0; 4], &span.to_ne_bytes(), 0)?;
        }
    }
    Ok(())
}

/// Tells programs of a time that comes soon, which all know before it comes, and waits until it is over.
fn tell_time(halves: &[InKernel], span: impl Fn(i64) -> i64) -> Result<(), Error> {
    if halves.iter().all(|half| half.generated.span.is_none()) {
        return Ok(());
    }
    tell_span(halves, span((now_ns() + TOLD.as_nanos() as u64) as i64))?;
    std::thread::sleep(2 * TOLD);
    Ok(())
}

/// What all scans lost in the kernel.
fn lost_in(halves: &[InKernel]) -> Result<[u64; COUNTERS.len()], Error> {
    let mut sum = [0; COUNTERS.len()];
    for half in halves {
        let own = lost(map_of(&half.images, &half.generated.counters)?)?;
        sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    Ok(sum)
}

/// Loads and attaches the split that is expected to cost least of those that the kernel takes.
fn attach_cheapest(mut plan: Plan) -> Result<(InKernel, Vec<Link>), Error> {
    let mut complaint = String::new();
    while let Some(generated) = plan.accepted.pop() {
        match load_images(&generated.object) {
            Ok(images) => {
                let half = InKernel { generated, images };
                tell_span(std::slice::from_ref(&half), i64::MAX)?;
                let links = attach(&half.generated.hooks, &half.images.progs)?;
                return Ok((half, links));
            }
            // The next one does the same in another place.
            Err(failure) => complaint = failure.why(),
        }
    }
    Err(Error::Unsupported(format!("the kernel does not take the query's programs: {complaint}")))
}

/// Attaches the last hook first, so that an event which ends without having begun is ignored.
fn attach(hooks: &[Hook], progs: &[Prog]) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    for (prog, hook) in progs.iter().zip(hooks).rev() {
        links.extend(link(prog, hook)?);
    }
    Ok(links)
}

/// Takes groups out of the kernel's map.
pub(crate) fn drain(
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

fn count(halves: &[InKernel], summary: &mut Summary, measured: bool) -> Result<(), Error> {
    for InKernel { generated, images } in halves {
        let sections = generated.object.programs.iter().map(|program| &program.section);
        for (prog, section) in images.progs.iter().zip(sections) {
            let info = prog.info()?;
            summary.events += info.run_count;
            summary.missed += info.missed_count;
            if measured {
                *summary.program_ns.get_or_insert_default() += info.run_time_ns;
                let section = section.as_str().into();
                summary.programs.push(ProgramRuns { section, events: info.run_count, ns: info.run_time_ns });
            }
        }
    }
    Ok(())
}

/// Reads the counters of what was lost in the kernel.
pub(crate) fn lost(counters: &MapHandle) -> Result<[u64; COUNTERS.len()], Error> {
    let value = counters.lookup(&0u32.to_le_bytes())?.unwrap_or_default();
    let number = |at: usize| {
        let bytes = value.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    Ok(std::array::from_fn(number))
}
