//! Rules as text: see [`crate::rule`] for the form.

use std::collections::HashMap;

use kiln_isa::{AluOp, JumpOp, Reg, RegSet, Width};

use crate::rule::definition::Rule;
use crate::rule::expression::{Condition, Expression};
use crate::rule::pattern::{Fields, HOLES, Immediate, Offset, Pattern, immediate_of};

/// Why a text is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RuleError {
    /// 1-based line.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// Stands for a placeholder in the text of an instruction while it is read.
const PLACEHOLDER: char = '$';

#[derive(Default)]
struct Reader {
    rule: Rule,
    immediates: HashMap<String, u8>,
    offsets: HashMap<String, u8>,
    arrow: bool,
}

/// Reads any number of rules. `#` begins a comment.
///
/// # Errors
/// A [`RuleError`] with the line.
pub fn parse_rules(text: &str) -> Result<Vec<Rule>, RuleError> {
    let mut rules = Vec::new();
    let mut reader: Option<Reader> = None;
    for (at, line) in text.lines().enumerate() {
        let error = |message: String| RuleError { line: at + 1, message };
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = line.strip_prefix("rule ") {
            if let Some(done) = reader.replace(Reader::default()) {
                rules.push(done.finish().map_err(error)?);
            }
            if let Some(reader) = &mut reader {
                reader.rule.name = name.trim().to_owned();
            }
            continue;
        }
        let reader = reader.as_mut().ok_or_else(|| error("expected `rule NAME`".to_owned()))?;
        reader.line(line).map_err(error)?;
    }
    if let Some(done) = reader {
        let error = |message| RuleError { line: text.lines().count(), message };
        rules.push(done.finish().map_err(error)?);
    }
    Ok(rules)
}

