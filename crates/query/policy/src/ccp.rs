//! Congestion control policies as text: the lists of CCP's datapath programs.
//!
//! ```text
//!   ; at most half as much after a loss
//!   (def (Report (volatile acked 0)) (epoch 0))
//!   (when true (:= acked (+ acked Ack.bytes_acked)) (fallthrough))
//!   (when (> Ack.lost_pkts_sample 0) (:= Cwnd (/ Cwnd 2)) (report))
//! ```
//!
//! `(def NAME ...)` of CCP, `(Report ...)` with `volatile` variables, `when`, `:=`, `report` and `fallthrough` are
//! understood, and `+ - * / min max if < <= > >= == != && || !`. `(user ...)` and `(on-report CONDITION ...)` are Kiln's own: the
//! part for user space, which has floating-point numbers and `sqrt cbrt exp ln power` too.

use std::ops::Range;

use kiln_plan::congestion::{
    Clause, MAX_CLAUSES, MAX_REPORTS, MAX_USER_VARIABLES, MAX_VARIABLES, Place, Policy, Signal, Step, UserVariable,
    Variable,
};
use kiln_plan::expr::{BinaryOp, Expr, Function};
use kiln_plan::value::{DataType, Value};

use kiln_sql::{Error, MAX_BYTES, MAX_TOKENS, similar};

/// Lists within lists at most.
const MAX_DEPTH: usize = 32;

/// Reads a policy.
///
/// ```
/// let policy = kiln_policy::ccp::parse("(when true (:= Cwnd (+ Cwnd Ack.bytes_acked)))")?;
/// assert_eq!(policy.clauses.len(), 1);
/// let wrong = kiln_policy::ccp::parse("(when true (:= Cwnd Ack.bytes_aked))").unwrap_err();
/// assert_eq!(wrong.help.as_deref(), Some("did you mean `Ack.bytes_acked`?"));
/// # Ok::<(), kiln_sql::Error>(())
/// ```
///
/// # Errors
/// Returns the first error with its place.
pub fn parse(text: &str) -> Result<Policy, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::new(format!("the policy is longer than {MAX_BYTES} bytes")));
    }
    let mut policy = Policy::default();
    // What stands once, before the clauses.
    let mut defined = Vec::new();
    for form in forms(text)? {
        let (head, rest) = form.list("(def ...) or (when ...)")?;
        let has_clauses = !policy.clauses.is_empty() || !policy.on_report.is_empty();
        match head {
            "def" | "user" if has_clauses || defined.contains(&head) => {
                return Err(form.error(format!("({head} ...) stands once, before the clauses")));
            }
            "def" if !defined.is_empty() => return Err(form.error("(def ...) stands before (user ...)")),
            "def" => define(&mut policy, rest)?,
            "user" => rest.iter().try_for_each(|form| user_variable(&mut policy, form))?,
            "when" => {
                let clause = Scope { policy: &policy, at_report: false }.clause(&form, rest)?;
                policy.clauses.push(clause);
            }
            "on-report" => {
                let clause = Scope { policy: &policy, at_report: true }.clause(&form, rest)?;
                policy.on_report.push(clause);
            }
            other => return Err(form.error(format!("`{other}` is none of def, user, when and on-report"))),
        }
        defined.push(head);
        if policy.clauses.len() > MAX_CLAUSES || policy.on_report.len() > MAX_CLAUSES {
            return Err(form.error(format!("a policy has {MAX_CLAUSES} clauses at most")));
        }
        if policy.reports() > MAX_REPORTS {
            return Err(form.error(format!("a policy has (report) {MAX_REPORTS} times at most")));
        }
        if policy.reports() == 0 && head == "on-report" {
            return Err(form.error("nothing reports: a (when ...) with (report) is missing before this"));
        }
    }
    if policy.clauses.is_empty() {
        let error = Error::new("a policy has a clause");
        return Err(error.help("(when true (:= Cwnd (+ Cwnd Ack.bytes_acked)))"));
    }
    Ok(policy)
}

/// A word or a list, with its place.
struct Form<'t> {
    at: Range<usize>,
    what: What<'t>,
}

