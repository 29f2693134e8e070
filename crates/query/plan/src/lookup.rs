//! Lookup tables: rows by a key, which a query's rows are joined with in user space.
//!
//! A lookup is an expression ([`crate::expr::Expr::Lookup`]): the column of the row whose key is the value of another
//! expression. So a query with lookups needs no operator of its own. If groups are by a lookup's column, the kernel can
//! group by its key, and user space looks the key up afterwards.

use std::fmt::Debug;
use std::sync::Arc;

use crate::syscall;
use crate::value::{DataType, Value};

/// The rows of a lookup table.
pub trait Rows: Debug + Send + Sync {
    /// The values of the row whose column `by` has this value.
    fn find(&self, by: usize, key: &Value) -> Option<Arc<[Value]>>;

    /// Checks that a column can be looked up by.
    ///
    /// # Errors
    /// Returns a sentence if several rows have one value there, or the table has no index for it.
    fn check(&self, by: usize) -> Result<(), String>;

    /// All rows, as they are now. Columns that are not `wanted` may be null.
    fn all(&self, wanted: &dyn Fn(usize) -> bool) -> Vec<Arc<[Value]>>;
}

/// A lookup table.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// Its name in SQL.
    pub name: String,
    /// What a row is.
    pub about: String,
    /// Its columns: name, type and meaning.
    pub columns: Vec<(String, DataType, String)>,
    /// Its rows.
    pub rows: Arc<dyn Rows>,
}

impl PartialEq for Lookup {
    fn eq(&self, other: &Lookup) -> bool {
        Arc::ptr_eq(&self.rows, &other.rows)
    }
}

/// A lookup table and the column that it is joined by.
#[derive(Clone, Debug)]
pub struct Joined {
    /// The table.
    pub lookup: Lookup,
    /// The column.
    pub by: usize,
}

impl PartialEq for Joined {
    fn eq(&self, other: &Joined) -> bool {
        self.lookup == other.lookup && self.by == other.by
    }
}

impl Joined {
    /// A column of the row with this key, or whether there is such a row; null and false if there is none.
    pub fn get(&self, key: &Value, column: Option<usize>) -> Value {
        let row = if key.is_null() { None } else { self.lookup.rows.find(self.by, key) };
        match column {
            None => Value::Bool(row.is_some()),
            Some(column) => row.and_then(|row| row.get(column).cloned()).unwrap_or(Value::Null),
        }
    }
}

fn lookup(name: &str, about: &str, columns: &[(&str, DataType, &str)], rows: Arc<dyn Rows>) -> Lookup {
    let column =
        |(name, data_type, about): &(&str, DataType, &str)| ((*name).to_owned(), *data_type, (*about).to_owned());
    Lookup { name: name.to_owned(), about: about.to_owned(), columns: columns.iter().map(column).collect(), rows }
}

/// The lookup tables that are the same on every machine of this architecture: `syscall_names` and `errno`.
pub fn constant() -> Vec<Lookup> {
    let names = [("nr", DataType::Int, "the system call's number"), ("name", DataType::Text, "its name")];
    let errors = [
        ("errno", DataType::Int, "the number of an error, positive"),
        ("name", DataType::Text, "its name, such as ENOENT"),
        ("message", DataType::Text, "what it means"),
    ];
    vec![
        lookup("syscall_names", "a system call of this architecture", &names, Arc::new(SyscallNames)),
        lookup("errno", "an error that a system call returns, negated", &errors, Arc::new(Errors)),
    ]
}

#[derive(Debug)]
struct SyscallNames;

impl Rows for SyscallNames {
    fn find(&self, by: usize, key: &Value) -> Option<Arc<[Value]>> {
        let number = match (by, key) {
            (0, key) => i64::try_from(key.as_integer()?).ok()?,
            (_, Value::Text(name)) => syscall::number(name)?,
            _ => return None,
        };
        Some(Arc::new([Value::Int(number), Value::text(syscall::name(number)?)]))
    }

    fn check(&self, _: usize) -> Result<(), String> {
        Ok(())
    }

    fn all(&self, _: &dyn Fn(usize) -> bool) -> Vec<Arc<[Value]>> {
        (0..MOST_SYSCALLS).filter_map(|number| self.find(0, &Value::Int(number))).collect()
    }
}

/// Numbers of system calls are below this one on every architecture.
const MOST_SYSCALLS: i64 = 1024;

#[derive(Debug)]
struct Errors;

impl Rows for Errors {
    fn find(&self, by: usize, key: &Value) -> Option<Arc<[Value]>> {
        let number = match (by, key) {
            (0, key) => usize::try_from(key.as_integer()?).ok()?,
            (_, Value::Text(text)) => ERRORS.iter().position(|name| !name.is_empty() && **name == **text)? + 1,
            _ => return None,
        };
        let name = ERRORS.get(number.checked_sub(1)?).filter(|name| !name.is_empty())?;
        let message = std::io::Error::from_raw_os_error(i32::try_from(number).ok()?).to_string();
        let message = message.split(" (os error").next().unwrap_or_default();
        Some(Arc::new([Value::Int(number as i64), Value::text(name), Value::text(message)]))
    }

