//! Words of a directive, quoting, and hexadecimal bytes.

use super::error::TextError;

/// Whether a name can stand in a listing without quotes.
pub(super) fn is_plain(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '_' | '.'))
        && characters.all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '$'))
}

/// The name, in quotes if it needs them.
pub(super) fn quote(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { format!("{name:?}") }
}

/// The text of a quoted string or of a plain word; `None` if it is malformed.
pub(super) fn unquote(text: &str) -> Option<String> {
    let Some(inside) = text.strip_prefix('"') else { return Some(text.to_owned()) };
    let inside = inside.strip_suffix('"')?;
    let mut result = String::new();
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        if character == '"' {
            return None;
        }
        if character != '\\' {
            result.push(character);
            continue;
        }
        result.push(match characters.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => '\0',
            plain @ ('\\' | '"' | '\'') => plain,
            'u' => {
                let rest = characters.as_str().strip_prefix('{')?;
                let (digits, after) = rest.split_once('}')?;
                characters = after.chars();
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            _ => return None,
        });
    }
    Some(result)
}

/// Bytes as hexadecimal digits, `-` when there are none.
pub(super) fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".to_owned() } else { bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
}

/// The bytes of hexadecimal digits.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    if text == "-" {
        return Some(Vec::new());
    }
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The length of the line without its comment: `#` or `//` outside quotes.
pub(super) fn without_comment(line: &str) -> &str {
    &line[..find_outside_quotes(line, |rest| rest.starts_with('#') || rest.starts_with("//")).unwrap_or(line.len())]
}

/// Where the first `;` outside quotes is.
pub(super) fn find_semicolon(line: &str) -> Option<usize> {
    find_outside_quotes(line, |rest| rest.starts_with(';'))
}

fn find_outside_quotes(line: &str, is_it: impl Fn(&str) -> bool) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, character) in line.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if !quoted && is_it(&line[at..]) => return Some(at),
            _ => {}
        }
    }
    None
}

/// The words of a directive, left to right.
pub(super) struct Words<'a> {
    text: &'a str,
    line: usize,
    column: usize,
}

impl<'a> Words<'a> {
    /// Of `text`, which begins at this 1-based line and column.
    pub(super) fn new(text: &'a str, line: usize, column: usize) -> Words<'a> {
        Words { text, line, column }
    }

    fn skip_space(&mut self) {
        let rest = self.text.trim_start();
        self.column += self.text.len() - rest.len();
        self.text = rest;
    }

    /// The 1-based line and column of what comes next.
    pub(super) fn position(&mut self) -> (usize, usize) {
        self.skip_space();
        (self.line, self.column)
    }

    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Result<T, TextError> {
        Err(TextError { line: self.line, column: self.column, message: message.into() })
    }

    /// The next word without taking it, as written.
    pub(super) fn peek(&mut self) -> Option<&'a str> {
        self.skip_space();
        if self.text.is_empty() {
            return None;
        }
        let (mut quoted, mut escaped) = (false, false);
        let end = self.text.find(|character: char| {
            match character {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                _ => {}
            }
            character.is_whitespace() && !quoted
        });
        Some(&self.text[..end.unwrap_or(self.text.len())])
    }

    /// The next word as written.
    pub(super) fn next_raw(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.text = &self.text[word.len()..];
        self.column += word.len();
        Some(word)
    }

    /// The next word if it is this one.
    pub(super) fn accept(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.next_raw();
        }
        found
    }

    /// Takes the next word through a conversion; `what` says what was expected.
    pub(super) fn convert<T>(&mut self, what: &str, convert: impl Fn(&str) -> Option<T>) -> Result<T, TextError> {
        let Some(word) = self.peek() else { return self.fail(format!("expected {what}")) };
        match convert(word) {
            Some(value) => {
                self.next_raw();
                Ok(value)
            }
            None => self.fail(format!("expected {what}, found `{word}`")),
        }
    }

    /// The next word without its quotes.
    pub(super) fn name(&mut self, what: &str) -> Result<String, TextError> {
        self.convert(what, unquote)
    }

    /// A number in decimal or `0x` hexadecimal.
    pub(super) fn number(&mut self, what: &str) -> Result<u64, TextError> {
        self.convert(what, parse_number)
    }

    /// A 32-bit number.
    pub(super) fn number32(&mut self, what: &str) -> Result<u32, TextError> {
        self.convert(what, |word| u32::try_from(parse_number(word)?).ok())
    }

    /// `@7`: an index, if one is next.
    pub(super) fn accept_index(&mut self) -> Option<u32> {
        let index = self.peek()?.strip_prefix('@')?.parse().ok()?;
        self.next_raw();
        Some(index)
    }

    pub(super) fn end(&mut self) -> Result<(), TextError> {
        match self.peek() {
            None => Ok(()),
            Some(word) => self.fail(format!("unexpected `{word}`")),
        }
    }
}

fn parse_number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}
