//! A client's text: its statements, its parameters, what kind each statement is.

use std::ops::Range;

use super::fault::Fault;

/// Something in a text that is no part of a quoted text, a name in quotes or a comment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Text.
    Plain(Range<usize>),
    /// A text or name in quotes, or a comment.
    Quoted(Range<usize>),
    /// `$1` as 1.
    Parameter(usize, Range<usize>),
    /// `;`
    End(usize),
}

/// The pieces of a text, in order.
pub fn pieces(text: &str) -> Vec<Piece> {
    let bytes = text.as_bytes();
    let mut pieces = Vec::new();
    let (mut at, mut start) = (0, 0);
    while at < bytes.len() {
        let rest = &text[at..];
        let after =
            |end: &str, from: usize| rest[from..].find(end).map_or(bytes.len(), |found| at + from + found + end.len());
        let piece = match bytes[at] {
            b'\'' => Piece::Quoted(at..after("'", 1)),
            b'"' => Piece::Quoted(at..after("\"", 1)),
            b'-' if rest.starts_with("--") => Piece::Quoted(at..after("\n", 2)),
            b'/' if rest.starts_with("/*") => Piece::Quoted(at..after("*/", 2)),
            b';' => Piece::End(at),
            b'$' => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                let is_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
                match rest[1..=digits].parse() {
                    Ok(number) if !is_word => Piece::Parameter(number, at..at + 1 + digits),
                    _ => {
                        at += 1;
                        continue;
                    }
                }
            }
            _ => {
                at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            }
        };
        if start < at {
            pieces.push(Piece::Plain(start..at));
        }
        at = match &piece {
            Piece::Plain(range) | Piece::Quoted(range) | Piece::Parameter(_, range) => range.end,
            Piece::End(at) => at + 1,
        };
        start = at;
        pieces.push(piece);
    }
    if start < bytes.len() {
        pieces.push(Piece::Plain(start..bytes.len()));
    }
    pieces
}

/// The statements of a text with the place in it where each begins, without empty ones.
pub fn statements(text: &str) -> Vec<(usize, &str)> {
    let mut ends: Vec<usize> = Vec::new();
    for piece in pieces(text) {
        if let Piece::End(at) = piece {
            ends.push(at);
        }
    }
    ends.push(text.len());
    let mut start = 0;
    let mut statements = Vec::new();
    for end in ends {
        let own = text.get(start..end).unwrap_or_default();
        if !first_word(own).is_empty() || own.trim().starts_with('(') {
            statements.push((start, own));
        }
        start = end + 1;
    }
    statements
}

/// The largest number of a parameter.
///
/// # Errors
/// Returns that there is no parameter `$0`.
pub fn parameters(text: &str) -> Result<usize, Fault> {
    let number = |piece: &Piece| if let Piece::Parameter(number, _) = piece { *number } else { 0 };
    let most = pieces(text).iter().map(number).max().unwrap_or_default();
    no_parameter(text, most).map_or(Ok(most), Err)
}

/// The error of a parameter in a text that has parameters from 1 to `most` only, if it has another one.
pub fn no_parameter(text: &str, most: usize) -> Option<Fault> {
    pieces(text).into_iter().find_map(|piece| match piece {
        Piece::Parameter(number, range) if !(1..=most).contains(&number) => {
            let message = format!("there is no parameter {}", &text[range.clone()]);
            Some(Fault { at: Some(range.start), ..Fault::new("42P02", message) })
        }
        _ => None,
    })
}

/// A text with values instead of its parameters.
#[derive(Debug)]
pub struct Filled {
    /// The text.
    pub text: String,
    /// Where each value is in it, and where its parameter was.
    moved: Vec<(Range<usize>, Range<usize>)>,
}

impl Filled {
    /// Puts values, as SQL, in the places of parameters; null for one without a value.
    pub fn new(text: &str, values: &[String]) -> Filled {
        let (mut filled, mut moved) = (String::new(), Vec::new());
        for piece in pieces(text) {
            match piece {
                Piece::Plain(range) | Piece::Quoted(range) => filled += &text[range],
                Piece::End(_) => filled.push(';'),
                Piece::Parameter(number, range) => {
                    let start = filled.len();
                    filled += number.checked_sub(1).and_then(|at| values.get(at)).map_or("NULL", String::as_str);
                    moved.push((start..filled.len(), range));
                }
            }
        }
        Filled { text: filled, moved }
    }

    /// The place in the client's text of a place in this text.
    pub fn origin(&self, place: usize) -> usize {
        let mut moved = self.moved.iter().rev();
        match moved.find(|(own, _)| own.start <= place) {
            None => place,
            Some((own, origin)) if place < own.end => origin.start,
            Some((own, origin)) => origin.end + (place - own.end),
        }
    }
}

/// The first word of a statement in lower case.
pub fn first_word(text: &str) -> String {
    let plain = pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Plain(range) => text[range].split_whitespace().next(),
        _ => None,
    });
    let word = plain.into_iter().next().unwrap_or_default();
    word.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .next()
        .unwrap_or_default()
        .to_lowercase()
}

