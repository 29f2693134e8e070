//! `kiln query --format flame-graph` and `pprof`: the rows of a query as stacks, in one file.

use std::path::{Path, PathBuf};

use kiln_live::rows_file::folded::Folded;
use kiln_live::rows_file::{RowsFile, pprof};
use kiln_live::{ColumnHead, Row};
use kiln_program::Error;

use crate::{flame_graph, output};

/// What is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A flame graph as SVG.
    FlameGraph,
    /// A profile for pprof.
    Pprof,
}

struct StackFile {
    kind: Kind,
    title: String,
    path: PathBuf,
    folded: Folded,
}

/// Begins a file of rows with these columns; on standard output without a path. It is written when the query ends.
pub fn create(kind: Kind, title: &str, path: Option<&Path>, columns: &[ColumnHead]) -> Box<dyn RowsFile> {
    let (title, path) = (title.to_owned(), path.unwrap_or(Path::new("-")).to_path_buf());
    Box::new(StackFile { kind, title, path, folded: Folded::new(columns) })
}

impl RowsFile for StackFile {
    fn rows(&mut self, rows: Vec<Row>) -> Result<(), Error> {
        rows.iter().try_for_each(|row| self.folded.add(row))
    }

    fn finish(self: Box<Self>, elapsed_ns: u64) -> Result<(), Error> {
        let folded = &self.folded;
        let bytes = match self.kind {
            Kind::FlameGraph => {
                let stacks = folded.stacks().map(|(stack, weight)| (stack.to_owned(), weight));
                flame_graph::draw(&self.title, folded.counted(), stacks)?
            }
            Kind::Pprof => pprof::of(folded, elapsed_ns),
        };
        output::write_whole(&self.path, &bytes)
    }
}
