//! Memory that threads have to free: a cgroup at its limit.

use std::path::PathBuf;
use std::process::Command;

use kiln_driver::query::Split;

use super::{may_load, run};

/// A cgroup with a limit of memory, removed in the end.
struct Limited(PathBuf);

impl Limited {
    fn new(bytes: u64) -> Option<Limited> {
        let name = format!("kiln-limit-{}", std::process::id());
        // Version 1 has a mount for memory, version 2 one for all.
        let (parent, limit) = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
            .into_iter()
            .find(|(parent, _)| PathBuf::from(parent).join("cgroup.procs").exists())?;
        let own = Limited(PathBuf::from(parent).join(name));
        std::fs::create_dir(&own.0).ok()?;
        std::fs::write(own.0.join(limit), bytes.to_string()).ok()?;
        Some(own)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // The kernel takes a moment until the last process is gone.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn who_frees_the_memory_of_a_full_cgroup_is_seen() {
    if !may_load() {
        return;
    }
    let Some(limited) = Limited::new(8 << 20) else { return println!("skipped: no cgroup for memory") };
    let folder = tempfile::tempdir().expect("a directory");
    let script = "echo $$ > \"$0/cgroup.procs\" && exec dd if=/dev/zero of=\"$1/file\" bs=1M count=48 status=none";
    let write = || {
        let status = Command::new("sh").args(["-c", script]).arg(&limited.0).arg(folder.path()).status();
        assert!(status.expect("it begins").success(), "it writes six times the limit");
    };
    let sql = "SELECT count(*), sum(pages), max(wait_ns) FROM cgroup_reclaims WHERE comm = 'dd'";
    for split in [Split::Mvsf, Split::Pair, Split::Aggregate] {
        let Some((rows, _)) = run(sql, Some(split), write) else { return };
        let [Some(count), Some(pages), Some(longest)] = [0, 1, 2].map(|at| rows[0].values[at].bits()) else {
            panic!("{split:?}: {rows:?}");
        };
        // Forty megabytes do not fit; at one time, a thread frees at most some megabytes.
        assert!((1..=20_000).contains(&count) && pages >= 2_000, "{split:?}: {rows:?}");
        assert!((1..60_000_000_000).contains(&longest), "{split:?}: {rows:?}");
    }
}