enum What<'t> {
    Word(&'t str),
    List(Vec<Form<'t>>),
}

impl<'t> Form<'t> {
    fn error(&self, message: impl Into<String>) -> Error {
        Error { at: Some(self.at.clone()), ..Error::new(message) }
    }

    fn word(&self, expected: &str) -> Result<&'t str, Error> {
        match self.what {
            What::Word(word) => Ok(word),
            What::List(_) => Err(self.error(format!("{expected} is expected here"))),
        }
    }

    /// A list's first word, and what follows it.
    fn list(&self, expected: &str) -> Result<(&'t str, &[Form<'t>]), Error> {
        match &self.what {
            What::List(forms) if !forms.is_empty() => Ok((forms[0].word(expected)?, &forms[1..])),
            _ => Err(self.error(format!("{expected} is expected here"))),
        }
    }
}

/// Splits a text into lists and words. A comment begins with `;` or `#`.
fn forms(text: &str) -> Result<Vec<Form<'_>>, Error> {
    // The lists around this place: where each begins, and what it has so far.
    let mut outer: Vec<(usize, Vec<Form<'_>>)> = Vec::new();
    let mut forms = Vec::new();
    let (mut at, mut count) = (0, 0);
    while let Some(letter) = text[at..].chars().next() {
        let rest = &text[at..];
        let ends = |it: char| it.is_whitespace() || matches!(it, '(' | ')' | ';' | '#');
        let bytes = match letter {
            ';' | '#' => rest.find('\n').unwrap_or(rest.len()),
            _ if ends(letter) => letter.len_utf8(),
            _ => rest.find(ends).unwrap_or(rest.len()),
        };
        let place = at..at + bytes;
        let failed = |message: &str| Err(Error { at: Some(place.clone()), ..Error::new(message) });
        count += usize::from(!letter.is_whitespace());
        if count > MAX_TOKENS || outer.len() > MAX_DEPTH {
            return failed(&format!(
                "more than {MAX_TOKENS} words and signs, or more than {MAX_DEPTH} lists in each other"
            ));
        }
        match letter {
            '(' => outer.push((at, std::mem::take(&mut forms))),
            ')' => {
                let Some((begin, before)) = outer.pop() else { return failed("this closes nothing") };
                let list = std::mem::replace(&mut forms, before);
                forms.push(Form { at: begin..at + 1, what: What::List(list) });
            }
            _ if ends(letter) => {}
            _ => forms.push(Form { at: place, what: What::Word(&text[at..at + bytes]) }),
        }
        at += bytes;
    }
    match outer.pop() {
        Some((begin, _)) => Err(Error { at: Some(begin..begin + 1), ..Error::new("this is not closed") }),
        None => Ok(forms),
    }
}

