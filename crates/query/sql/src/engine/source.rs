//! What stands after `FROM`.

use sqlparser::ast::{self, JoinConstraint, JoinOperator, Spanned as _, TableFactor};

use super::frame::{Frame, Is, Source};
use super::translator::Translator;
use super::typed::Relation;
use crate::clauses;
use crate::error::Error;
use crate::from;

impl Translator<'_> {
    /// The sources of a `SELECT` as a new frame. Returns the text after `FROM`.
    pub(super) fn enter(&mut self, select: &ast::Select) -> Result<String, Error> {
        if select.from.is_empty() {
            self.frames.push(Frame::new(Vec::new()));
            return Ok(String::new());
        }
        let is_common = |factor: &TableFactor| match factor {
            TableFactor::Table { name, args: None, .. } => self.common_named(&from::name_of(name)).is_some(),
            _ => false,
        };
        let names_common = select
            .from
            .iter()
            .any(|from| is_common(&from.relation) || from.joins.iter().any(|join| is_common(&join.relation)));
        if !names_common {
            match from::bind(select, &self.scope()) {
                Ok(from) => {
                    let source = self.bound(from);
                    let text = self.text_of(&source);
                    self.frames.push(Frame::new(vec![source]));
                    return Ok(format!(" FROM {text}"));
                }
                Err(error) if error.is_beyond => {}
                Err(error) => return Err(error),
            }
        }
        self.frames.push(Frame::new(Vec::new()));
        let entered = self.sources_of(select);
        if entered.is_err() {
            self.frames.pop();
        }
        entered
    }

    /// The sources one by one, joined by the engine, added to the last frame.
    fn sources_of(&mut self, select: &ast::Select) -> Result<String, Error> {
        let mut text = String::new();
        for from in &select.from {
            if !text.is_empty() {
                text += ", ";
                self.in_each_row(None);
            }
            text += &self.factor(&from.relation)?;
            for join in &from.joins {
                let joined = self.join(join);
                text += &joined.map_err(|error| self.fail(join, error))?;
            }
        }
        let sources = &self.frame().sources;
        let events = sources.iter().filter(|source| matches!(source.is, Is::Kiln(_))).count();
        let engines = |source: &&Source| matches!(&source.is, Is::Engine { letter: 'o', .. });
        let others = sources.iter().filter(engines).count();
        let begins_with_rows = sources.first().is_some_and(|source| matches!(source.is, Is::Kiln(_)));
        self.each_row &= sources.len() == 1 || events == 1 && begins_with_rows && others == 0;
        if events > 1 && self.joins_events.is_none() {
            let error =
                Error::new("tables of events are joined within a time, or in windows, and this query has neither");
            let at = self.scope.places.bytes(select.from[0].span());
            let help = "a JOIN b ON a.pid = b.pid WITHIN 5 SECONDS, or WINDOW 1 SECOND at the end";
            self.joins_events = Some(Error { at, ..error.help(help) });
        }
        Ok(format!(" FROM {text}"))
    }

    /// Says whether the answer to each row is still what is asked: not after a join that shows rows without a match.
    fn in_each_row(&mut self, operator: Option<&JoinOperator>) {
        let keeps_right =
            matches!(operator, Some(JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)));
        self.each_row &= !keeps_right;
    }

    fn join(&mut self, join: &ast::Join) -> Result<String, Error> {
        let (word, constraint) = match &join.join_operator {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => ("JOIN", Some(constraint)),
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => ("LEFT JOIN", Some(constraint)),
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => ("RIGHT JOIN", Some(constraint)),
            JoinOperator::FullOuter(constraint) => ("FULL JOIN", Some(constraint)),
            JoinOperator::CrossJoin(_) => ("CROSS JOIN", None),
            _ => {
                return Err(Error::beyond("only JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN and CROSS JOIN are understood"));
            }
        };
        self.in_each_row(Some(&join.join_operator));
        self.frame_mut().keeps |= !matches!(word, "JOIN" | "CROSS JOIN");
        let before = self.frame().sources.len();
        let factor = self.factor(&join.relation)?;
        let on = match constraint {
            None | Some(JoinConstraint::None) => String::new(),
            Some(JoinConstraint::On(condition)) => format!(" ON {}", self.condition(condition)?),
            Some(JoinConstraint::Using(names)) if matches!(word, "JOIN" | "LEFT JOIN") => {
                let mut equal = Vec::new();
                for name in names {
                    let name = name.to_string();
                    let [left, right] = self.both_sides(before, &name)?;
                    equal.push(format!("{left} = {right}"));
                    self.frame_mut().using.push(name);
                }
                format!(" ON {}", equal.join(" AND "))
            }
            Some(_) => return Err(Error::new("RIGHT JOIN and FULL JOIN need ON").help("JOIN ... ON s.pid = p.pid")),
        };
        Ok(format!(" {word} {factor}{on}"))
    }

    /// A column of `USING` on both sides of a join; the sources from `split` on are the right side.
    fn both_sides(&mut self, split: usize, name: &str) -> Result<[String; 2], Error> {
        let at = self.frames.len() - 1;
        let mut side = |range: std::ops::Range<usize>| {
            let found = range.into_iter().find_map(|source| self.in_source(at, source, None, name).ok().flatten());
            found.map(|typed| typed.text).ok_or_else(|| Error::new(format!("no table before USING has `{name}`")))
        };
        Ok([side(0..split)?, side(split..split + 1)?])
    }

    /// One source, added to the last frame.
    fn factor(&mut self, factor: &TableFactor) -> Result<String, Error> {
        clauses::of_table(factor)?;
        let alias = |alias: &Option<ast::TableAlias>, otherwise: &str| {
            alias.as_ref().map_or_else(|| otherwise.to_owned(), |alias| alias.name.value.clone())
        };
        if let TableFactor::Table { name, alias: own, args: None, .. } = factor {
            let text = from::name_of(name);
            if let Some(common) = self.common_named(&text) {
                let (table, letter, columns) = (common.table.clone(), common.letter, common.columns.clone());
                return Ok(self.engines(&table, alias(own, &text), columns, letter));
            }
            if let Some(lookup) = self.scope().lookup(&text).cloned() {
                let columns = lookup.columns.iter().map(|(name, data_type, _)| (name.clone(), *data_type)).collect();
                let table = format!("l{}", self.lookup(lookup));
                return Ok(self.engines(&table, alias(own, &text), columns, 'c'));
            }
        }
        match (from::single(factor, &self.scope()), factor) {
            (Ok(from), _) => {
                let source = self.bound(from);
                let text = self.text_of(&source);
                self.frame_mut().sources.push(source);
                Ok(text)
            }
            (Err(error), TableFactor::Derived { subquery, alias: own, lateral: false, .. }) if error.is_beyond => {
                let Relation { text, mut columns, .. } = self.alone(|own| own.inner(subquery))?;
                let names = own.as_ref().map_or(&[][..], |alias| &alias.columns);
                columns.iter_mut().zip(names).for_each(|(own, name)| own.0 = name.name.value.clone());
                Ok(self.engines(&format!("({text})"), alias(own, "the subquery"), columns, 'o'))
            }
            (Err(error), _) => Err(error),
        }
    }
}
