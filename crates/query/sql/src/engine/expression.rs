//! Expressions in the engine's dialect.

use kiln_plan::expr::{BinaryOp, Expr};
use kiln_plan::value::{DataType, Value};
use sqlparser::ast::{
    self, BinaryOperator, CeilFloorKind, DateTimeField, DuplicateTreatment, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, NamedWindowExpr, TrimWhereField, UnaryOperator, WindowFrameBound,
    WindowFrameUnits, WindowSpec, WindowType,
};

use super::constant::{constant, extracted};
use super::frame::{Is, Source};
use super::operator::{compared, comparison, is_text, of_numbers, refuse_wrong_constants};
use super::translator::Translator;
use super::typed::{Typed, common};
use super::{aggregate, cast, function};
use crate::clauses;
use crate::error::Error;
use crate::expression::{literal, operator, refuse_clauses, short_pattern, unknown};

impl Translator<'_> {
    /// An expression; errors say where in the query they are.
    pub(super) fn expr(&mut self, expr: &ast::Expr) -> Result<Typed, Error> {
        if let Some(known) = self.of_groups_already(expr).transpose() {
            return known.map_err(|error| self.fail(expr, error));
        }
        self.bare(expr).map_err(|error| self.fail(expr, error))
    }

    /// A condition: what is no truth value is one if it is a number other than zero.
    pub(super) fn condition(&mut self, expr: &ast::Expr) -> Result<String, Error> {
        let typed = self.expr(expr)?;
        Ok(match typed.data_type {
            DataType::Bool => typed.text,
            _ if typed.is_null => "NULL".to_owned(),
            DataType::Text | DataType::Histogram => {
                let message = format!("a condition is true or false, and this is {}", typed.data_type.name());
                return Err(self.fail(expr, Error::new(message)));
            }
            _ => format!("({} <> 0)", typed.text),
        })
    }

    /// A key or an aggregate of groups, as what it is of them.
    fn of_groups_already(&mut self, expr: &ast::Expr) -> Result<Option<Typed>, Error> {
        if matches!(expr, ast::Expr::Value(_) | ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)) {
            return Ok(None);
        }
        let Some(frame) = self.frames.last_mut() else { return Ok(None) };
        if frame.hybrid.is_some() {
            return self.of_hybrid(expr);
        }
        let Some(keys) = frame.keys.clone().filter(|keys| !frame.in_aggregate && !keys.is_empty()) else {
            return Ok(None);
        };
        // The expression as a key would be; subqueries are no keys.
        if matches!(expr, ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. }) {
            return Ok(None);
        }
        let (inputs, lookups, sources) = (self.inputs.len(), self.lookups.len(), self.sources);
        let (each_row, depth) = (self.each_row, self.frames.len());
        self.frame_mut().in_aggregate = true;
        let tried = self.bare(expr);
        self.frames.truncate(depth);
        self.frame_mut().in_aggregate = false;
        self.inputs.truncate(inputs);
        self.lookups.truncate(lookups);
        (self.sources, self.each_row) = (sources, each_row);
        Ok(tried.ok().filter(|typed| keys.contains(&typed.text)))
    }

    fn of_hybrid(&mut self, expr: &ast::Expr) -> Result<Option<Typed>, Error> {
        let scope = self.scope;
        let frame = self.frame_mut();
        let (Some(hybrid), [Source { number, is: Is::Kiln(bound) }]) = (&mut frame.hybrid, &frame.sources[..]) else {
            return Ok(None);
        };
        let binder = bound.binder(scope);
        if let ast::Expr::Function(function) = expr
            && let Some(own) = binder.aggregate(function)
        {
            let own = own?;
            let data_type = own.data_type(&bound.types);
            let at = hybrid.aggregates.iter().position(|known| *known == own).unwrap_or_else(|| {
                hybrid.aggregates.push(own);
                hybrid.aggregates.len() - 1
            });
            return Ok(Some(Typed::new(format!("s{number}.c{}", hybrid.keys.len() + at), data_type)));
        }
        let Ok(own) = binder.expr(expr) else { return Ok(None) };
        let key = hybrid.keys.iter().position(|key| *key == own);
        Ok(key.map(|key| Typed::new(format!("s{number}.c{key}"), own.data_type(&bound.types))))
    }

    // long: one arm for each form of expression
    fn bare(&mut self, expr: &ast::Expr) -> Result<Typed, Error> {
        let boolean = |text: String| Ok(Typed::new(text, DataType::Bool));
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match expr {
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::CompoundFieldAccess { .. } => {
                self.column(expr)
            }
            ast::Expr::Nested(inner) => self.expr(inner),
            ast::Expr::Value(value) => constant(&value.value),
            ast::Expr::Interval(_) => match crate::literal::interval(expr)? {
                Some(nanoseconds) => Ok(Typed::new(function::integer(nanoseconds), DataType::Uint)),
                None => Err(unknown(expr)),
            },
            ast::Expr::UnaryOp { op, expr: inner } => {
                refuse_wrong_constants(expr, &[inner])?;
                self.unary(expr, op, inner)
            }
            ast::Expr::BinaryOp { left, op, right } => {
                refuse_wrong_constants(expr, &[left, right])?;
                self.binary(left, op, right)
            }
            ast::Expr::IsNull(inner) => boolean(format!("({} IS NULL)", self.expr(inner)?.text)),
            ast::Expr::IsNotNull(inner) => boolean(format!("({} IS NOT NULL)", self.expr(inner)?.text)),
            ast::Expr::IsTrue(inner) => boolean(format!("({} IS TRUE)", self.condition(inner)?)),
            ast::Expr::IsNotTrue(inner) => boolean(format!("({} IS NOT TRUE)", self.condition(inner)?)),
            ast::Expr::IsFalse(inner) => boolean(format!("({} IS FALSE)", self.condition(inner)?)),
            ast::Expr::IsNotFalse(inner) => boolean(format!("({} IS NOT FALSE)", self.condition(inner)?)),
            ast::Expr::IsUnknown(inner) => boolean(format!("({} IS NULL)", self.condition(inner)?)),
            ast::Expr::IsNotUnknown(inner) => boolean(format!("({} IS NOT NULL)", self.condition(inner)?)),
            ast::Expr::IsDistinctFrom(one, other) => {
                let [one, other] = self.compared("IS DISTINCT FROM", one, other)?;
                boolean(format!("({one} IS NOT {other})"))
            }
            ast::Expr::IsNotDistinctFrom(one, other) => {
                let [one, other] = self.compared("IS NOT DISTINCT FROM", one, other)?;
                boolean(format!("({one} IS {other})"))
            }
            ast::Expr::Between { expr: inner, negated, low, high } => {
                let [inner, low, high] = [self.expr(inner)?, self.expr(low)?, self.expr(high)?];
                let [low, high] = [comparison(">=", &inner, &low)?, comparison("<=", &inner, &high)?];
                boolean(format!("({}({low} AND {high}))", not(negated)))
            }
            ast::Expr::InList { expr: inner, list, negated } => {
                let inner = self.expr(inner)?;
                let mut texts = Vec::new();
                for one in list {
                    let one = self.expr(one)?;
                    compared("IN", &inner, &one)?;
                    texts.push(one.text);
                }
                boolean(format!("({} {}IN ({}))", inner.text, not(negated), texts.join(", ")))
            }
            ast::Expr::InSubquery { expr: inner, subquery, negated } => {
                let inner = self.expr(inner)?;
                let (text, data_type) = self.subquery(subquery)?;
                compared("IN", &inner, &Typed::new("", data_type))?;
                boolean(format!("({} {}IN ({text}))", inner.text, not(negated)))
            }
            ast::Expr::Exists { subquery, negated } => {
                let relation = self.subquery(subquery)?;
                boolean(format!("({}EXISTS ({}))", not(negated), relation.0))
            }
            ast::Expr::Subquery(subquery) => {
                let (text, data_type) = self.subquery(subquery)?;
                Ok(Typed::new(format!("({text})"), data_type))
            }
            ast::Expr::Like { negated, any: false, expr: inner, pattern, escape_char } => {
                self.like(inner, pattern, escape_char.as_deref(), *negated, false)
            }
            ast::Expr::ILike { negated, any: false, expr: inner, pattern, escape_char } => {
                self.like(inner, pattern, escape_char.as_deref(), *negated, true)
            }
            ast::Expr::RLike { negated, expr: inner, pattern, .. } => self.regexp("k_regexp", inner, pattern, *negated),
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            ast::Expr::Cast { expr: inner, data_type, format: None, .. } => {
                let inner = self.expr(inner)?;
                let cast = cast::cast(&inner, data_type);
                cast.ok_or_else(|| Error::new(format!("there is no type `{data_type}` here")).help(cast::TYPES))
            }
            ast::Expr::Ceil { expr: inner, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                function::called("ceil", &[self.expr(inner)?])
            }
            ast::Expr::Floor { expr: inner, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                function::called("floor", &[self.expr(inner)?])
            }
            ast::Expr::Substring { expr: inner, substring_from, substring_for, .. } => {
                let mut operands = vec![self.expr(inner)?];
                operands.push(match substring_from {
                    Some(from) => self.expr(from)?,
                    None => Typed::new("1", DataType::Uint),
                });
                if let Some(length) = substring_for {
                    operands.push(self.expr(length)?);
                }
                function::called("substr", &operands)
            }
            ast::Expr::Position { expr: part, r#in } => {
                let operands = [self.expr(r#in)?, self.expr(part)?];
                function::called("instr", &operands)
            }
            ast::Expr::Trim { trim_where, trim_what, expr: inner, trim_characters } => {
                let name = match trim_where {
                    None | Some(TrimWhereField::Both) => "trim",
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                };
                let mut operands = vec![self.expr(inner)?];
                for what in trim_what.iter().map(|what| &**what).chain(trim_characters.iter().flatten()) {
                    operands.push(self.expr(what)?);
                }
                function::called(name, &operands)
            }
            ast::Expr::Extract { field, expr: inner, .. } => {
                let inner = self.expr(inner)?;
                function::of_no_calendar(&field.to_string(), &inner)?;
                extracted(field, &inner).ok_or_else(|| unknown(expr))
            }
            ast::Expr::Function(own) => self.function(own),
            _ => Err(unknown(expr)),
        }
    }

    fn function(&mut self, own: &ast::Function) -> Result<Typed, Error> {
        if let Some(over) = &own.over {
            return self.over(own, over);
        }
        if let Some(name) = aggregate::name_of(own) {
            return self.aggregate(own, &name);
        }
        let name = own.name.to_string().to_lowercase();
        function::check_name(&name).map_err(|error| self.fail(&own.name, error))?;
        clauses::of_function(own).map_err(|error| self.fail(own, error))?;
        if name == "date_part" {
            let operands = self.operands(own)?;
            if let [field, time] = &operands[..] {
                function::of_no_calendar(field.text.trim_matches('\''), time)?;
                let field = DateTimeField::Custom(ast::Ident::new(field.text.trim_matches('\'')));
                return extracted(&field, time).ok_or_else(|| Error::new(format!("`{own}` is not understood here")));
            }
        }
        self.call(own)
    }

    /// A query in an expression, with the type of its column.
    fn subquery(&mut self, query: &ast::Query) -> Result<(String, DataType), Error> {
        let before = self.inputs.len();
        let relation = self.inner(query)?;
        self.each_row &= self.inputs.len() == before;
        match &relation.columns[..] {
            [(_, data_type)] => Ok((relation.text, *data_type)),
            // EXISTS looks at no column.
            [(_, data_type), ..] => Ok((relation.text, *data_type)),
            [] => Err(Error::new("a query in an expression has one column")),
        }
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
    ) -> Result<Typed, Error> {
        let mut text = "CASE".to_owned();
        let mut all: Option<Typed> = None;
        let mut add = |own: &Typed| {
            all = Some(match all.take() {
                None => own.clone(),
                Some(one) => Typed { data_type: common(&one, own), is_null: one.is_null && own.is_null, ..one },
            });
        };
        for arm in conditions {
            let condition = match operand {
                None => self.condition(&arm.condition)?,
                Some(operand) => {
                    let [one, other] = self.compared("=", operand, &arm.condition)?;
                    format!("{one} = {other}")
                }
            };
            let result = self.expr(&arm.result)?;
            text += &format!(" WHEN {condition} THEN {}", result.text);
            add(&result);
        }
        if let Some(otherwise) = otherwise {
            let otherwise = self.expr(otherwise)?;
            text += &format!(" ELSE {}", otherwise.text);
            add(&otherwise);
        }
        let all = all.unwrap_or_else(|| Typed::new("", DataType::Text));
        Ok(Typed { text: format!("({text} END)"), ..all })
    }

    /// A call of a function of single values.
    fn call(&mut self, function: &ast::Function) -> Result<Typed, Error> {
        let name = function.name.to_string().to_lowercase();
        if let (true, FunctionArguments::List(list)) = (name.starts_with("regexp_"), &function.args)
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))) = list.args.get(1)
        {
            self.check_pattern(pattern)?;
        }
        let operands = self.operands(function)?;
        function::called(&name, &operands).map_err(|error| self.fail(&function.name, error))
    }

    /// The operands of a call.
    pub(super) fn operands(&mut self, function: &ast::Function) -> Result<Vec<Typed>, Error> {
        let FunctionArguments::List(list) = &function.args else {
            return Err(Error::beyond(format!("`{function}` is not understood here")));
        };
        let mut operands = Vec::new();
        for argument in &list.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(inner)) = argument else {
                return Err(Error::beyond(format!("`{argument}` is not understood here")));
            };
            operands.push(self.expr(inner)?);
        }
        Ok(operands)
    }

    pub(super) fn unary(&mut self, whole: &ast::Expr, op: &UnaryOperator, inner: &ast::Expr) -> Result<Typed, Error> {
        if let (UnaryOperator::Minus, ast::Expr::Value(value)) = (op, inner)
            && let Ok(Expr::Literal(Value::Uint(value))) = literal(&value.value)
            && value <= 1 << 63
        {
            let text = if value == 1 << 63 { "(-9223372036854775807 - 1)".to_owned() } else { format!("-{value}") };
            return Ok(Typed::new(text, if value == 0 { DataType::Uint } else { DataType::Int }));
        }
        match op {
            UnaryOperator::Not => Ok(Typed::new(format!("(NOT {})", self.condition(inner)?), DataType::Bool)),
            UnaryOperator::Plus => self.expr(inner),
            UnaryOperator::BitwiseNot => {
                let inner = self.expr(inner)?;
                let all_bits = Typed::new(function::integer(u64::MAX), DataType::Uint);
                match inner.data_type {
                    // The engine does not know an integer with a sign from one without: `k_xor` would give one without.
                    DataType::Int => of_numbers(BinaryOp::Subtract, &Typed::new("-1", DataType::Int), &inner),
                    _ => of_numbers(BinaryOp::BitXor, &inner, &all_bits),
                }
            }
            UnaryOperator::Minus => {
                let inner = self.expr(inner)?;
                function::numbers_only("`-`", std::slice::from_ref(&inner))?;
                let data_type = if inner.data_type == DataType::Float { DataType::Float } else { DataType::Int };
                Ok(Typed { text: format!("k_negate({})", inner.text), data_type, is_null: inner.is_null })
            }
            _ => Err(unknown(whole)),
        }
    }

    pub(super) fn binary(&mut self, left: &ast::Expr, op: &BinaryOperator, right: &ast::Expr) -> Result<Typed, Error> {
        use BinaryOperator as Sign;
        match op {
            Sign::And | Sign::Or => {
                let [one, other] = [self.condition(left)?, self.condition(right)?];
                return Ok(Typed::new(format!("({one} {op} {other})"), DataType::Bool));
            }
            Sign::StringConcat => {
                let [one, other] = [self.expr(left)?, self.expr(right)?].map(|one| function::as_text(&one));
                return Ok(Typed::new(format!("({one} || {other})"), DataType::Text));
            }
            Sign::PGRegexMatch | Sign::Regexp => return self.regexp("k_regexp", left, right, false),
            Sign::PGRegexIMatch => return self.regexp("k_regexp_i", left, right, false),
            Sign::PGRegexNotMatch => return self.regexp("k_regexp", left, right, true),
            Sign::PGRegexNotIMatch => return self.regexp("k_regexp_i", left, right, true),
            Sign::PGLikeMatch => return self.like(left, right, None, false, false),
            Sign::PGNotLikeMatch => return self.like(left, right, None, true, false),
            Sign::PGILikeMatch => return self.like(left, right, None, false, true),
            Sign::PGNotILikeMatch => return self.like(left, right, None, true, true),
            Sign::PGStartsWith => return function::called("starts_with", &[self.expr(left)?, self.expr(right)?]),
            Sign::Spaceship => {
                let [one, other] = self.compared("<=>", left, right)?;
                return Ok(Typed::new(format!("({one} IS {other})"), DataType::Bool));
            }
            _ => {}
        }
        let own = match op {
            Sign::DuckIntegerDivide | Sign::MyIntegerDivide => BinaryOp::Divide,
            _ => operator(op).ok_or_else(|| Error::beyond(format!("the operator `{op}` is not understood")))?,
        };
        if own.is_comparison() {
            let [one, other] = [self.expr(left)?, self.expr(right)?];
            return Ok(Typed::new(comparison(own.text(), &one, &other)?, DataType::Bool));
        }
        let [one, other] = [self.expr(left)?, self.expr(right)?];
        if own == BinaryOp::ShiftLeft && is_text(&one) && is_text(&other) {
            return function::called("cidr", &[one, other]);
        }
        of_numbers(own, &one, &other)
    }

    /// The operands of a comparison.
    pub(super) fn compared(&mut self, sign: &str, left: &ast::Expr, right: &ast::Expr) -> Result<[String; 2], Error> {
        compared(sign, &self.expr(left)?, &self.expr(right)?).map(|both| both.map(str::to_owned))
    }

    pub(super) fn like(
        &mut self,
        inner: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
        negated: bool,
        any_case: bool,
    ) -> Result<Typed, Error> {
        if let ast::Expr::Value(value) = pattern {
            short_pattern(&value.value)?;
        }
        let operands = [self.expr(inner)?, self.expr(pattern)?];
        let [one, pattern] = operands.map(|one| {
            let text = function::as_text(&one);
            if any_case { format!("k_lower({text})") } else { text }
        });
        let escape = match escape {
            None => String::new(),
            Some(escape) => {
                let escape = self.expr(escape)?.text;
                if any_case && escape.contains(char::is_alphabetic) {
                    return Err(Error::new("the ESCAPE of ILIKE is no letter, and a constant"));
                }
                format!(", {escape}")
            }
        };
        let not = if negated { "NOT " } else { "" };
        Ok(Typed::new(format!("({not}k_like({one}, {pattern}{escape}))"), DataType::Bool))
    }

    /// Refuses a constant that is no regular expression.
    pub(super) fn check_pattern(&self, pattern: &ast::Expr) -> Result<(), Error> {
        match pattern {
            ast::Expr::Nested(inner) => self.check_pattern(inner),
            ast::Expr::Value(value) => match (literal(&value.value)?, self.scope.engine) {
                (Expr::Literal(Value::Text(text)), Some(check)) => {
                    check(&text).map_err(|why| self.fail(pattern, Error::new(why)))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    pub(super) fn regexp(
        &mut self,
        name: &str,
        inner: &ast::Expr,
        pattern: &ast::Expr,
        negated: bool,
    ) -> Result<Typed, Error> {
        self.check_pattern(pattern)?;
        let [one, pattern] = [self.expr(inner)?, self.expr(pattern)?].map(|one| function::as_text(&one));
        let not = if negated { "NOT " } else { "" };
        Ok(Typed::new(format!("({not}{name}({one}, {pattern}))"), DataType::Bool))
    }

    /// An aggregate over groups.
    pub(super) fn aggregate(&mut self, function: &ast::Function, name: &str) -> Result<Typed, Error> {
        self.frame_mut().has_aggregate = true;
        if self.frame().hybrid.is_some() {
            // Kiln's groups have their keys, and not the rows that the engine would aggregate.
            return Err(Error::beyond(format!("`{function}` is of rows")));
        }
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
                    let known = aggregate::OVER_ONLY.iter().map(|(name, ..)| *name).chain(crate::functions::AGGREGATES);
                    let error = Error::new(format!("there is no function `{name}` with OVER"));
                    return Err(match crate::functions::similar(&name, known) {
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
            (true, own) if own.starts_with("k_") => {
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
