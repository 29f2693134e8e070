//! Lookup tables that this machine fills: `processes`, `users`, and files of comma-separated values.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kiln_plan::lookup::{Lookup, Rows};
use kiln_plan::{DataType, Value, lookup};

use kiln_program::Error;

use crate::throttled;

/// Maximum number of rows of a lookup table.
const MAX_ROWS: usize = 1 << 20;
/// Maximum bytes of a file.
const MAX_BYTES: u64 = 256 << 20;
/// Maximum number of columns of a file.
const MAX_COLUMNS: usize = 256;
/// Maximum number of processes that are remembered.
const MAX_PROCESSES: usize = 1 << 16;

/// All lookup tables that need no file.
pub fn all() -> Vec<Lookup> {
    let column = |(name, data_type, about): (&str, DataType, &str)| (name.to_owned(), data_type, about.to_owned());
    let processes = [
        ("pid", DataType::Uint, "the process"),
        ("ppid", DataType::Uint, "its parent process"),
        ("comm", DataType::Text, "the name of its first thread"),
        ("exe", DataType::Text, "the path of its program"),
        ("cgroup", DataType::Text, "the path of its cgroup (version 2)"),
        ("cmdline", DataType::Text, "its command line"),
        ("uid", DataType::Uint, "its user"),
    ];
    let users = [
        ("uid", DataType::Uint, "the user's number"),
        ("name", DataType::Text, "the user's name"),
        ("gid", DataType::Uint, "the user's group"),
        ("home", DataType::Text, "the user's home directory"),
    ];
    let cgroups = [
        ("id", DataType::Uint, "the cgroup's number, as `cgroup_id` has it"),
        ("path", DataType::Text, "its path (version 2)"),
        ("container", DataType::Text, "the id of the container that it is, or is in"),
        ("pod", DataType::Text, "the unique id of the Kubernetes pod that it is of"),
    ];
    let mut all = lookup::constant();
    all.push(Lookup {
        name: "cgroups".to_owned(),
        about: "a cgroup, as it was when the query began or first met it".to_owned(),
        columns: cgroups.map(column).into(),
        rows: Arc::new(Cgroups::default()),
    });
    all.push(Lookup {
        name: "cgroup_throttled".to_owned(),
        about: "a cgroup that has a share of processor time, as it was when the query began".to_owned(),
        columns: throttled::COLUMNS.map(column).into(),
        rows: throttled::rows(),
    });
    all.push(Lookup {
        name: "processes".to_owned(),
        about: "a process, as /proc described it when the query began or first met it".to_owned(),
        columns: processes.map(column).into(),
        rows: Arc::new(Processes { root: PathBuf::from("/proc"), known: Mutex::default() }),
    });
    all.push(Lookup {
        name: "users".to_owned(),
        about: "a user of /etc/passwd".to_owned(),
        columns: users.map(column).into(),
        rows: Arc::new(Indexed::new(users_of(&std::fs::read_to_string("/etc/passwd").unwrap_or_default()), 2)),
    });
    all
}

fn users_of(passwd: &str) -> Vec<Vec<Value>> {
    let user = |line: &str| {
        let mut fields = line.split(':');
        let name = Value::text(fields.next()?);
        let uid = Value::Uint(fields.nth(1)?.parse().ok()?);
        let gid = Value::Uint(fields.next()?.parse().ok()?);
        Some(vec![uid, name, gid, Value::text(fields.nth(1).unwrap_or_default())])
    };
    passwd.lines().filter_map(user).take(MAX_ROWS).collect()
}

/// Rows in memory, with an index of each column.
#[derive(Debug)]
struct Indexed {
    rows: Vec<Arc<[Value]>>,
    by: Vec<HashMap<Value, usize>>,
    /// A value that several rows have, by column.
    twice: Vec<Option<Value>>,
    /// Columns before this one may have a value several times; the first row counts.
    lenient: usize,
}

impl Indexed {
    fn new(rows: Vec<Vec<Value>>, lenient: usize) -> Indexed {
        let columns = rows.first().map_or(0, Vec::len);
        let mut by = vec![HashMap::new(); columns];
        let mut twice = vec![None; columns];
        for (number, row) in rows.iter().enumerate() {
            for (column, value) in row.iter().enumerate().filter(|(_, value)| !value.is_null()) {
                if by[column].contains_key(value) {
                    twice[column].get_or_insert_with(|| value.clone());
                } else {
                    by[column].insert(value.clone(), number);
                }
            }
        }
        Indexed { rows: rows.into_iter().map(Into::into).collect(), by, twice, lenient }
    }
}

impl Rows for Indexed {
    fn find(&self, by: usize, key: &Value) -> Option<Arc<[Value]>> {
        self.by.get(by)?.get(key).map(|row| Arc::clone(&self.rows[*row]))
    }

    fn check(&self, by: usize) -> Result<(), String> {
        match self.twice.get(by) {
            Some(Some(value)) if by >= self.lenient => {
                Err(format!("several rows of the lookup table have the key `{value}`"))
            }
            _ => Ok(()),
        }
    }