impl Reader {
    /// Returns the rule if it is complete.
    fn finish(self) -> Result<Rule, String> {
        if self.arrow { Ok(self.rule) } else { Err(format!("rule {} has no `=>`", self.rule.name)) }
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "=>" => self.arrow = true,
            "dead" => self.rule.dead = registers(rest)?,
            "narrow" => self.rule.narrow = registers(rest)?,
            "distinct" => self.rule.distinct = registers(rest)?,
            "fits" => {
                let expression = self.expression(rest)?;
                self.rule.conditions.push(Condition::Fits(expression));
            }
            "where" => {
                let condition = self.condition(rest)?;
                self.rule.conditions.push(condition);
            }
            _ => {
                let pattern = self.pattern(line)?;
                if self.arrow { self.rule.after.push(pattern) } else { self.rule.before.push(pattern) }
            }
        }
        Ok(())
    }

    /// An instruction of the rule with its placeholders.
    fn pattern(&mut self, line: &str) -> Result<Pattern, String> {
        let mut text = String::new();
        let (mut immediate, mut offset) = (Immediate::Literal, Offset::Literal);
        // All branches of a rule lead to one place outside.
        let branches = line.strip_suffix("goto out");
        let mut rest = branches.unwrap_or(line);
        while let Some(at) = rest.find(['$', '@']) {
            let (head, tail) = rest.split_at(at);
            text.push_str(head);
            text.push(PLACEHOLDER);
            let (sign, tail) = tail.split_at(1);
            if sign == "@" {
                let earlier = std::mem::replace(&mut offset, self.offset(tail, &mut rest)?);
                (earlier == Offset::Literal).then_some(()).ok_or("an instruction has one offset")?;
            } else {
                let earlier = std::mem::replace(&mut immediate, self.number(tail, &mut rest)?);
                (earlier == Immediate::Literal).then_some(()).ok_or("an instruction has one immediate")?;
            }
        }
        text.push_str(rest);
        if branches.is_some() {
            text.push_str("goto +0");
        }
        // A placeholder must be a whole field. So the line is read twice, with two numbers in its place, and the field
        // must have these numbers.
        let [one, two] = [1_i16, 2].map(|number| {
            let text = text.replace(PLACEHOLDER, &number.to_string());
            let insn = kiln_isa::text::parse(&text).map_err(|error| format!("`{line}`: {error}"))?;
            let mut pattern = Pattern::from(insn);
            let refused = || format!("`{line}`: a placeholder stands for an immediate or an offset");
            if immediate != Immediate::Literal {
                let known = immediate_of(&insn).filter(|own| *own == number.into());
                pattern = known.and_then(|_| pattern.with_immediate(immediate)).ok_or_else(refused)?;
            }
            if offset != Offset::Literal {
                let known = Fields::of(&insn).and_then(|fields| fields.offset).filter(|own| *own == number);
                pattern = known.and_then(|_| pattern.with_offset(offset)).ok_or_else(refused)?;
            }
            Ok::<Pattern, String>(pattern)
        });
        let pattern = one?;
        if two? == pattern { Ok(pattern) } else { Err(format!("`{line}`: a placeholder in a name")) }
    }

    /// `a` or `(a & b)`, after `$`.
    fn number<'t>(&mut self, text: &'t str, rest: &mut &'t str) -> Result<Immediate, String> {
        let Some(inner) = text.strip_prefix('(') else {
            let (name, tail) = name(text);
            *rest = tail;
            return Ok(Immediate::Hole(self.immediate(name)?));
        };
        if !self.arrow {
            return Err("only the new window computes immediates".to_owned());
        }
        let end = closing(inner).ok_or("an unclosed bracket")?;
        let number = self.rule.expressions.len();
        let expression = self.expression(&inner[..end])?;
        if number >= HOLES {
            return Err("too many expressions".to_owned());
        }
        self.rule.expressions.push(expression);
        *rest = &inner[end + 1..];
        Ok(Immediate::Expression(number as u8))
    }

    /// `o`, `o + 4`, `o - 4`.
    fn offset<'t>(&mut self, text: &'t str, rest: &mut &'t str) -> Result<Offset, String> {
        let (name, tail) = name(text);
        let fresh = self.offsets.len() as u8;
        let hole = *self.offsets.entry(name.to_owned()).or_insert(fresh);
        if usize::from(hole) >= HOLES {
            return Err("too many offsets".to_owned());
        }
        let trimmed = tail.trim_start();
        let sign = trimmed.chars().next().filter(|sign| ['+', '-'].contains(sign));
        let (plus, tail) = match sign {
            Some(sign) => {
                let digits = trimmed[1..].trim_start();
                let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
                let value: i16 = digits[..end].parse().map_err(|_| "expected a number behind the offset")?;
                (if sign == '-' { -value } else { value }, &digits[end..])
            }
            None => (0, tail),
        };
        let plus = i8::try_from(plus).map_err(|_| "at most 127 may be added to an offset")?;
        *rest = tail;
        Ok(Offset::Hole { hole, plus })
    }

    fn immediate(&mut self, name: &str) -> Result<u8, String> {
        if name.is_empty() {
            return Err("expected a name behind `$`".to_owned());
        }
        let fresh = self.immediates.len() as u8;
        if usize::from(fresh) >= HOLES && !self.immediates.contains_key(name) {
            return Err("too many immediates".to_owned());
        }
        if self.arrow && !self.immediates.contains_key(name) {
            return Err(format!("`{name}` is not in the old window"));
        }
        Ok(*self.immediates.entry(name.to_owned()).or_insert(fresh))
    }

    fn condition(&mut self, text: &str) -> Result<Condition, String> {
        // Longest symbols first: `s>=` before `>=` before `>`.
        let mut ops: Vec<_> = JumpOp::ALL.to_vec();
        ops.sort_by_key(|op| std::cmp::Reverse(op.row().symbol.len()));
        let found = ops.into_iter().filter(|op| *op != JumpOp::Set).find_map(|op| {
            let symbol = format!(" {} ", op.row().symbol);
            text.split_once(&symbol).map(|(left, right)| (op, left.to_owned(), right.to_owned()))
        });
        let (op, left, right) = found.ok_or("expected a comparison")?;
        Ok(Condition::Compare(op, Width::W64, self.expression(&left)?, self.expression(&right)?))
    }

    fn expression(&mut self, text: &str) -> Result<Expression, String> {
        let mut tokens = Tokens { text: text.trim(), left: OPERATIONS };
        let expression = self.binary(&mut tokens, 0)?;
        if tokens.text.is_empty() { Ok(expression) } else { Err(format!("did not expect `{}`", tokens.text)) }
    }

    fn binary(&mut self, tokens: &mut Tokens<'_>, level: usize) -> Result<Expression, String> {
        let Some(ops) = OPERATORS.get(level) else { return self.unary(tokens) };
        let mut left = self.binary(tokens, level + 1)?;
        while let Some((_, op)) = ops.iter().find(|(symbol, _)| tokens.text.starts_with(symbol)) {
            let symbol = ops.iter().find(|(_, other)| other == op).map_or(1, |(symbol, _)| symbol.len());
            tokens.skip(symbol);
            tokens.spend()?;
            let right = self.binary(tokens, level + 1)?;
            left = Expression::Operation(*op, Width::W64, left.into(), right.into());
        }
        Ok(left)
    }

    fn unary(&mut self, tokens: &mut Tokens<'_>) -> Result<Expression, String> {
        let first = tokens.text.chars().next().ok_or("expected a number, `$name`, or a register")?;
        let operation = |op, left, right| Ok(Expression::Operation(op, Width::W64, Box::new(left), Box::new(right)));
        if matches!(first, '(' | '-' | '~') {
            tokens.spend()?;
        }
        match first {
            '(' => {
                tokens.skip(1);
                let inner = self.binary(tokens, 0)?;
                if !tokens.text.starts_with(')') {
                    return Err("expected `)`".to_owned());
                }
                tokens.skip(1);
                Ok(inner)
            }
            '-' => {
                tokens.skip(1);
                operation(AluOp::Sub, Expression::Constant(0), self.unary(tokens)?)
            }
            '~' => {
                tokens.skip(1);
                operation(AluOp::Xor, self.unary(tokens)?, Expression::Constant(-1))
            }
            '0'..='9' => {
                let word = tokens.word();
                let value = match word.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).map(|value| value as i64),
                    None => word.parse(),
                };
                Ok(Expression::Constant(value.map_err(|_| format!("`{word}` is no number"))?))
            }
            _ => {
                if first == '$' {
                    tokens.skip(1);
                }
                let word = tokens.word();
                match register(word) {
                    Some(reg) if first != '$' => Ok(Expression::Register(reg)),
                    _ => Ok(Expression::Immediate(self.immediate(word)?)),
                }
            }
        }
    }
}