/// `(Report (volatile acked 0) (rtt +infinity)) (epoch 0)`, with or without CCP's name in front.
fn define(policy: &mut Policy, forms: &[Form<'_>]) -> Result<(), Error> {
    for form in forms {
        match form.list("a variable such as (name 0)") {
            Ok(("Report", reported)) => {
                for form in reported {
                    variable(policy, form, true)?;
                }
            }
            _ => variable(policy, form, false)?,
        }
    }
    Ok(())
}

/// Checks that a name is free.
fn free(policy: &Policy, form: &Form<'_>, name: &str) -> Result<(), Error> {
    let known = place(policy, name).is_some() || signal(name).is_some() || literal(name).is_some();
    if known || matches!(name, "true" | "false") {
        return Err(form.error(format!("`{name}` is defined already")));
    }
    Ok(())
}

/// `(name 0)`, `(volatile name 0)`.
fn variable(policy: &mut Policy, form: &Form<'_>, is_reported: bool) -> Result<(), Error> {
    let (first, rest) = form.list("a variable such as (name 0)")?;
    let (is_volatile, name, value) = match rest {
        [value] => (false, first, value),
        [name, value] if first == "volatile" => (true, name.word("a name")?, value),
        _ => return Err(form.error("a variable has a name and an initial value, such as (acked 0)")),
    };
    free(policy, form, name)?;
    if policy.variables.len() == MAX_VARIABLES {
        return Err(
            form.error(format!("a policy has {MAX_VARIABLES} variables at most: a connection has no room for more"))
        );
    }
    let initial = constant(value.word("a number")?);
    let initial = initial.ok_or_else(|| value.error("a whole number, or +infinity, is expected here"))?;
    policy.variables.push(Variable { name: name.to_owned(), initial, is_reported, is_volatile });
    Ok(())
}

/// `(name 0.5)`.
fn user_variable(policy: &mut Policy, form: &Form<'_>) -> Result<(), Error> {
    let (name, [value]) = form.list("a variable such as (name 0.5)")? else {
        return Err(form.error("a variable has a name and an initial value, such as (most 0)"));
    };
    free(policy, form, name)?;
    if policy.user_variables.len() == MAX_USER_VARIABLES {
        return Err(form.error(format!("a policy has {MAX_USER_VARIABLES} variables in user space at most")));
    }
    let initial = literal(value.word("a number")?).and_then(|value| value.as_float());
    let initial = initial.ok_or_else(|| value.error("a number is expected here"))?;
    policy.user_variables.push(UserVariable { name: name.to_owned(), initial });
    Ok(())
}

fn constant(word: &str) -> Option<u64> {
    if word.eq_ignore_ascii_case("+infinity") { Some(u64::MAX) } else { word.parse().ok() }
}

/// A whole number, or a floating-point number such as `0.5`, `-1` and `1e6`.
fn literal(word: &str) -> Option<Value> {
    let is_number = word.trim_start_matches(['-', '.']).starts_with(|letter: char| letter.is_ascii_digit());
    let float = || word.parse().ok().filter(|number: &f64| is_number && number.is_finite()).map(Value::Float);
    constant(word).map(Value::Uint).or_else(float)
}

fn signal(word: &str) -> Option<usize> {
    Signal::ALL.iter().position(|(_, name, _)| *name == word)
}

/// What a word names that can be set. CCP writes `Report.acked` for a reported variable.
fn place(policy: &Policy, word: &str) -> Option<Place> {
    let named = Place::NAMED.into_iter().find(|(_, name, _)| *name == word).map(|(place, ..)| place);
    let own = word.strip_prefix("Report.");
    let is = |variable: &Variable| {
        variable.name == word || variable.is_reported && own.is_some_and(|own| variable.name == own)
    };
    let user = || policy.user_variables.iter().position(|variable| variable.name == word).map(Place::User);
    named.or_else(|| policy.variables.iter().position(is).map(Place::Variable)).or_else(user)
}

/// Where an expression stands.
#[derive(Clone, Copy)]
struct Scope<'p> {
    policy: &'p Policy,
    /// Whether it is carried out at a report.
    at_report: bool,
}

