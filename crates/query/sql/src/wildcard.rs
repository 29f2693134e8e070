//! Columns as people name them: `* EXCLUDE (...)`, and what other programs call a column.

use sqlparser::ast;

use crate::error::Error;
use crate::functions::similar;

/// Columns by other names: the table, that name, and the column's.
const OTHER_NAMES: &[(&str, &str, &str)] = &[
    ("dns", "question", "name"),
    ("dns", "query", "name"),
    ("dns", "domain", "name"),
    ("", "time", "ts"),
    ("", "timestamp", "ts"),
    ("runq", "latency", "wait_ns"),
    ("", "latency", "latency_ns"),
    ("", "command", "comm"),
];

/// What no column is, and what to write instead: the table (empty: any), the name, and the expression.
const INSTEAD: &[(&str, &str, &str)] = &[
    ("syscalls", "errno", "ret = -ENOENT; or JOIN errno e ON e.errno = -ret, and e.name"),
    ("execs", "argv", "JOIN processes p USING (pid), and p.cmdline"),
    ("execs", "args", "JOIN processes p USING (pid), and p.cmdline"),
    ("http", "path", "split_part(line, ' ', 2)"),
    ("http", "url", "split_part(line, ' ', 2)"),
    ("http", "method", "split_part(line, ' ', 1)"),
    ("http", "status", "split_part(line, ' ', 2), of the lines LIKE 'HTTP/%'"),
    ("users", "username", "name"),
    ("", "username", "JOIN users u USING (uid), and u.name"),
];

/// The column that a table has by another name.
pub fn other_name(table: &str, name: &str) -> Option<&'static str> {
    found(OTHER_NAMES, table, name)
}

/// What to write instead of a column that a table does not have.
pub fn instead(table: &str, name: &str) -> Option<&'static str> {
    found(INSTEAD, table, name)
}

fn found(rows: &[(&str, &str, &'static str)], table: &str, name: &str) -> Option<&'static str> {
    let is_of = |of: &str| of.is_empty() || of.eq_ignore_ascii_case(table);
    let own = rows.iter().find(|(of, own, _)| is_of(of) && own.eq_ignore_ascii_case(name));
    own.map(|(.., instead)| *instead)
}

/// Returns the columns that `*` shows, without those of `* EXCLUDE (...)`.
///
/// # Errors
/// Returns one for a column that is not there, and for what else may stand behind `*`.
pub fn shown<T>(
    options: &ast::WildcardAdditionalOptions,
    mut all: Vec<T>,
    name: impl Fn(&T) -> &str,
) -> Result<Vec<T>, Error> {
    let wildcard_token = options.wildcard_token.clone();
    let ast::WildcardAdditionalOptions { opt_exclude, opt_except, .. } = options.clone();
    let known = ast::WildcardAdditionalOptions { wildcard_token, opt_exclude, opt_except, ..Default::default() };
    if *options != known {
        return Err(Error::new(format!("`*{options}` is not understood")).help("name the columns"));
    }
    let last = |name: &ast::ObjectName| name.0.last().and_then(|part| part.as_ident().cloned());
    let excluded: Vec<ast::Ident> = match &known.opt_exclude {
        None => Vec::new(),
        Some(ast::ExcludeSelectItem::Single(name)) => last(name).into_iter().collect(),
        Some(ast::ExcludeSelectItem::Multiple(names)) => names.iter().filter_map(last).collect(),
    };
    let except = known.opt_except.iter();
    let except = except.flat_map(|own| std::iter::once(&own.first_element).chain(&own.additional_elements));
    for column in excluded.iter().chain(except) {
        // A column that several tables have is shown with its table's name.
        let own = |name: &str| name.rsplit('.').next().is_some_and(|own| own.eq_ignore_ascii_case(&column.value));
        if !all.iter().any(|one| own(name(one))) {
            let error = Error::new(format!("`*` shows no column `{column}`"));
            return Err(match similar(&column.value, all.iter().map(&name)) {
                Some(help) => error.help(help),
                None => error,
            });
        }
        all.retain(|one| !own(name(one)));
    }
    Ok(all)
}