/// From what binds loosest to what binds tightest, as in C.
const OPERATORS: &[&[(&str, AluOp)]] = &[
    &[("|", AluOp::Or)],
    &[("^", AluOp::Xor)],
    &[("&", AluOp::And)],
    &[("<<", AluOp::Lsh), (">>", AluOp::Rsh)],
    &[("+", AluOp::Add), ("-", AluOp::Sub)],
    &[("*", AluOp::Mul)],
];

struct Tokens<'t> {
    text: &'t str,
    /// Operations and brackets that are still allowed.
    left: u32,
}

/// Maximum number of operations and brackets in an expression, so that hostile text cannot nest without end.
const OPERATIONS: u32 = 64;

impl<'t> Tokens<'t> {
    fn spend(&mut self) -> Result<(), String> {
        self.left = self.left.checked_sub(1).ok_or("the expression is too long")?;
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.text = self.text[bytes..].trim_start();
    }

    fn word(&mut self) -> &'t str {
        let (word, _) = name(self.text);
        self.skip(word.len());
        word
    }
}

/// A leading name or number, and what follows it.
fn name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

/// Where the bracket that was opened before the text closes.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn register(word: &str) -> Option<Reg> {
    Reg::new(word.strip_prefix('r')?.parse().ok()?)
}

fn registers(text: &str) -> Result<RegSet, String> {
    let one = |word: &str| register(word).ok_or_else(|| format!("`{word}` is no register"));
    text.split_whitespace().map(one).collect()
}
