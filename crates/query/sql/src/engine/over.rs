//! Aggregates, and functions with `OVER`, in the engine's dialect.

use sqlparser::ast::{
    self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, NamedWindowExpr,
    WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

use super::aggregate;
use super::translator::Translator;
use super::typed::Typed;
use crate::error::Error;
use crate::expression::refuse_clauses;

impl Translator<'_> {
    /// An aggregate over groups.
    pub(super) fn aggregate(&mut self, function: &ast::Function, name: &str) -> Result<Typed, Error> {
        self.frame_mut().has_aggregate = true;
        if self.frame().in_aggregate {
            let error = Error::new(format!("`{function}` is computed of many rows and cannot stand here"));
            return Err(self.fail(function, error.help("conditions on aggregates go into HAVING")));
        }
        self.frame_mut().in_aggregate = true;
        let bound = self.aggregate_of(function, name, false);
        self.frame_mut().in_aggregate = false;
        bound.map_err(|error| self.fail(function, error))
    }

    /// A function with `OVER`.
    pub(super) fn over(&mut self, function: &ast::Function, over: &WindowType) -> Result<Typed, Error> {
        self.each_row = false;
        let name = function.name.to_string().to_lowercase();
        let call = match aggregate::OVER_ONLY.iter().find(|(own, ..)| *own == name) {
            Some((_, counts, data_type)) => {
                if let FunctionArguments::List(list) = &function.args {
                    refuse_clauses(function, list)?;
                }
                let operands = self.operands(function)?;
                if operands.len() < counts[0] || operands.len() > counts[1] {
                    return Err(Error::new(format!("{name} takes {} to {} operands", counts[0], counts[1])));
                }
                let list: Vec<&str> = operands.iter().map(|one| one.text.as_str()).collect();
                let data_type = data_type.unwrap_or_else(|| operands[0].data_type);
                Typed::new(format!("{name}({})", list.join(", ")), data_type)
            }
            None => {
                let Some(name) = aggregate::name_of(function) else {
                    let known =
                        aggregate::OVER_ONLY.iter().map(|(name, ..)| *name).chain(crate::expression::AGGREGATES);
                    let error = Error::new(format!("there is no function `{name}` with OVER"));
                    return Err(match crate::expression::similar(&name, known) {
                        Some(help) => error.help(help),
                        None => error,
                    });
                };
                self.aggregate_of(function, &name, true)?
            }
        };
        let window = self.window_of(over)?;
        Ok(Typed { text: format!("{} OVER ({window})", call.text), ..call })
    }

    fn aggregate_of(&mut self, function: &ast::Function, name: &str, is_over: bool) -> Result<Typed, Error> {
        let FunctionArguments::List(list) = &function.args else {
            return Err(Error::new(format!("{name} takes what it is computed of in parentheses")));
        };
        refuse_clauses(function, list)?;
        let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        let mut operands = Vec::new();
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => operands.push(self.expr(expr)?),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" && !is_distinct => {}
                _ => return Err(Error::new(format!("{name} does not take `{argument}`"))),
            }
        }
        if !function.within_group.is_empty() {
            let [level] = &function.within_group[..] else {
                return Err(Error::new(format!("{name} is ordered by one expression")));
            };
            operands.insert(0, self.expr(&level.expr)?);
            if let (Some(ast::OrderBySort::Desc), Some(part)) = (&level.options.sort, operands.get_mut(1)) {
                part.text = format!("k_subtract(1.0, {})", part.text);
            }
        }
        let (own, operands, data_type) = aggregate::engines(name, operands)?;
        let order = match list.clauses.first() {
            Some(FunctionArgumentClause::OrderBy(_)) if is_over => {
                return Err(Error::new(format!("{name} with OVER is ordered in the window alone")));
            }
            Some(FunctionArgumentClause::OrderBy(levels)) => format!(" ORDER BY {}", self.order_within(levels)?),
            _ => String::new(),
        };
        if is_distinct && operands.len() > 1 {
            return Err(Error::new(format!("{name} does not take DISTINCT")));
        }
        let own = match (is_over, own) {
            (true, "k_sum" | "k_avg" | "k_stddev" | "k_quantile") => format!("{own}_over"),
            (true, "k_histogram" | "k_top_k" | "k_approx_distinct") => {
                return Err(Error::new(format!("{name} does not go with OVER")));
            }
            _ => own.to_owned(),
        };
        let distinct = if is_distinct { "DISTINCT " } else { "" };
        let list = if operands.is_empty() { "*".to_owned() } else { operands.join(", ") };
        let filter = match &function.filter {
            None => String::new(),
            Some(filter) => format!(" FILTER (WHERE {})", self.condition(filter)?),
        };
        Ok(Typed::new(format!("{own}({distinct}{list}{order}){filter}"), data_type))
    }

    fn window_of(&mut self, over: &WindowType) -> Result<String, Error> {
        match over {
            WindowType::WindowSpec(spec) => self.window_spec(spec),
            WindowType::NamedWindow(name) => {
                let windows = self.frame().windows.clone();
                let found = windows.iter().find(|window| window.0.value.eq_ignore_ascii_case(&name.value));
                match found.map(|window| &window.1) {
                    Some(NamedWindowExpr::WindowSpec(spec)) => self.window_spec(spec),
                    _ => Err(Error::new(format!("there is no window `{name}`"))),
                }
            }
        }
    }

    fn window_spec(&mut self, spec: &WindowSpec) -> Result<String, Error> {
        if spec.window_name.is_some() {
            return Err(Error::new("a window that extends another one is not understood"));
        }
        let mut parts = Vec::new();
        if !spec.partition_by.is_empty() {
            let by = spec.partition_by.iter().map(|expr| Ok(self.expr(expr)?.text));
            parts.push(format!("PARTITION BY {}", by.collect::<Result<Vec<_>, Error>>()?.join(", ")));
        }
        if !spec.order_by.is_empty() {
            parts.push(format!("ORDER BY {}", self.order_within(&spec.order_by)?));
        }
        if let Some(frame) = &spec.window_frame {
            let units = match frame.units {
                WindowFrameUnits::Rows => "ROWS",
                WindowFrameUnits::Range => "RANGE",
                WindowFrameUnits::Groups => "GROUPS",
            };
            let start = self.bound_of(&frame.start_bound)?;
            parts.push(match &frame.end_bound {
                None => format!("{units} {start}"),
                Some(end) => format!("{units} BETWEEN {start} AND {}", self.bound_of(end)?),
            });
        }
        Ok(parts.join(" "))
    }

    fn bound_of(&mut self, bound: &WindowFrameBound) -> Result<String, Error> {
        let (distance, word) = match bound {
            WindowFrameBound::CurrentRow => return Ok("CURRENT ROW".to_owned()),
            WindowFrameBound::Preceding(distance) => (distance, "PRECEDING"),
            WindowFrameBound::Following(distance) => (distance, "FOLLOWING"),
        };
        match distance {
            None => Ok(format!("UNBOUNDED {word}")),
            Some(distance) => Ok(format!("{} {word}", self.expr(distance)?.text)),
        }
    }
}