impl Scope<'_> {
    /// The error of a word that means nothing.
    fn unknown(self, form: &Form<'_>, word: &str) -> Error {
        let signals = Signal::ALL.into_iter().map(|(_, name, _)| name);
        let places = Place::NAMED.into_iter().map(|(_, name, _)| name);
        let variables = self.policy.variables.iter().map(|variable| variable.name.as_str());
        let user = self.policy.user_variables.iter().map(|variable| variable.name.as_str());
        let user = user.filter(|_| self.at_report);
        let listed = || Some("`kiln congestion --signals` lists what can be read and set".to_owned());
        let help = similar(word, signals.chain(places).chain(variables).chain(user)).or_else(listed);
        Error { help, ..form.error(format!("`{word}` is neither a number nor known here")) }
    }

    /// The error of what only clauses at reports have.
    fn only_at_reports(form: &Form<'_>, what: &str) -> Error {
        form.error(format!("{what}, which only (on-report ...) has"))
    }

    /// What a word names that can be set here.
    fn place(self, form: &Form<'_>, word: &str) -> Result<Option<Place>, Error> {
        match place(self.policy, word) {
            Some(Place::User(_)) if !self.at_report => {
                Err(Scope::only_at_reports(form, &format!("`{word}` is kept in user space")))
            }
            found => Ok(found),
        }
    }

    fn clause(self, form: &Form<'_>, rest: &[Form<'_>]) -> Result<Clause, Error> {
        let expected = || form.error("a condition and steps are expected, such as (when CONDITION ...)");
        let (condition, steps) = rest.split_first().ok_or_else(expected)?;
        let mut clause = Clause { when: self.truth(condition)?, steps: Vec::new(), falls_through: false };
        for step in steps {
            if clause.falls_through {
                return Err(step.error("(fallthrough) stands last"));
            }
            match step.list("a step such as (:= Cwnd ...)")? {
                ("fallthrough", []) => clause.falls_through = true,
                ("report", []) if self.at_report => return Err(step.error("a report does not report")),
                ("report", []) if self.policy.variables.iter().any(|variable| variable.is_reported) => {
                    clause.steps.push(Step::Report);
                }
                ("report", []) => return Err(step.error("nothing is reported: (def (Report ...)) is missing")),
                (":=" | "bind", [to, value]) => {
                    let word = to.word("what is set")?;
                    if signal(word).is_some() {
                        return Err(to.error(format!("`{word}` is read and cannot be set")));
                    }
                    let place = self.place(to, word)?.ok_or_else(|| self.unknown(to, word))?;
                    clause.steps.push(Step::Assign(place, self.number(value)?));
                }
                (other, _) => {
                    let error = step.error(format!("`({other} ...)` is no step"));
                    return Err(error.help("steps are (:= NAME VALUE), (report) and (fallthrough)"));
                }
            }
        }
        Ok(clause)
    }

    /// A number: a word, or an operation.
    fn number(self, form: &Form<'_>) -> Result<Expr, Error> {
        if let What::Word(word) = form.what {
            return match literal(word) {
                Some(Value::Float(_)) if !self.at_report => {
                    Err(Scope::only_at_reports(form, &format!("`{word}` is a floating-point number")))
                }
                Some(value) => Ok(Expr::Literal(value)),
                None => {
                    let column = match signal(word) {
                        Some(column) => Some(column),
                        None => self.place(form, word)?.map(Place::column),
                    };
                    column.map(Expr::Column).ok_or_else(|| self.unknown(form, word))
                }
            };
        }
        let (op, operands) = form.list("an operation such as (+ Cwnd 1)")?;
        let floating = Function::ALL
            .into_iter()
            .find(|(name, function, _)| *name == op && matches!(function, Function::Floating(_)));
        if let Some((_, function, [least, most])) = floating {
            if !self.at_report {
                return Err(Scope::only_at_reports(form, &format!("`{op}` gives a floating-point number")));
            }
            if !(least..=most).contains(&operands.len()) {
                return Err(form.error(format!("`{op}` takes {least} operands, and here are {}", operands.len())));
            }
            let operands = operands.iter().map(|operand| self.number(operand)).collect::<Result<_, _>>()?;
            return Ok(Expr::Call(function, operands));
        }
        if let ("if", [condition, one, other]) = (op, operands) {
            let condition = self.truth(condition)?;
            let ([one, other], _) = self.alike(self.number(one)?, self.number(other)?);
            return Ok(Expr::Case(vec![(condition, one)], Box::new(other)));
        }
        let [one, other] = operands else {
            return Err(form.error(format!("`{op}` has two operands, and `if` a condition and two")));
        };
        let ([one, other], is_float) = self.alike(self.number(one)?, self.number(other)?);
        Ok(match op {
            "+" => Expr::binary(BinaryOp::Add, one, other),
            "*" => Expr::binary(BinaryOp::Multiply, one, other),
            "/" if is_float => Expr::binary(BinaryOp::Divide, one, other),
            "/" => {
                let quotient = Expr::binary(BinaryOp::Divide, one, other);
                Expr::Call(Function::Coalesce, vec![quotient, Expr::Literal(Value::Uint(0))])
            }
            "-" if is_float => Expr::binary(BinaryOp::Subtract, one, other),
            "-" => Expr::Call(Function::Above, vec![one, other]),
            "min" => Expr::Call(Function::Least, vec![one, other]),
            "max" => Expr::Call(Function::Greatest, vec![one, other]),
            _ if comparison(op).is_some() => {
                return Err(form.error(format!("`{op}` is a condition, and a number is expected")));
            }
            _ => {
                let known = "operations are + - * / min max if, and sqrt cbrt exp ln power at reports";
                return Err(form.error(format!("`{op}` is not understood")).help(known));
            }
        })
    }

    /// Two operands of one type, and whether they are floating-point numbers: both are if one is.
    fn alike(self, one: Expr, other: Expr) -> ([Expr; 2], bool) {
        let types = self.policy.table().types();
        let is_float = [&one, &other].map(|operand| operand.data_type(&types) == DataType::Float);
        if is_float[0] == is_float[1] {
            return ([one, other], is_float[0]);
        }
        let float = |operand: Expr| match operand {
            Expr::Literal(value) => Expr::Literal(value.as_float().map_or(Value::Null, Value::Float)),
            whole => Expr::binary(BinaryOp::Multiply, whole, Expr::Literal(Value::Float(1.0))),
        };
        (if is_float[0] { [one, float(other)] } else { [float(one), other] }, true)
    }

    /// A condition.
    fn truth(self, form: &Form<'_>) -> Result<Expr, Error> {
        if let What::Word(word) = form.what {
            return match word {
                "true" => Ok(Expr::Literal(Value::Bool(true))),
                "false" => Ok(Expr::Literal(Value::Bool(false))),
                _ => Err(form.error(format!("`{word}` is no condition")).help("such as (> Ack.lost_pkts_sample 0)")),
            };
        }
        let (op, operands) = form.list("a condition such as (> Ack.lost_pkts_sample 0)")?;
        match (op, operands) {
            ("!", [one]) => Ok(Expr::Not(Box::new(self.truth(one)?))),
            (_, [one, other]) => {
                let Some(op) = comparison(op) else {
                    return Err(form
                        .error(format!("`{op}` is no condition"))
                        .help("conditions are < <= > >= == != && || !"));
                };
                let operand = |form| if op.is_logical() { self.truth(form) } else { self.number(form) };
                Ok(Expr::binary(op, operand(one)?, operand(other)?))
            }
            _ => Err(form.error(format!("`{op}` has two operands, and `!` one"))),
        }
    }
}

