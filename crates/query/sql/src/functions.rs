//! Functions by their names: which are aggregates, and what to write instead of an unknown one.

use sqlparser::ast;

use crate::error::Error;

/// The name among these that is closest to an unknown word.
pub fn similar<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<String> {
    let word = word.to_lowercase();
    let rated = names.filter(|name| is_close(&word, &name.to_lowercase()));
    let rated = rated.map(|name| (strsim::jaro_winkler(&word, &name.to_lowercase()), name));
    let best = rated.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!("did you mean `{}`?", best.1))
}

/// Whether a name was probably meant: one letter in three differs, or one is a part of the other.
fn is_close(word: &str, name: &str) -> bool {
    let [short, long] = if word.len() <= name.len() { [word, name] } else { [name, word] };
    let is_part = short.len() >= 3 && long.contains(short);
    is_part || strsim::damerau_levenshtein(word, name) <= short.chars().count().div_ceil(3)
}

/// Aggregates whose second operand says which part of the values is below the result.
pub const QUANTILES: [&str; 6] =
    ["quantile", "percentile", "percentile_cont", "percentile_disc", "approx_percentile", "approx_quantile"];

/// Names of aggregates.
pub const AGGREGATES: [&str; 21] = [
    "count",
    "sum",
    "avg",
    "mean",
    "min",
    "max",
    "stddev",
    "stddev_samp",
    "histogram",
    "median",
    "quantile",
    "percentile",
    "percentile_cont",
    "percentile_disc",
    "top_k",
    "approx_distinct",
    "approx_count_distinct",
    "count_if",
    "countif",
    "approx_percentile",
    "approx_quantile",
];

/// Aggregates that only the engine has.
pub const MORE_AGGREGATES: [&str; 18] = [
    "string_agg",
    "group_concat",
    "bool_and",
    "bool_or",
    "every",
    "any_value",
    "arg_max",
    "argmax",
    "max_by",
    "arg_min",
    "argmin",
    "min_by",
    "array_agg",
    "list",
    "collect_list",
    "grouparray",
    "corr",
    "mode",
];

/// Whether a function is an aggregate, of Kiln's plans or of the engine's.
pub fn is_aggregate(function: &ast::Function) -> bool {
    let name = function.name.to_string().to_lowercase();
    aggregate_name(function).is_some() || function.over.is_none() && MORE_AGGREGATES.contains(&&*name)
}

/// The name of the aggregate that a function call is: one of [`AGGREGATES`], or `p50`, `p99` and the like.
pub fn aggregate_name(function: &ast::Function) -> Option<String> {
    let name = function.name.to_string().to_lowercase();
    if function.over.is_some() {
        return None;
    }
    (AGGREGATES.contains(&name.as_str()) || percentile(&name).is_some()).then_some(name)
}

/// The part that `p50`, `p99` and the like are of; the digits of `p999` are those behind the point.
pub fn percentile(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    match digits.len() {
        1 | 2 => digits.parse::<f64>().ok().map(|percent| percent / 100.0),
        3..=9 if digits.starts_with('9') => format!("0.{digits}").parse().ok(),
        _ => (digits == "100").then_some(1.0),
    }
}

/// Functions of other engines, with what to write here.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &["now", "current_timestamp", "getdate"],
        "`ts` is the time since boot; the rows of each second: ... WINDOW 1 SECOND",
    ),
    (&["time_bucket", "tumble", "date_bin"], "... WINDOW 10 SECONDS, or GROUP BY ts / 10s"),
    (&["collect_set"], "string_agg(DISTINCT name), or top_k(name, 10)"),
    (&["variance", "var_samp", "var_pop", "stddev_pop"], "stddev(x), or stddev(x) * stddev(x)"),
    (
        &["width_bucket", "bucket", "hist", "lhist"],
        "histogram(latency_ns), or count(*) ... GROUP BY latency_ns / 100us",
    ),
    (&["format", "printf", "sprintf"], "concat(comm, '/', pid), or comm || '/' || pid"),
    (&["str", "kstr"], "texts are columns, such as `comm` and `path`; `kiln tables NAME` lists them"),
    (&["strftime", "to_char", "date_format"], "`ts` is the time since boot, not of a calendar"),
    (&["uniq", "uniqexact", "count_distinct"], "count(DISTINCT pid), or approx_distinct(pid)"),
];

/// The error of a function that is not known, with what to write instead.
pub fn no_function<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Error {
    let instead = INSTEAD.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| (*instead).to_owned());
    let help = instead.or_else(|| similar(name, known.chain(AGGREGATES)));
    Error { help, ..Error::new(format!("there is no function `{name}`")) }
}