    fn all(&self, _: &dyn Fn(usize) -> bool) -> Vec<Arc<[Value]>> {
        self.rows.clone()
    }
}

/// A lookup table from a file of comma-separated values, whose first line names the columns. A column of integers only,
/// perhaps with spaces around them, is a number; any other one is text, as it is; an empty field is null.
///
/// # Errors
/// [`Error::InvalidInput`] if it cannot be read, is too large, or has no columns.
pub fn of_csv(name: &str, path: &Path) -> Result<Lookup, Error> {
    let invalid = |why: &dyn std::fmt::Display| Error::InvalidInput(format!("{}: {why}", path.display()));
    let bytes = kiln_inspect::file::read(path, MAX_BYTES)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(&bytes[..]);
    let head = reader.headers().map_err(|error| invalid(&error))?;
    if head.len() > MAX_COLUMNS {
        return Err(invalid(&format!("it has more than {MAX_COLUMNS} columns")));
    }
    let names: Vec<String> = head.iter().map(ToOwned::to_owned).collect();
    if names.is_empty() || names.iter().any(String::is_empty) {
        return Err(invalid(&"its first line has to name its columns"));
    }
    let mut rows: Vec<csv::StringRecord> = Vec::new();
    for row in reader.records() {
        rows.push(row.map_err(|error| invalid(&error))?);
        if rows.len() > MAX_ROWS {
            return Err(invalid(&format!("it has more than {MAX_ROWS} rows")));
        }
    }
    let data_type = |column: usize| {
        let fields = || rows.iter().filter_map(|row| row.get(column)).map(str::trim).filter(|field| !field.is_empty());
        match fields().next() {
            Some(_) if fields().all(|field| field.parse::<u64>().is_ok()) => DataType::Uint,
            Some(_) if fields().all(|field| field.parse::<i64>().is_ok()) => DataType::Int,
            _ => DataType::Text,
        }
    };
    let types: Vec<DataType> = (0..names.len()).map(data_type).collect();
    let value = |(field, data_type): (&str, &DataType)| match data_type {
        _ if field.is_empty() => Value::Null,
        DataType::Uint => field.trim().parse().map_or(Value::Null, Value::Uint),
        DataType::Int => field.trim().parse().map_or(Value::Null, Value::Int),
        _ => Value::text(field),
    };
    let rows = rows.iter().map(|row| row.iter().zip(&types).map(value).collect()).collect();
    let column = |(name, data_type): (String, &DataType)| (name, *data_type, format!("of {}", path.display()));
    let columns = names.into_iter().zip(&types).map(column).collect();
    let about = format!("a row of {}", path.display());
    Ok(Lookup { name: name.to_owned(), about, columns, rows: Arc::new(Indexed::new(rows, 0)) })
}

/// Processes, as they were when the query began or first met them: a process may be over when its events are read.
#[derive(Debug)]
struct Processes {
    root: PathBuf,
    known: Mutex<HashMap<u64, Arc<[Value]>>>,
}

impl Processes {
    /// The processes that there are.
    fn pids(&self) -> Vec<u64> {
        let Ok(entries) = std::fs::read_dir(&self.root) else { return Vec::new() };
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(MAX_PROCESSES).collect()
    }

    /// A process, with its `wanted` columns: each file of a process that is not read is time.
    fn read(&self, pid: u64, wanted: &dyn Fn(usize) -> bool) -> Option<Arc<[Value]>> {
        let folder = self.root.join(pid.to_string());
        let text =
            |name: &str| std::fs::read(folder.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let status = if [1, 2, 6].into_iter().any(wanted) { text("status").ok()? } else { String::new() };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let number = |name: &str| {
            let number = field(name).and_then(|field| field.split_whitespace().next()?.parse().ok());
            number.map_or(Value::Null, Value::Uint)
        };
        let exe = wanted(3).then(|| std::fs::read_link(folder.join("exe")).ok()).flatten();
        let cgroup = wanted(4).then(|| text("cgroup").ok()).flatten();
        let cgroup = cgroup.as_ref().and_then(|cgroup| cgroup.lines().find_map(|line| line.strip_prefix("0::")));
        let command = if wanted(5) { text("cmdline").unwrap_or_default().replace('\0', " ") } else { String::new() };
        Some(Arc::new([
            Value::Uint(pid),
            number("PPid:"),
            field("Name:").map_or(Value::Null, Value::text),
            exe.map_or(Value::Null, |exe| Value::text(&exe.to_string_lossy())),
            cgroup.map_or(Value::Null, Value::text),
            Value::text(command.trim_end()),
            number("Uid:"),
        ]))
    }
}

impl Rows for Processes {
    fn find(&self, by: usize, key: &Value) -> Option<Arc<[Value]>> {
        let pid = u64::try_from(key.as_integer()?).ok().filter(|_| by == 0)?;
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = known().get(&pid) {
            return Some(Arc::clone(row));
        }
        let row = self.read(pid, &|_| true)?;
        let mut known = known();
        if known.len() >= MAX_PROCESSES {
            known.clear();
        }
        known.insert(pid, Arc::clone(&row));
        Some(row)
    }