fn comparison(op: &str) -> Option<BinaryOp> {
    Some(match op {
        "<" => BinaryOp::Less,
        "<=" => BinaryOp::LessEqual,
        ">" => BinaryOp::Greater,
        ">=" => BinaryOp::GreaterEqual,
        "==" => BinaryOp::Equal,
        "!=" => BinaryOp::NotEqual,
        "&&" => BinaryOp::And,
        "||" => BinaryOp::Or,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read() {
        let text = "; a comment
            (def (Report (volatile acked 0) (volatile minrtt +infinity)) (pulseState 0))
            (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (:= minrtt (min minrtt Flow.rtt_sample_us)) (fallthrough))
            (when (&& (== pulseState 0) (! (> Micros 5))) (:= Rate (/ (* 5 Flow.rate_incoming) 4)) (:= pulseState 1))
            (when (> Micros Flow.rtt_sample_us) (:= Micros 0) (:= Cwnd (if (> acked 9) (- Cwnd 1) (max Cwnd 3))) (report))";
        let policy = parse(text).unwrap_or_else(|error| panic!("{}", error.shown(text)));
        assert_eq!((policy.variables.len(), policy.clauses.len()), (3, 3));
        assert!(policy.clauses[0].falls_through && policy.reports() == 1 && policy.sets(Place::Timer));
        assert_eq!(policy.variables[1].initial, u64::MAX);
    }

    #[test]
    fn numbers_at_reports_are_of_two_types() {
        let assigned = |value: &str| {
            let text = format!(
                "(def (Report (a 7)) (b 2)) (user (c 0.5)) (when true (report)) (on-report true (:= Cwnd {value}))"
            );
            let policy = parse(&text).unwrap_or_else(|error| panic!("{}", error.shown(&text)));
            let mut row = vec![Value::Uint(0); Place::User(0).column()];
            row[Place::Variable(0).column()] = Value::Uint(7);
            row[Place::Variable(1).column()] = Value::Uint(2);
            row.push(Value::Float(0.5));
            let Step::Assign(_, value) = &policy.on_report[0].steps[0] else { panic!("it assigns") };
            value.evaluate(&row)
        };
        // Whole numbers are computed with as in the kernel.
        for (value, expected) in [("(/ a b)", 3), ("(- b a)", 0), ("(/ a (- b b))", 0), ("(min a b)", 2)] {
            assert_eq!(assigned(value), Value::Uint(expected), "{value}");
        }
        for (value, expected) in [
            ("(/ a (* 1.0 b))", 3.5),
            ("(- c a)", -6.5),
            ("(/ (min c b) 2)", 0.25),
            ("(/ (max c b) 4)", 0.5),
            ("(/ (if (> a c) a c) 2)", 3.5),
            ("(power (- b 0.0) -1)", 0.5),
            ("(cbrt (+ 1e0 a))", 2.0),
            ("(ln (exp b))", 2.0),
        ] {
            assert_eq!(assigned(value), Value::Float(expected), "{value}");
        }
        assert!(assigned("(/ c 0)").is_null());
    }

    #[test]
    fn errors_say_what_was_meant() {
        for (text, wanted) in [
            ("", "a policy has a clause"),
            ("(when true", "not closed"),
            ("(when true))", "closes nothing"),
            ("when", "is expected here"),
            ("()", "is expected here"),
            ("(whn true)", "none of def, user, when and on-report"),
            ("(when true) (def (a 0))", "before the clauses"),
            ("(def (a 0) (a 1)) (when true)", "defined already"),
            ("(def (Cwnd 0)) (when true)", "defined already"),
            ("(def (a b)) (when true)", "a whole number"),
            ("(def (a 1) (b 1) (c 1) (d 1) (e 1) (f 1) (g 1) (h 1) (i 1) (j 1) (k 1) (l 1))", "10 variables at most"),
            ("(when 1)", "is no condition"),
            ("(when (+ 1 2))", "is no condition"),
            ("(when true (:= Ack.now 1))", "cannot be set"),
            ("(when true (:= Cwn 1))", "did you mean `Cwnd`"),
            ("(when true (:= Cwnd (> 1 2)))", "is a condition"),
            ("(when true (:= Cwnd (+ 1 2 3)))", "two operands"),
            ("(when true (report))", "nothing is reported"),
            ("(when true (fallthrough) (:= Cwnd 1))", "stands last"),
            ("(when true (:= Cwnd -1))", "`-1` is a floating-point number"),
            ("(when true (:= Cwnd --1))", "neither a number"),
            (&"(".repeat(100), "in each other"),
            ("(when true (:= Cwnd 0.5))", "`0.5` is a floating-point number, which only (on-report ...) has"),
            ("(when true (:= Cwnd (sqrt 4)))", "`sqrt` gives a floating-point number"),
            ("(user (a 0)) (when true (:= a 1))", "`a` is kept in user space"),
            ("(user (a 0)) (when true (:= Cwnd a))", "`a` is kept in user space"),
            ("(user (a 0)) (user (b 0)) (when true)", "stands once"),
            ("(user (a 0)) (def (b 0)) (when true)", "before (user ...)"),
            ("(def (a 0)) (user (a 0)) (when true)", "defined already"),
            ("(def (1e5 0)) (when true)", "defined already"),
            ("(user (a inf)) (when true)", "a number is expected"),
            ("(user (a 0) (a0 nan)) (when true)", "a number is expected"),
            ("(def (a 0.5)) (when true)", "a whole number"),
            ("(on-report true) (when true)", "nothing reports"),
            ("(def (Report (a 0))) (when true (report)) (on-report true (report))", "a report does not report"),
            ("(def (Report (a 0))) (when true (report)) (on-report true (:= a (sqrt 1 2)))", "takes 1 operands"),
            ("(def (Report (a 0))) (when true (report)) (user (b 0))", "before the clauses"),
            (&format!("(def (Report (a 0))) (when true {})", "(report)".repeat(65)), "64 times"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
