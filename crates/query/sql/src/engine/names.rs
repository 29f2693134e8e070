//! What names mean, and what is read of each source.

use kiln_plan::expr::Expr;
use kiln_plan::flow::EngineInput;
use kiln_plan::query::{Groups, Output, Query, Shape};
use kiln_plan::value::DataType;
use sqlparser::ast;

use super::frame::{Bound, Frame, Hybrid, Is, Source};
use super::translator::Translator;
use super::typed::Typed;
use crate::error::Error;
use crate::from::From;
use crate::functions::similar;
use crate::window::Clause;

/// A name as a source's and a column's.
fn parts(expr: &ast::Expr) -> Option<(Option<&str>, &str)> {
    match expr {
        ast::Expr::Identifier(name) => Some((None, &name.value)),
        ast::Expr::CompoundIdentifier(names) => match &names[..] {
            [side, column] => Some((Some(&side.value), &column.value)),
            _ => None,
        },
        _ => None,
    }
}

impl Translator<'_> {
    /// What a name means, from the innermost query outwards.
    pub fn column(&mut self, expr: &ast::Expr) -> Result<Typed, Error> {
        let mut first = None;
        for at in (0..self.frames.len()).rev() {
            match self.in_frame(at, expr) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(error) if error.message.starts_with("several tables") => return Err(error),
                Err(error) => drop(first.get_or_insert(error)),
            }
            if let ast::Expr::Identifier(name) = expr {
                let alias = self.frames[at].aliases.iter().find(|(own, _)| own.eq_ignore_ascii_case(&name.value));
                if let Some((_, typed)) = alias {
                    return Ok(typed.clone());
                }
            }
            // The name means something here, so it means nothing further out.
            if let Some(error) = first.take_if(|error: &mut Error| error.message.contains(DIFFERS)) {
                return Err(error);
            }
        }
        let names = self.frames.iter().flat_map(|frame| &frame.sources).flat_map(|source| match &source.is {
            Is::Engine { columns, .. } => columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(),
            Is::Kiln(bound) => bound.from.table.columns.iter().map(|column| column.name.clone()).collect(),
        });
        let names: Vec<String> = names.collect();
        let word = parts(expr).map_or_else(String::new, |(_, column)| column.to_owned());
        let none = || {
            let error = Error::new(format!("no table of this query has a column `{expr}`"));
            match similar(&word, names.iter().map(String::as_str)) {
                Some(help) => error.help(help),
                None => error,
            }
        };
        let error = first.unwrap_or_else(none);
        Err(self.fail(expr, error))
    }

    /// What a name means in a frame; an error where it means nothing or is no column of a group.
    pub fn in_frame(&mut self, at: usize, expr: &ast::Expr) -> Result<Option<Typed>, Error> {
        if self.frames[at].hybrid.is_some() {
            return self.in_hybrid(at, expr);
        }
        let (side, name) = parts(expr).unwrap_or((None, ""));
        let mut found = None;
        let mut first = None;
        for source in 0..self.frames[at].sources.len() {
            let own = match self.frames[at].sources[source].is {
                Is::Kiln(_) => self.in_bound(at, source, expr),
                Is::Engine { .. } => self.in_source(at, source, side, name),
            };
            match own {
                Ok(Some(own)) => {
                    let is_shared = self.frames[at].using.iter().any(|using| using.eq_ignore_ascii_case(name));
                    if found.is_some() && !is_shared {
                        return Err(Error::new(format!("several tables of this query have a column `{name}`")));
                    }
                    found.get_or_insert(own);
                }
                Ok(None) => {}
                Err(error) if error.message.starts_with("several tables") => return Err(error),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        let Some(found) = found else {
            // With several sources, the error of one of them would name that one.
            return match first.filter(|_| self.frames[at].sources.len() == 1) {
                Some(error) => Err(error),
                None => Ok(None),
            };
        };
        let frame = &self.frames[at];
        if let Some(keys) = &frame.keys
            && !frame.in_aggregate
            && !keys.contains(&found.text)
        {
            return Err(self.fail(expr, differs(expr)));
        }
        Ok(Some(found))
    }

    pub fn in_bound(&mut self, at: usize, source: usize, expr: &ast::Expr) -> Result<Option<Typed>, Error> {
        let scope = self.scope;
        let Source { number, is: Is::Kiln(bound) } = &mut self.frames[at].sources[source] else { return Ok(None) };
        let expr = bound.binder(scope).expr(expr)?;
        let data_type = expr.data_type(&bound.types);
        let number = *number;
        let output = bound.output(expr);
        Ok(Some(Typed::new(format!("s{number}.c{output}"), data_type)))
    }

    /// A column of a source by its name.
    pub fn in_source(
        &mut self,
        at: usize,
        source: usize,
        side: Option<&str>,
        name: &str,
    ) -> Result<Option<Typed>, Error> {
        match &self.frames[at].sources[source] {
            Source { number, is: Is::Engine { name: own, columns, letter } } => {
                if side.is_some_and(|side| !side.eq_ignore_ascii_case(own)) {
                    return Ok(None);
                }
                let found = columns.iter().position(|(own, _)| own.eq_ignore_ascii_case(name));
                match found {
                    Some(at) => Ok(Some(Typed::new(format!("s{number}.{letter}{at}"), columns[at].1))),
                    None => {
                        let error = Error::new(format!("table `{own}` has no column `{name}`"));
                        let names = columns.iter().map(|(name, _)| name.as_str());
                        Err(match similar(name, names) {
                            Some(help) => error.help(help),
                            None => error,
                        })
                    }
                }
            }
            Source { is: Is::Kiln(_), .. } => {
                let name = ast::Ident::new(name);
                let expr = match side {
                    Some(side) => ast::Expr::CompoundIdentifier(vec![ast::Ident::new(side), name]),
                    None => ast::Expr::Identifier(name),
                };
                self.in_bound(at, source, &expr)
            }
        }
    }

    /// A key of Kiln's groups.
    pub fn in_hybrid(&mut self, at: usize, expr: &ast::Expr) -> Result<Option<Typed>, Error> {
        let scope = self.scope;
        let frame = &self.frames[at];
        let (Some(hybrid), [Source { number, is: Is::Kiln(bound) }]) = (&frame.hybrid, &frame.sources[..]) else {
            return Ok(None);
        };
        let own = bound.binder(scope).expr(expr)?;
        match hybrid.keys.iter().position(|key| *key == own) {
            Some(key) => Ok(Some(Typed::new(format!("s{number}.c{key}"), own.data_type(&bound.types)))),
            None => Err(self.fail(expr, differs(expr))),
        }
    }

    /// The columns that `*` shows, of the side with a name if there is one.
    pub fn all(&mut self, side: Option<&str>) -> Result<Vec<(String, Typed)>, Error> {
        let at = self.frames.len() - 1;
        let mut all = Vec::new();
        for source in 0..self.frames[at].sources.len() {
            let Source { number, is } = &mut self.frames[at].sources[source];
            match is {
                Is::Engine { name, columns, letter } => {
                    if side.is_none_or(|side| side.eq_ignore_ascii_case(name)) {
                        let columns = columns.iter().enumerate();
                        all.extend(columns.map(|(at, (name, data_type))| {
                            (name.clone(), Typed::new(format!("s{number}.{letter}{at}"), *data_type))
                        }));
                    }
                }
                Is::Kiln(bound) => {
                    let outputs = match crate::bind::all(&bound.binder(self.scope), side) {
                        Ok(outputs) => outputs,
                        Err(_) if side.is_some() => continue,
                        Err(error) => return Err(error),
                    };
                    for Output { name, expr, data_type } in outputs {
                        let output = bound.output(expr);
                        all.push((name, Typed::new(format!("s{number}.c{output}"), data_type)));
                    }
                }
            }
        }
        match (all.is_empty(), side) {
            (true, Some(side)) => Err(Error::new(format!("`{side}` is no table of this query"))),
            _ => Ok(all),
        }
    }

    /// Closes the last frame: what its sources hand over is known.
    pub fn leave(&mut self) -> Result<Frame, Error> {
        let mut frame = self.frames.pop().expect("a SELECT has a frame");
        for source in std::mem::take(&mut frame.sources) {
            let Is::Kiln(bound) = source.is else { continue };
            let Bound { mut from, types, mut outputs, input, filters } = *bound;
            let windowed = from.has_windows();
            let time = from.table.complete().filter(|_| !windowed && frame.hybrid.is_none());
            let time = time.map(|column| {
                let expr = Expr::Column(column);
                outputs.iter().position(|own| *own == expr).unwrap_or_else(|| {
                    outputs.push(expr);
                    outputs.len() - 1
                })
            });
            let conditions = std::mem::take(&mut from.conditions);
            let filter = Expr::all(from.table.only.iter().cloned().chain(conditions).chain(filters));
            let matches = std::mem::take(&mut from.matches);
            let query = match frame.hybrid.take() {
                Some(hybrid) => self.groups(&from, &types, hybrid),
                None => {
                    if outputs.is_empty() {
                        outputs.push(Expr::Literal(kiln_plan::Value::Uint(1)));
                    }
                    Query::new(from.table.clone(), Shape::Rows, named(outputs, &types))
                }
            };
            let flow = from.statement(Query { filter, matches, ..query })?;
            self.inputs[input] = Some(EngineInput { flow, time });
        }
        Ok(frame)
    }

    /// The query of Kiln's plan that makes groups.
    pub fn groups(&self, from: &From, types: &[DataType], hybrid: Hybrid) -> Query {
        let Hybrid { keys, aggregates } = hybrid;
        let of_keys = keys.iter().map(|key| key.data_type(types));
        let of_groups: Vec<DataType> =
            of_keys.chain(aggregates.iter().map(|aggregate| aggregate.data_type(types))).collect();
        let outputs = named((0..of_groups.len()).map(Expr::Column).collect(), &of_groups);
        let (window, session_ns) = match self.window {
            Some(Clause::Window(window)) => (Some(window), None),
            Some(Clause::Session(pause_ns)) => (None, Some(pause_ns)),
            _ => (None, None),
        };
        let groups = Groups { keys, aggregates, having: None, window, session_ns };
        Query::new(from.table.clone(), Shape::Groups(groups), outputs)
    }
}

/// What a column is that is no key.
const DIFFERS: &str = "differs between the rows of a group";

/// The error of a column that is no key.
fn differs(expr: &ast::Expr) -> Error {
    let error = Error::new(format!("`{expr}` {DIFFERS}"));
    error.help(format!("GROUP BY {expr}, or an aggregate such as max({expr})"))
}

/// Outputs with names that nobody reads.
fn named(outputs: Vec<Expr>, types: &[DataType]) -> Vec<Output> {
    let outputs = outputs.into_iter().enumerate();
    outputs.map(|(at, expr)| Output { name: format!("c{at}"), data_type: expr.data_type(types), expr }).collect()
}
