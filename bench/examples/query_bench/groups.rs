//! User space's half of a `GROUP BY`, on records that are made here: how many one thread takes in a second of
//! processor time, and how much memory its groups take.
//!
//! The records have the layout that the kernel's half of the same query writes (split `pair`). Their processes come in no order.

use std::process::Command;

use kiln_driver::query::{Limits, Session, Settings, Split, plan};
use kiln_plan::execute::Executor;
use kiln_plan::generate::layout::{Record, SlotKind};
use kiln_plan::{Generated, Query};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{Failure, quartiles};

/// What is grouped, by name.
const QUERIES: [(&str, &str); 4] = [
    ("pid: count", "SELECT pid, count(*) FROM syscalls WHERE ret >= 0 GROUP BY pid WINDOW 1 s"),
    (
        "comm: sum, max",
        "SELECT comm, count(*), sum(ret), max(ret) FROM syscalls WHERE ret >= 0 GROUP BY comm WINDOW 1 s",
    ),
    ("pid, name: max", "SELECT pid, name, max(latency_ns) FROM syscalls WHERE ret >= 0 GROUP BY pid, name WINDOW 1 s"),
    ("name: histogram", "SELECT name, histogram(latency_ns) FROM syscalls WHERE ret >= 0 GROUP BY name WINDOW 1 s"),
];
const PROCESSES: [u64; 4] = [10, 1_000, 100_000, 1_000_000];
const RECORDS: u64 = 1 << 18;
const ROUNDS: usize = 5;

/// How fast a query takes records of so many processes.
pub struct Rate {
    pub query: &'static str,
    pub processes: u64,
    /// Median of [`ROUNDS`] rounds.
    pub records_per_second: f64,
}

/// A query with the kernel's half that writes its records.
struct Grouped {
    query: Query,
    generated: Generated,
}

impl Grouped {
    fn new(sql: &str) -> Result<Grouped, Failure> {
        let session = Session::new(sql)?;
        let mut plan = plan::plan(&session, &Settings::default(), Some(Split::Pair))?;
        let generated = plan.accepted.pop().filter(|generated| generated.split == Split::Pair);
        Ok(Grouped { query: session.query().clone(), generated: generated.ok_or("pairs are not made in the kernel")? })
    }

    fn executor(&self, limits: Limits) -> Executor {
        Executor::new(self.query.clone(), &self.generated, limits)
    }

    fn layout(&self) -> Result<&Record, Failure> {
        self.generated.records.first().ok_or_else(|| "it writes no records".into())
    }

    /// Records with these numbers, one after the other. `process` says which one a record is of.
    fn records(&self, numbers: std::ops::Range<u64>, process: impl Fn(u64) -> u64) -> Result<Vec<u8>, Failure> {
        let layout = self.layout()?;
        let mut bytes = vec![0; usize::from(layout.bytes) * (numbers.end - numbers.start) as usize];
        for (record, at) in bytes.chunks_exact_mut(layout.bytes.into()).zip(numbers) {
            self.fill(layout, record, at, process(at));
        }
        Ok(bytes)
    }

    fn fill(&self, layout: &Record, record: &mut [u8], at: u64, process: u64) {
        for slot in &layout.slots {
            let Some(column) = slot.column else { continue };
            let own = &mut record[usize::from(slot.offset)..][..usize::from(slot.kind.bytes())];
            let number = match self.query.table.columns[column].name.as_str() {
                "pid" => 1_000 + process,
                "nr" => process % 4,
                "ret" => at % 5,
                "end_ts" => 5_000_002_000 + at,
                _ => 5_000_000_000 + at,
            };
            if slot.kind == SlotKind::Command {
                let text = format!("task-{process:x}");
                own[..text.len()].copy_from_slice(text.as_bytes());
            } else {
                own.copy_from_slice(&number.to_le_bytes()[..own.len()]);
            }
        }
    }
}

/// The rates of all queries and numbers of processes.
pub fn rates() -> Result<Vec<Rate>, Failure> {
    let mut all = Vec::new();
    for processes in PROCESSES {
        for (query, sql) in QUERIES {
            let grouped = Grouped::new(sql)?;
            let scattered = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31) % processes;
            let bytes = grouped.records(0..RECORDS, scattered)?;
            let record_bytes = usize::from(grouped.layout()?.bytes);
            let round = |_| {
                let mut executor = grouped.executor(Limits::default());
                let begun = processor_seconds();
                bytes.chunks_exact(record_bytes).for_each(|record| executor.record(record));
                let taken = processor_seconds() - begun;
                let lost = executor.lost().in_all();
                if lost > 0 { Err(format!("{query}: {lost} records are lost")) } else { Ok(RECORDS as f64 / taken) }
            };
            let rounds: Vec<f64> = (0..ROUNDS).map(round).collect::<Result<_, _>>()?;
            all.push(Rate { query, processes, records_per_second: quartiles(&rounds)[1] });
        }
    }
    Ok(all)
}

/// Processor time of this thread, so that other work on the machine counts less.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Memory that groups take, in bytes.
#[derive(Serialize, Deserialize)]
pub struct Memory {
    /// Groups that were asked for, each by one record.
    pub asked: u64,
    /// Groups that there was room for.
    pub kept: u64,
    /// By how much the process grew while groups were made.
    pub bytes: u64,
    /// What the limits say.
    pub limit: u64,
}

/// The flag with which this program says the memory of so many groups.
pub const MEMORY: &str = "--memory";

/// The memory of so many groups in a process of their own, whose memory nobody has used before.
pub fn memory_of_process(asked: u64) -> Result<Memory, Failure> {
    let output = Command::new(std::env::current_exe()?).args([MEMORY, &asked.to_string()]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Makes so many groups, each of a process and its name.
pub fn memory(asked: u64) -> Result<Memory, Failure> {
    const CHUNK: u64 = 1 << 14;
    let grouped =
        Grouped::new("SELECT pid, comm, count(*), max(latency_ns) FROM syscalls GROUP BY pid, comm WINDOW 1 s")?;
    let limits = Limits::default();
    let mut executor = grouped.executor(limits);
    let record_bytes = usize::from(grouped.layout()?.bytes);
    let before = resident_bytes()?;
    let mut bytes = 0;
    for first in (0..asked).step_by(CHUNK as usize) {
        let records = grouped.records(first..(first + CHUNK).min(asked), |at| at)?;
        records.chunks_exact(record_bytes).for_each(|record| executor.record(record));
        bytes = bytes.max(resident_bytes()?.saturating_sub(before));
    }
    let lost = executor.lost();
    if lost.in_all() != lost.groups {
        return Err(format!("more than groups was lost: {lost:?}").into());
    }
    Ok(Memory { asked, kept: asked - lost.groups, bytes, limit: limits.bytes as u64 })
}

/// Bytes of this process that are in memory and of no file.
fn resident_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).ok_or("/proc/self/status has no RssAnon")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib << 10)
}
