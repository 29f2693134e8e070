//! Expressions and queries in the engine's dialect, with their types.

use kiln_plan::expr::{Expr, Function};
use kiln_plan::value::DataType;

use crate::error::Error;

/// An expression in the engine's dialect.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub text: String,
    pub data_type: DataType,
    /// Whether it is null whatever the row, so that its type has no meaning.
    pub is_null: bool,
}

impl Typed {
    pub fn new(text: impl Into<String>, data_type: DataType) -> Typed {
        Typed { text: text.into(), data_type, is_null: false }
    }
}

/// A query in the engine's dialect, with the names and types of its columns.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pub text: String,
    pub columns: Vec<(String, DataType)>,
}

/// The type that two values have in common.
pub(super) fn common(one: &Typed, other: &Typed) -> DataType {
    match (one.is_null, other.is_null) {
        (true, _) => other.data_type,
        (_, true) => one.data_type,
        _ if one.data_type == other.data_type => one.data_type,
        _ => {
            let both = [one.data_type, other.data_type];
            Expr::Call(Function::Coalesce, vec![Expr::Column(0), Expr::Column(1)]).data_type(&both)
        }
    }
}

/// The columns of two queries with `UNION` or the like between them: the names of the first.
pub(super) fn common_columns(sides: &[Relation; 2]) -> Result<Vec<(String, DataType)>, Error> {
    let [left, right] = sides.each_ref().map(|side| &side.columns);
    if left.len() != right.len() {
        let message = format!("the sides of a UNION have {} and {} columns", left.len(), right.len());
        return Err(Error::new(message).help("show as many columns on both sides"));
    }
    let both = left.iter().zip(right).map(|((name, one), (_, other))| {
        let data_type = common(&Typed::new("", *one), &Typed::new("", *other));
        (name.clone(), data_type)
    });
    Ok(both.collect())
}

/// `LIMIT` and `OFFSET`, where there are some.
pub(super) fn limited(limit: Option<usize>, offset: usize) -> String {
    let most = i64::MAX as usize;
    match (limit, offset) {
        (None, 0) => String::new(),
        (limit, offset) => format!(" LIMIT {} OFFSET {}", limit.unwrap_or(most).min(most), offset.min(most)),
    }
}
