//! Aggregates and window functions.

use kiln_plan::value::DataType;
use sqlparser::ast;

use super::function;
use super::typed::Typed;
use crate::error::Error;
use crate::functions::{MORE_AGGREGATES, QUANTILES, aggregate_name, percentile};

/// Functions that stand only with `OVER`: their names, how many operands they take, and the type of their value; `None` for
/// the type of the first operand.
pub(super) const OVER_ONLY: [(&str, [usize; 2], Option<DataType>); 11] = [
    ("row_number", [0, 0], Some(DataType::Uint)),
    ("rank", [0, 0], Some(DataType::Uint)),
    ("dense_rank", [0, 0], Some(DataType::Uint)),
    ("percent_rank", [0, 0], Some(DataType::Float)),
    ("cume_dist", [0, 0], Some(DataType::Float)),
    ("ntile", [1, 1], Some(DataType::Uint)),
    ("lag", [1, 3], None),
    ("lead", [1, 3], None),
    ("first_value", [1, 1], None),
    ("last_value", [1, 1], None),
    ("nth_value", [2, 2], None),
];

/// The name of the aggregate that a function without `OVER` is.
pub(super) fn name_of(function: &ast::Function) -> Option<String> {
    let name = function.name.to_string().to_lowercase();
    aggregate_name(&ast::Function { over: None, ..function.clone() })
        .or_else(|| MORE_AGGREGATES.contains(&&*name).then_some(name))
}

/// The engine's aggregate: its name, its operands, and the type of its value.
pub(super) fn engines(name: &str, operands: Vec<Typed>) -> Result<(&'static str, Vec<String>, DataType), Error> {
    let first = operands.first().map_or(DataType::Uint, |one| one.data_type);
    let second = || operands.get(1).map(|one| one.text.clone());
    let text = |one: &Typed| function::as_text(one);
    let list: Vec<String> = operands.iter().map(|one| one.text.clone()).collect();
    let wanted = match name {
        "count" => 0..=1,
        "top_k" => 2..=2,
        _ if QUANTILES.contains(&name) => 2..=2,
        "string_agg" | "group_concat" => 1..=2,
        "corr" | "arg_max" | "argmax" | "max_by" | "arg_min" | "argmin" | "min_by" => 2..=2,
        _ => 1..=1,
    };
    if !wanted.contains(&operands.len()) {
        return Err(Error::new(format!("{name} takes {} operands", wanted.end())));
    }
    let is_number = matches!(name, "sum" | "avg" | "mean" | "stddev" | "stddev_samp" | "corr");
    if is_number && first == DataType::Text && !operands[0].is_null {
        return Err(Error::new(format!("{name} is of numbers, and this is text")));
    }
    let quantile = |part: String, list: &[String]| ("k_quantile", vec![list[0].clone(), part], first);
    Ok(match name {
        "count" => ("count", list, DataType::Uint),
        "count_if" | "countif" => ("count", vec![format!("CASE WHEN {} THEN 1 END", list[0])], DataType::Uint),
        "sum" => {
            let data_type = if matches!(first, DataType::Time | DataType::Bool) { DataType::Uint } else { first };
            ("k_sum", list, data_type)
        }
        "avg" | "mean" => ("k_avg", list, DataType::Float),
        "min" | "any_value" => ("min", list, first),
        "max" => ("max", list, first),
        "stddev" | "stddev_samp" => ("k_stddev", list, DataType::Float),
        "histogram" => ("k_histogram", list, DataType::Histogram),
        "approx_distinct" | "approx_count_distinct" => ("k_approx_distinct", list, DataType::Uint),
        "top_k" => ("k_top_k", list, DataType::Text),
        "median" => quantile("0.5".to_owned(), &list),
        "percentile" => quantile(format!("({} / 100.0)", list[1]), &list),
        _ if QUANTILES.contains(&name) => quantile(list[1].clone(), &list),
        "bool_and" | "every" => ("min", list, DataType::Bool),
        "bool_or" => ("max", list, DataType::Bool),
        "string_agg" | "group_concat" => {
            // SQLite takes DISTINCT only without a separator, which is a comma then.
            ("group_concat", [text(&operands[0])].into_iter().chain(second()).collect(), DataType::Text)
        }
        "arg_max" | "argmax" | "max_by" => ("k_arg_max", list, first),
        "arg_min" | "argmin" | "min_by" => ("k_arg_min", list, first),
        "array_agg" | "list" | "collect_list" | "grouparray" => ("k_array", list, DataType::Text),
        "corr" => ("k_corr", list, DataType::Float),
        "mode" => ("k_mode", list, first),
        // p50 to p99
        name => {
            let part = percentile(name).ok_or_else(|| Error::beyond(name))?;
            quantile(format!("{part:?}"), &list)
        }
    })
}