    /// Reads the processes that there are: later they may be gone.
    fn check(&self, by: usize) -> Result<(), String> {
        if by != 0 {
            return Err("processes are looked up by `pid`".to_owned());
        }
        self.pids().into_iter().for_each(|pid| drop(self.find(0, &Value::Uint(pid))));
        Ok(())
    }

    fn all(&self, wanted: &dyn Fn(usize) -> bool) -> Vec<Arc<[Value]>> {
        self.pids().into_iter().filter_map(|pid| self.read(pid, wanted)).collect()
    }
}

/// Cgroups. One that was removed is still known if it was there when others were looked for.
#[derive(Debug, Default)]
struct Cgroups {
    known: Mutex<HashMap<u64, Arc<[Value]>>>,
    /// When the cgroups were read.
    read: Mutex<Option<Instant>>,
}

/// How long cgroups are not read again if one is not found.
const CGROUPS_AGAIN: Duration = Duration::from_millis(200);

impl Cgroups {
    /// Reads what there is, unless that was done a moment ago.
    fn read(&self) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.is_some_and(|at| at.elapsed() < CGROUPS_AGAIN) {
            return;
        }
        *read = Some(Instant::now());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_PROCESSES {
            known.clear();
        }
        for (id, path) in crate::cgroups::all() {
            let container = crate::cgroups::container(&path).map_or(Value::Null, Value::text);
            let pod = crate::cgroups::pod(&path).map_or(Value::Null, |uid| Value::text(&uid));
            known.insert(id, Arc::new([Value::Uint(id), Value::text(&path), container, pod]));
        }
    }

    fn known(&self, id: u64) -> Option<Arc<[Value]>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

impl Rows for Cgroups {
    fn find(&self, by: usize, key: &Value) -> Option<Arc<[Value]>> {
        let id = u64::try_from(key.as_integer()?).ok().filter(|_| by == 0)?;
        self.known(id).or_else(|| {
            self.read();
            self.known(id)
        })
    }

    fn check(&self, by: usize) -> Result<(), String> {
        if by != 0 {
            return Err("cgroups are looked up by `id`".to_owned());
        }
        self.read();
        Ok(())
    }

    fn all(&self, _: &dyn Fn(usize) -> bool) -> Vec<Arc<[Value]>> {
        self.read();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_and_user_are_found() {
        let lookups = all();
        let find = |name: &str, key: u64| {
            let lookup = lookups.iter().find(|lookup| lookup.name == name).expect("it is there");
            lookup.rows.check(0).expect("it has an index");
            lookup.rows.find(0, &Value::Uint(key))
        };
        let own = find("processes", std::process::id().into()).expect("it runs");
        let exe = std::env::current_exe().expect("it has a program");
        assert_eq!(own[3], Value::text(&exe.to_string_lossy()));
        assert!(find("processes", u64::MAX).is_none());
        assert_eq!(users_of("root:x:0:0:root:/root:/bin/sh\nbroken\n")[0][3], Value::text("/root"));
    }

    #[test]
    fn only_wanted_files_of_processes_are_read() {
        let root = tempfile::tempdir().expect("a directory");
        let process = root.path().join("7");
        std::fs::create_dir(&process).expect("it is made");
        std::fs::write(process.join("cmdline"), "sh\0-c").expect("it is written");
        let processes = Processes { root: root.path().to_owned(), known: Mutex::default() };
        let of = |wanted: &[usize]| processes.all(&|column| wanted.contains(&column));
        assert_eq!(of(&[0])[0][0], Value::Uint(7));
        assert_eq!(of(&[0])[0][5], Value::text(""), "its command line is not read");
        assert_eq!(of(&[5])[0][5], Value::text("sh -c"));
        assert!(of(&[2]).is_empty(), "without `status`, it is over");
    }

    #[test]
    fn files_have_types_and_one_row_a_key() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "port, service, note\n 22 ,ssh,\n80,\"web, plain \",x\n81,web,x\n")
            .expect("it is written");
        let lookup = of_csv("ports", file.path()).expect("it is a table");
        assert_eq!(lookup.columns[0].1, DataType::Uint);
        let row = lookup.rows.find(0, &Value::Uint(80)).expect("it is there");
        assert_eq!(row[1], Value::text("web, plain "));
        assert!(lookup.rows.find(0, &Value::Uint(22)).is_some_and(|row| row[2].is_null()));
        assert!(lookup.rows.check(0).is_ok() && lookup.rows.check(2).is_err());
        std::fs::write(file.path(), "a,b\n1\n").expect("it is written");
        assert!(of_csv("broken", file.path()).is_err());
        std::fs::write(file.path(), ",".repeat(1000)).expect("it is written");
        assert!(of_csv("wide", file.path()).is_err());
        std::fs::write(file.path(), "").expect("it is written");
        assert!(of_csv("empty", file.path()).is_err());
        assert!(of_csv("endless", Path::new("/dev/zero")).is_err());
    }
}
