//! The sources of a `SELECT`, while it is translated.

use kiln_plan::expr::Expr;
use kiln_plan::query::Aggregate;
use kiln_plan::value::DataType;
use sqlparser::ast;

use super::typed::Typed;
use crate::bind::Scope;
use crate::expression::Binder;
use crate::from::From;

/// The sources of a `SELECT`, and how far it is read.
pub(super) struct Frame {
    pub sources: Vec<Source>,
    /// Columns that several sources have in common (`USING`).
    pub using: Vec<String>,
    /// What Kiln's plan groups, where it groups.
    pub hybrid: Option<Hybrid>,
    /// The keys, in the engine's text, where the engine groups.
    pub keys: Option<Vec<String>>,
    /// Whether columns may stand here though they are no keys.
    pub in_aggregate: bool,
    /// Whether there was an aggregate.
    pub has_aggregate: bool,
    /// The columns of the result by name, where they may be used.
    pub aliases: Vec<(String, Typed)>,
    /// Windows that have names.
    pub windows: Vec<ast::NamedWindowDefinition>,
    /// Whether a join shows rows without a match.
    pub keeps: bool,
}

/// Groups of Kiln's plan: an input with these keys and then these aggregates.
pub(super) struct Hybrid {
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
}

/// A source of a `SELECT`.
pub(super) struct Source {
    /// Its number: the engine calls it `s0`.
    pub number: usize,
    pub is: Is,
}

pub(super) enum Is {
    /// Rows of Kiln's plan.
    Kiln(Box<Bound>),
    /// A table or query of the engine's: its names, its columns, and the letter that their names begin with.
    Engine { name: String, columns: Vec<(String, DataType)>, letter: char },
}

/// Rows of Kiln's plan, while it is not known what is read of them.
pub(super) struct Bound {
    pub from: From,
    pub types: Vec<DataType>,
    /// What is read.
    pub outputs: Vec<Expr>,
    /// The number of the input.
    pub input: usize,
    /// Conditions that Kiln's plan decides.
    pub filters: Vec<Expr>,
}

impl Bound {
    pub fn binder<'b>(&'b self, scope: &'b Scope<'b>) -> Binder<'b> {
        let From { table, sides, using, .. } = &self.from;
        Binder { table, types: &self.types, sides, using, places: scope.places, lookups: scope.lookups }
    }

    /// The number of an output, which is added if it is new.
    pub fn output(&mut self, expr: Expr) -> usize {
        self.outputs.iter().position(|own| *own == expr).unwrap_or_else(|| {
            self.outputs.push(expr);
            self.outputs.len() - 1
        })
    }
}

impl Frame {
    pub fn new(sources: Vec<Source>) -> Frame {
        Frame {
            sources,
            using: Vec::new(),
            hybrid: None,
            keys: None,
            in_aggregate: false,
            has_aggregate: false,
            aliases: Vec::new(),
            windows: Vec::new(),
            keeps: false,
        }
    }

    /// The only source, if it is of Kiln's plan.
    pub fn only_bound(&mut self) -> Option<&mut Bound> {
        match &mut self.sources[..] {
            [Source { is: Is::Kiln(bound), .. }] => Some(bound),
            _ => None,
        }
    }
}
