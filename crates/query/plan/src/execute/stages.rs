//! Queries over the rows of another query: subqueries that cannot be merged with the outer query.
//!
//! ```text
//!   rows of the innermost query --stage--> rows --stage--> rows of the result
//! ```
//!
//! If the inner query has windows, the next stage runs once for each closed window, on the rows of that window.
//! Otherwise a stage processes rows as they arrive, and ends with the query.

use super::groups::Refused;
use super::{Executor, Limits, Lost, Row};
use crate::query::Query;

/// The stages of a statement, after its innermost query.
pub struct Stages {
    stages: Vec<Executor>,
    limits: Limits,
    /// What was lost in closed windows.
    lost: Lost,
    /// For each stage: groups that found no room in closed windows.
    refused: Vec<Option<Refused>>,
}

impl Stages {
    /// Stages, the innermost first.
    pub fn new(queries: &[Query], limits: Limits) -> Stages {
        let stage = |query: &Query| Executor::of_rows(query.clone(), limits);
        let refused = vec![None; queries.len()];
        Stages { stages: queries.iter().map(stage).collect(), limits, lost: Lost::default(), refused }
    }

    /// Passes rows on; `is_over` says that there are no more. Returns the rows of the result that are ready.
    pub fn pass(&mut self, mut rows: Vec<Row>, is_over: bool) -> Vec<Row> {
        for (stage, refused) in self.stages.iter_mut().zip(&mut self.refused) {
            let mut passed = Vec::new();
            for rows in rows.chunk_by(|one, other| one.window == other.window) {
                match rows[0].window.filter(|_| stage.query().of_windows) {
                    Some(window) => {
                        let mut own = Executor::of_rows(stage.query().clone(), self.limits);
                        rows.iter().for_each(|row| own.row(row.values.clone()));
                        own.finish();
                        self.lost.add(own.lost());
                        Refused::note_all(refused, own.refused.take());
                        passed.extend(own.take_rows().into_iter().map(|row| Row { window: Some(window), ..row }));
                    }
                    None => {
                        rows.iter().for_each(|row| stage.row(row.values.clone()));
                        stage.advance_to_latest();
                    }
                }
            }
            if is_over && !stage.query().of_windows {
                stage.finish();
            }
            passed.append(&mut stage.take_rows());
            rows = passed;
        }
        rows
    }

    /// Whether no further row will be shown.
    pub fn is_done(&self) -> bool {
        self.stages.iter().any(|stage| !stage.query().of_windows && stage.is_done())
    }

    /// Sentences about the groups that found no room so far.
    pub fn refused(&self) -> Vec<String> {
        let of_windows = self.stages.iter().zip(&self.refused);
        let of_windows = of_windows.filter_map(|(stage, own)| own.as_ref().map(|own| own.sentence(stage.query())));
        self.stages.iter().filter_map(Executor::refused).chain(of_windows).collect()
    }

    /// What was lost so far.
    pub fn lost(&self) -> Lost {
        let mut lost = self.lost;
        self.stages.iter().for_each(|stage| lost.add(stage.lost()));
        lost
    }
}