/// What kind a statement is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A query for Kiln.
    Query,
    /// Begins a transaction, which changes nothing.
    Begin,
    /// Ends one; says so with these words.
    End(&'static str),
    /// Does nothing; says so with these words.
    Nothing(&'static str),
    /// Sets a setting.
    Set(String, String),
    /// Shows a setting.
    Show(String),
}

/// The kind of a statement.
pub fn kind(text: &str) -> Kind {
    match first_word(text).as_str() {
        "begin" | "start" => Kind::Begin,
        "commit" | "end" => Kind::End("COMMIT"),
        "rollback" | "abort" if text.to_lowercase().contains(" to ") => Kind::Nothing("ROLLBACK"),
        "rollback" | "abort" => Kind::End("ROLLBACK"),
        "savepoint" => Kind::Nothing("SAVEPOINT"),
        "release" => Kind::Nothing("RELEASE"),
        "discard" => Kind::Nothing("DISCARD ALL"),
        "deallocate" => Kind::Nothing("DEALLOCATE"),
        "reset" => Kind::Nothing("RESET"),
        "listen" => Kind::Nothing("LISTEN"),
        "unlisten" => Kind::Nothing("UNLISTEN"),
        "set" => setting(text),
        "show" => {
            let words: Vec<&str> = text.split_whitespace().skip(1).collect();
            match words.join(" ").to_lowercase() {
                // Kiln's own sentence says what lists tables.
                name if name.starts_with("tables") => Kind::Query,
                name if name == "transaction isolation level" => Kind::Show("transaction_isolation".to_owned()),
                name if name == "time zone" => Kind::Show("timezone".to_owned()),
                name => Kind::Show(name.trim_matches('"').to_owned()),
            }
        }
        _ => Kind::Query,
    }
}

/// `SET name = value`, `SET SESSION name TO value`, `SET TIME ZONE value`.
fn setting(text: &str) -> Kind {
    let spaced = text.replace('=', " = ");
    let mut words = spaced.split_whitespace().skip(1).peekable();
    while words.peek().is_some_and(|word| ["session", "local"].contains(&word.to_lowercase().as_str())) {
        words.next();
    }
    let name = words.next().unwrap_or_default().to_lowercase();
    if ["characteristics", "transaction"].contains(&name.as_str()) {
        return Kind::Nothing("SET");
    }
    let rest: Vec<&str> =
        words.skip_while(|word| ["=", "to", "zone"].contains(&word.to_lowercase().as_str())).collect();
    let name = if name == "time" { "timezone".to_owned() } else { name };
    Kind::Set(name, rest.join(" ").trim_matches('\'').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_outside_quotes_and_comments() {
        let all = |text| statements(text).into_iter().map(|(_, own)| own.trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(all("SELECT ';'; ; -- ;\nSELECT \";\" /* ; */;"), ["SELECT ';'", "-- ;\nSELECT \";\" /* ; */"]);
        assert!(all(" ;; -- only\n /* words */ ").is_empty());
        assert_eq!(all("(SELECT 1)"), ["(SELECT 1)"]);
        assert_eq!(all("SELECT 'open; SELECT 1"), ["SELECT 'open; SELECT 1"]);
    }

    #[test]
    fn parameters_are_filled_and_places_led_back() {
        let text = "SELECT '$1', a$1, $2 FROM t WHERE x = $1 AND b";
        assert_eq!(parameters(text), Ok(2));
        let filled = Filled::new(text, &["'long text'".to_owned(), "7".to_owned()]);
        assert_eq!(filled.text, "SELECT '$1', a$1, 7 FROM t WHERE x = 'long text' AND b");
        assert_eq!(filled.origin(filled.text.len() - 1), text.len() - 1);
        assert_eq!(
            filled.origin(filled.text.find("long").expect("it is there")),
            text.rfind("$1").expect("it is there")
        );
        assert_eq!(Filled::new("$9é$1", &["é".to_owned()]).text, "NULLéé");
        assert_eq!(parameters("$99999999999999999999999"), Ok(0));
        let fault = parameters("SELECT '$0', $1 + $0").expect_err("parameters begin with 1");
        assert_eq!((fault.code, &*fault.message, fault.at), ("42P02", "there is no parameter $0", Some(18)));
    }

    #[test]
    fn statements_that_change_nothing_are_known() {
        assert_eq!(kind("BEGIN"), Kind::Begin);
        assert_eq!(kind(" /* a */ commit work"), Kind::End("COMMIT"));
        assert_eq!(kind("SET SESSION kiln.duration='5 s'"), Kind::Set("kiln.duration".into(), "5 s".into()));
        assert_eq!(kind("set time zone 'UTC'"), Kind::Set("timezone".into(), "UTC".into()));
        assert_eq!(kind("SHOW TRANSACTION ISOLATION LEVEL"), Kind::Show("transaction_isolation".into()));
        assert_eq!(kind("SHOW TABLES"), Kind::Query);
        assert_eq!(kind("SELECT 1"), Kind::Query);
    }
}
