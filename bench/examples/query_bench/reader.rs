//! A RocksDB reader: Debian's `db_bench`, which reports every 500 reads.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Failure;

/// Reads between two reports.
const INTERVAL: usize = 500;
const KEYS: usize = 200_000;

/// The running process.
pub struct Reader {
    child: Child,
    reports: Arc<Mutex<Vec<Instant>>>,
}

impl Reader {
    /// Fills a database of some 20 MB, and begins to read it without a cache of RocksDB's own.
    pub fn begin(folder: &Path) -> Result<Reader, Failure> {
        let bench = |benchmark: &str| {
            let mut command = Command::new("db_bench");
            command.arg(format!("--db={}", folder.display())).arg(format!("--benchmarks={benchmark}"));
            command.arg(format!("--num={KEYS}")).args(["--compression_type=none", "--seed=1", "--threads=1"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let missing = |error| format!("db_bench: {error} (apt-get install rocksdb-tools)");
        let filled = bench("fillrandom,compact").status().map_err(missing)?;
        if !filled.success() {
            return Err("db_bench cannot fill a database".into());
        }
        let mut command = bench("readrandom");
        command.args(["--use_existing_db=1", "--cache_size=0", "--reads=100000000"]);
        command.arg(format!("--stats_interval={INTERVAL}"));
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let output = child.stderr.take().ok_or("db_bench has no output")?;
        let reports = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&reports);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.contains(" ops and ") {
                    own.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                }
            }
        });
        let reader = Reader { child, reports };
        reader.ns_per_read(Duration::from_secs(2))?;
        Ok(reader)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Nanoseconds of a read, over this time from now on.
    pub fn ns_per_read(&self, over: Duration) -> Result<f64, Failure> {
        let begun = Instant::now();
        std::thread::sleep(over);
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let own = &reports[reports.partition_point(|report| *report < begun)..];
        let (Some(first), Some(last), true) = (own.first(), own.last(), own.len() >= 10) else {
            return Err(format!("db_bench made {} reports of {INTERVAL} reads in {over:?}", own.len()).into());
        };
        Ok((*last - *first).as_nanos() as f64 / ((own.len() - 1) * INTERVAL) as f64)
    }

    /// Reads per second since it began.
    pub fn overall(&self) -> f64 {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let time = reports.first().zip(reports.last()).map_or(0.0, |(first, last)| (*last - *first).as_secs_f64());
        (reports.len().saturating_sub(1) * INTERVAL) as f64 / time
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It reads for ever.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
