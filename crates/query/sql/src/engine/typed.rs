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
    /// Which of them are null whatever the row, so that their types have no meaning.
    pub nulls: Vec<bool>,
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

impl Relation {
    /// What has both relations' rows, with `UNION` or the like between them: the names of the first.
    pub fn combined(sides: [Relation; 2], word: &str) -> Result<Relation, Error> {
        let [left, right] = &sides;
        let count = left.columns.len();
        if count != right.columns.len() {
            let message = format!("the sides of a UNION have {count} and {} columns", right.columns.len());
            return Err(Error::new(message).help("show as many columns on both sides"));
        }
        let typed =
            |side: &Relation, at: usize| Typed { is_null: side.nulls[at], ..Typed::new("", side.columns[at].1) };
        let both = |at: usize| (left.columns[at].0.clone(), common(&typed(left, at), &typed(right, at)));
        let columns = (0..count).map(both).collect();
        let nulls = left.nulls.iter().zip(&right.nulls).map(|(one, other)| *one && *other).collect();
        let [left, right] = sides.each_ref().map(|side| format!("SELECT * FROM ({})", side.text));
        Ok(Relation { text: format!("{left} {word} {right}"), columns, nulls })
    }
}

/// `LIMIT` and `OFFSET`, where there are some.
pub(super) fn limited(limit: Option<usize>, offset: usize) -> String {
    let most = i64::MAX as usize;
    match (limit, offset) {
        (None, 0) => String::new(),
        (limit, offset) => format!(" LIMIT {} OFFSET {}", limit.unwrap_or(most).min(most), offset.min(most)),
    }
}
