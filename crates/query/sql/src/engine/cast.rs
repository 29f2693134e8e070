//! Types of `CAST` and `::`.

use kiln_plan::value::DataType;
use sqlparser::ast;

use super::function;
use super::typed::Typed;

/// What `CAST` knows.
pub(super) const TYPES: &str = "text, bigint, i64, u64, u32, double, numeric(10, 2), boolean and timestamp are";

/// A value as another type; `None` for a type that Kiln lacks. A value that is none of the type is null.
pub(super) fn cast(value: &Typed, to: &ast::DataType) -> Option<Typed> {
    let text = to.to_string().to_lowercase();
    let (name, rest) = text.split_once('(').unwrap_or((&text, ""));
    let (sizes, after) = rest.split_once(')').unwrap_or(("", ""));
    let name = format!(
        "{}{}",
        name.trim(),
        if after.trim().is_empty() { String::new() } else { format!(" {}", after.trim()) }
    );
    let numbers: Vec<u32> = sizes.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    let own = &value.text;
    let number = if value.data_type == DataType::Text { format!("k_float({own})") } else { own.clone() };
    let integer = |bits: u32, signed: bool| {
        let (least, most) = match (bits, signed) {
            (64, true) => (format!("({} - 1)", i64::MIN + 1), i64::MAX.to_string()),
            (64, false) => ("0".to_owned(), function::integer(u64::MAX)),
            (bits, true) => ((-(1i64 << (bits - 1))).to_string(), ((1i64 << (bits - 1)) - 1).to_string()),
            (bits, false) => ("0".to_owned(), ((1i64 << bits) - 1).to_string()),
        };
        let data_type = if signed { DataType::Int } else { DataType::Uint };
        Typed::new(format!("k_int({own}, {least}, {most})"), data_type)
    };
    Some(match &*name {
        "text" | "string" | "varchar" | "char" | "character" | "character varying" | "char varying" | "nvarchar"
        | "clob" => {
            let as_text = function::as_text(value);
            match numbers[..] {
                [length] => Typed::new(format!("substr({as_text}, 1, {length})"), DataType::Text),
                _ => Typed::new(as_text, DataType::Text),
            }
        }
        "bool" | "boolean" => Typed::new(format!("k_bool({own})"), DataType::Bool),
        "float" | "float4" | "float8" | "float32" | "float64" | "f32" | "f64" | "real" | "double"
        | "double precision" => Typed::new(format!("k_float({own})"), DataType::Float),
        "numeric" | "decimal" | "dec" => match numbers[..] {
            [_, 0] | [_] => {
                Typed::new(format!("k_int(k_round({number}), {} - 1, {})", i64::MIN + 1, i64::MAX), DataType::Int)
            }
            [_, scale] => Typed::new(format!("k_round(k_float({own}), {scale})"), DataType::Float),
            _ => Typed::new(format!("k_float({own})"), DataType::Float),
        },
        "tinyint" | "i8" => integer(8, true),
        "smallint" | "int2" | "int16" | "i16" => integer(16, true),
        "int4" | "int32" | "mediumint" | "i32" => integer(32, true),
        // As in SQLite: a column of 64 bits should not become null.
        "int" | "integer" | "bigint" | "int8" | "int64" | "i64" | "signed" | "signed integer" => integer(64, true),
        "uint8" | "utinyint" | "tinyint unsigned" | "u8" => integer(8, false),
        "uint16" | "usmallint" | "smallint unsigned" | "u16" => integer(16, false),
        "uint32" | "uint" | "int unsigned" | "integer unsigned" | "u32" => integer(32, false),
        "uint64" | "ubigint" | "bigint unsigned" | "unsigned" | "unsigned integer" | "u64" => integer(64, false),
        "timestamp" | "timestamp without time zone" => Typed { data_type: DataType::Time, ..integer(64, false) },
        _ => return None,
    })
}
