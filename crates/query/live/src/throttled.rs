//! The lookup table `cgroup_throttled`: what the kernel says of cgroups that may use only a share of the processors.
//!
//! ```text
//!   cpu.stat of each cgroup      nr_periods 120, nr_throttled 7, throttled_usec 31000 (version 1: throttled_time, in ns)
//! ```
//!
//! No tracepoint says that a cgroup has to wait; these counts are what all kernels have.

use std::path::PathBuf;
use std::sync::Arc;

use kiln_plan::lookup::Rows;
use kiln_plan::{DataType, Value};

use crate::cgroups;

/// Its columns: name, type and meaning.
pub const COLUMNS: [(&str, DataType, &str); 6] = [
    ("path", DataType::Text, "the cgroup's path"),
    ("container", DataType::Text, "the id of the container that it is, or is in"),
    ("pod", DataType::Text, "the unique id of the Kubernetes pod that it is of"),
    ("periods", DataType::Uint, "periods in which it ran since it was made"),
    ("throttled", DataType::Uint, "those in which it used up its share and had to wait"),
    ("throttled_ns", DataType::Uint, "how long its threads waited, all together"),
];

/// Its rows, of this machine.
pub fn rows() -> Arc<dyn Rows> {
    Arc::new(Throttled { root: cgroups::of_processors() })
}

/// The cgroups below a mount.
#[derive(Debug)]
struct Throttled {
    root: Option<PathBuf>,
}

impl Throttled {
    fn row(&self, path: &str) -> Option<Arc<[Value]>> {
        let folder = self.root.as_ref()?.join(path.strip_prefix('/')?);
        let text = std::fs::read_to_string(folder.join("cpu.stat")).ok()?;
        let count = |name: &str| {
            let words = text.lines().filter_map(|line| line.split_once(' '));
            words.filter(|(word, _)| *word == name).find_map(|(_, count)| count.trim().parse::<u64>().ok())
        };
        // A cgroup without a share has no period; version 2 says nothing of it where the controller is off.
        let periods = count("nr_periods").filter(|periods| *periods > 0)?;
        let waited = count("throttled_usec").map(|us| us.saturating_mul(1000)).or_else(|| count("throttled_time"));
        let number = |count: Option<u64>| count.map_or(Value::Null, Value::Uint);
        Some(Arc::new([
            Value::text(path),
            cgroups::container(path).map_or(Value::Null, Value::text),
            cgroups::pod(path).map_or(Value::Null, |uid| Value::text(&uid)),
            Value::Uint(periods),
            number(count("nr_throttled")),
            number(waited),
        ]))
    }
}

impl Rows for Throttled {
    fn find(&self, _: usize, _: &Value) -> Option<Arc<[Value]>> {
        None
    }

    fn check(&self, _: usize) -> Result<(), String> {
        // For each event, all files would be read.
        Err("cgroup_throttled is read alone: it has no index".to_owned())
    }

    fn all(&self, _: &dyn Fn(usize) -> bool) -> Vec<Arc<[Value]>> {
        let paths = self.root.iter().flat_map(|root| cgroups::in_mount(root));
        paths.filter_map(|(_, path)| self.row(&path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read_and_cgroups_without_a_share_are_not() {
        let root = tempfile::tempdir().expect("a directory");
        for (name, text) in [
            ("second", "usage_usec 5\nnr_periods 120\nnr_throttled 7\nthrottled_usec 31000\n"),
            ("first", "nr_periods 3\nnr_throttled 1\nthrottled_time 900\n"),
            ("free", "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"),
            ("broken", "nr_periods many\n\u{0}"),
        ] {
            let folder = root.path().join(name);
            std::fs::create_dir(&folder).expect("a directory");
            std::fs::write(folder.join("cpu.stat"), text).expect("a file");
        }
        let table = Throttled { root: Some(root.path().to_owned()) };
        let mut rows: Vec<Vec<Value>> = table.all(&|_| true).iter().map(|row| row.to_vec()).collect();
        rows.sort_by_key(|row| row[3].as_integer());
        let numbers = |row: &[Value]| row[3..].iter().map(Value::as_integer).collect::<Vec<_>>();
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!((rows[0][0].clone(), numbers(&rows[0])), (Value::text("/first"), vec![Some(3), Some(1), Some(900)]));
        assert_eq!(numbers(&rows[1]), [Some(120), Some(7), Some(31_000_000)]);
    }
}
