//! The state of a translation.

use kiln_plan::flow::{EngineInput, Flow};
use kiln_plan::lookup::Lookup;
use kiln_plan::value::DataType;
use sqlparser::ast::Spanned;

use super::frame::{Bound, Frame, Is, Source};
use crate::bind::Scope;
use crate::error::Error;
use crate::from::From;
use crate::window::Clause;

/// A query of `WITH`.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub name: String,
    /// What the engine calls it, and the letter that its columns' names begin with.
    pub table: String,
    pub letter: char,
    pub columns: Vec<(String, DataType)>,
}

pub(super) struct Translator<'a> {
    pub scope: &'a Scope<'a>,
    /// Queries of `WITH` that Kiln's plans express.
    pub named: Vec<(String, Flow)>,
    /// The others, and those that group.
    pub common: Vec<Common>,
    /// The query that has the engine's `WITH`, in its order.
    pub with: Vec<String>,
    pub inputs: Vec<Option<EngineInput>>,
    pub lookups: Vec<Lookup>,
    pub sources: usize,
    pub frames: Vec<Frame>,
    pub window: Option<Clause>,
    /// Whether the answer to some rows is that to each of them.
    pub each_row: bool,
    /// A join of tables of events without a time.
    pub joins_events: Option<Error>,
}

impl Translator<'_> {
    /// The scope with the queries of `WITH` so far.
    pub fn scope(&self) -> Scope<'_> {
        Scope { named: &self.named, ..*self.scope }
    }

    pub fn fail(&self, at: &impl Spanned, error: Error) -> Error {
        match error.at {
            None => Error { at: self.scope.places.bytes(at.span()), ..error },
            Some(_) => error,
        }
    }

    pub fn common_named(&self, name: &str) -> Option<&Common> {
        self.common.iter().rfind(|common| common.name.eq_ignore_ascii_case(name))
    }

    pub fn bound(&mut self, from: From) -> Source {
        let types = from.table.types();
        let input = self.inputs.len();
        self.inputs.push(None);
        let bound = Bound { from, types, outputs: Vec::new(), input, filters: Vec::new() };
        self.sources += 1;
        Source { number: self.sources - 1, is: Is::Kiln(Box::new(bound)) }
    }

    pub fn text_of(&self, source: &Source) -> String {
        match &source.is {
            Is::Kiln(bound) => format!("t{} AS s{}", bound.input, source.number),
            Is::Engine { .. } => String::new(),
        }
    }

    /// Translates what does not see the sources of the query around it.
    pub fn alone<T>(&mut self, translate: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let frames = std::mem::take(&mut self.frames);
        let translated = translate(self);
        self.frames = frames;
        translated
    }

    pub fn engines(&mut self, table: &str, name: String, columns: Vec<(String, DataType)>, letter: char) -> String {
        let number = self.sources;
        self.sources += 1;
        self.frame_mut().sources.push(Source { number, is: Is::Engine { name, columns, letter } });
        format!("{table} AS s{number}")
    }

    pub fn lookup(&mut self, lookup: Lookup) -> usize {
        self.lookups.iter().position(|own| *own == lookup).unwrap_or_else(|| {
            self.lookups.push(lookup);
            self.lookups.len() - 1
        })
    }

    pub fn frame(&self) -> &Frame {
        self.frames.last().expect("a SELECT has a frame")
    }

    pub fn frame_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a SELECT has a frame")
    }
}