    fn check(&self, by: usize) -> Result<(), String> {
        if by < 2 { Ok(()) } else { Err("errors are looked up by `errno` or `name`".to_owned()) }
    }

    fn all(&self, _: &dyn Fn(usize) -> bool) -> Vec<Arc<[Value]>> {
        (1..=ERRORS.len() as i64).filter_map(|number| self.find(0, &Value::Int(number))).collect()
    }
}

/// The number of an error by its name (`ENOENT`), as C writes it.
pub fn errno(name: &str) -> Option<u64> {
    let at = ERRORS.iter().position(|own| !own.is_empty() && *own == name)?;
    u64::try_from(at + 1).ok()
}

/// Names of errors 1 to 133 (`asm-generic/errno.h`); empty where there is none.
#[rustfmt::skip]
const ERRORS: [&str; 133] = [
    "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "ENOEXEC", "EBADF", "ECHILD", "EAGAIN", "ENOMEM",
    "EACCES", "EFAULT", "ENOTBLK", "EBUSY", "EEXIST", "EXDEV", "ENODEV", "ENOTDIR", "EISDIR", "EINVAL", "ENFILE",
    "EMFILE", "ENOTTY", "ETXTBSY", "EFBIG", "ENOSPC", "ESPIPE", "EROFS", "EMLINK", "EPIPE", "EDOM", "ERANGE",
    "EDEADLK", "ENAMETOOLONG", "ENOLCK", "ENOSYS", "ENOTEMPTY", "ELOOP", "", "ENOMSG", "EIDRM", "ECHRNG", "EL2NSYNC",
    "EL3HLT", "EL3RST", "ELNRNG", "EUNATCH", "ENOCSI", "EL2HLT", "EBADE", "EBADR", "EXFULL", "ENOANO", "EBADRQC",
    "EBADSLT", "", "EBFONT", "ENOSTR", "ENODATA", "ETIME", "ENOSR", "ENONET", "ENOPKG", "EREMOTE", "ENOLINK", "EADV",
    "ESRMNT", "ECOMM", "EPROTO", "EMULTIHOP", "EDOTDOT", "EBADMSG", "EOVERFLOW", "ENOTUNIQ", "EBADFD", "EREMCHG",
    "ELIBACC", "ELIBBAD", "ELIBSCN", "ELIBMAX", "ELIBEXEC", "EILSEQ", "ERESTART", "ESTRPIPE", "EUSERS", "ENOTSOCK",
    "EDESTADDRREQ", "EMSGSIZE", "EPROTOTYPE", "ENOPROTOOPT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EOPNOTSUPP",
    "EPFNOSUPPORT", "EAFNOSUPPORT", "EADDRINUSE", "EADDRNOTAVAIL", "ENETDOWN", "ENETUNREACH", "ENETRESET",
    "ECONNABORTED", "ECONNRESET", "ENOBUFS", "EISCONN", "ENOTCONN", "ESHUTDOWN", "ETOOMANYREFS", "ETIMEDOUT",
    "ECONNREFUSED", "EHOSTDOWN", "EHOSTUNREACH", "EALREADY", "EINPROGRESS", "ESTALE", "EUCLEAN", "ENOTNAM", "ENAVAIL",
    "EISNAM", "EREMOTEIO", "EDQUOT", "ENOMEDIUM", "EMEDIUMTYPE", "ECANCELED", "ENOKEY", "EKEYEXPIRED", "EKEYREVOKED",
    "EKEYREJECTED", "EOWNERDEAD", "ENOTRECOVERABLE", "ERFKILL", "EHWPOISON",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_system_calls_have_names() {
        let [names, errors] = &constant()[..] else { panic!("there are two") };
        let joined = Joined { lookup: errors.clone(), by: 0 };
        assert_eq!(joined.get(&Value::Uint(110), Some(1)), Value::text("ETIMEDOUT"));
        assert_eq!(joined.get(&Value::Int(2), Some(2)), Value::text("No such file or directory"));
        assert_eq!(joined.get(&Value::Int(-2), None), Value::Bool(false));
        assert!(joined.get(&Value::Int(41), Some(1)).is_null());
        let by_name = Joined { lookup: errors.clone(), by: 1 };
        assert_eq!(by_name.get(&Value::text("EHWPOISON"), Some(0)), Value::Int(133));
        let names = Joined { lookup: names.clone(), by: 1 };
        assert_eq!(
            names.get(&Value::text("read"), Some(0)),
            crate::syscall::number("read").map_or(Value::Null, Value::Int)
        );
    }
}
