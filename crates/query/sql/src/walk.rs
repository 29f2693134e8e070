//! One walk over a syntax tree for all that is done with its parts.
//!
//! The parser's walks are generic over who visits, and each visitor of its own is a copy of the code for a thousand
//! types of the tree: here there is one, and visitors are called through a table.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Query, Select, ValueWithSpan, VisitMut, VisitorMut};

use crate::error::Error;

/// Who looks at the parts of a tree. Of the methods of [`VisitorMut`], those that [`Walk`] names are called.
pub type Visitor<'v> = dyn VisitorMut<Break = Error> + 'v;

/// Shows a visitor all parts of a tree.
///
/// # Errors
/// Returns the first that the visitor breaks with.
pub fn walk(tree: &mut impl VisitMut, visitor: &mut Visitor<'_>) -> Result<(), Error> {
    match tree.visit(&mut Walk(visitor)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Does something with every expression of a tree, the inner ones first.
pub fn each_expression(tree: &mut impl VisitMut, mut act: impl FnMut(&mut Expr)) {
    let _ = walk(tree, &mut Each(&mut act));
}

struct Walk<'a, 'v>(&'a mut Visitor<'v>);

impl VisitorMut for Walk<'_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.0.pre_visit_query(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.0.pre_visit_select(select)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.0.pre_visit_expr(expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.0.post_visit_expr(expr)
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<Error> {
        self.0.pre_visit_value(value)
    }

    fn pre_visit_ident(&mut self, ident: &mut Ident) -> ControlFlow<Error> {
        self.0.pre_visit_ident(ident)
    }
}

struct Each<'a>(&'a mut dyn FnMut(&mut Expr));

impl VisitorMut for Each<'_> {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}
