//! A C source as far as edits need it: statements, functions, declarations. Not a parser: what it takes wrongly makes an
//! edit that does not compile or is not accepted, and such an edit is dropped.

use std::ops::Range;

/// One replacement of a range of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The bytes that go.
    pub range: Range<usize>,
    /// What comes instead.
    pub text: String,
}

/// A source, and the same with spaces in the place of comments, strings and preprocessor lines.
pub struct Source {
    /// The text.
    pub text: String,
    code: Vec<u8>,
}

/// A function's definition.
#[derive(Clone, Debug)]
pub struct Function {
    /// From its attributes to the brace.
    pub head: Range<usize>,
    /// From brace to brace.
    pub body: Range<usize>,
}

/// A declaration of a variable.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The type's words, such as `const volatile __u32`.
    pub kind: Range<usize>,
    /// What follows the name: `[16] = {}`, up to the semicolon.
    pub rest: Range<usize>,
}

const HEADS: [&str; 4] = ["if", "while", "for", "switch"];

impl Source {
    /// Reads a text.
    pub fn new(text: String) -> Source {
        let code = code_of(text.as_bytes());
        Source { text, code }
    }

    /// The code of a range, without comments and strings.
    pub fn code(&self, range: Range<usize>) -> &str {
        self.code.get(range).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// The byte at a line and a column, both from 1.
    pub fn offset(&self, line: u32, column: u32) -> Option<usize> {
        let before = (line as usize).checked_sub(1)?;
        let begin = match before {
            0 => 0,
            _ => self.text.match_indices('\n').nth(before - 1)?.0 + 1,
        };
        let end = self.text[begin..].find('\n').map_or(self.text.len(), |at| begin + at);
        let at = begin + (column as usize).saturating_sub(1);
        let indent = self.text[begin..end].len() - self.text[begin..end].trim_start().len();
        Some(at.clamp(begin + indent, end))
    }

    /// Line and column of a byte, both from 1; columns count bytes.
    pub fn position(&self, at: usize) -> (u32, u32) {
        let before = &self.text[..at.min(self.text.len())];
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() as u32 + 1, (before.len() - begin) as u32 + 1)
    }

    fn word(&self, at: usize) -> &str {
        let end = self.code[at..].iter().position(|byte| !is_part(*byte)).map_or(self.code.len(), |len| at + len);
        self.code(at..end)
    }

    fn skip_space(&self, mut at: usize) -> usize {
        while self.code.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        at
    }

    /// The end of a bracket that opens at `at`, its closing one included.
    pub fn closing(&self, at: usize) -> Option<usize> {
        let mut depth = 0_i32;
        for (index, byte) in self.code.iter().enumerate().skip(at) {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(index + 1);
            }
        }
        None
    }

    /// The function that a byte is in.
    pub fn function(&self, at: usize) -> Option<Function> {
        let mut head = 0;
        let mut index = 0;
        while index < self.code.len() && index <= at {
            match self.code[index] {
                b';' => head = index + 1,
                b'(' | b'[' => index = self.closing(index)? - 1,
                b'{' => {
                    let end = self.closing(index)?;
                    let own = self.skip_space(head)..index;
                    if self.code(own.clone()).trim_end().ends_with(')') {
                        if (index..end).contains(&at) {
                            return Some(Function { head: own, body: index..end });
                        }
                        head = end;
                    }
                    index = end - 1;
                }
                _ => {}
            }
            index += 1;
        }
        None
    }

    /// The brace with which the definition of a structure begins, if it is before a place.
    pub fn structure(&self, name: &str, before: usize) -> Option<usize> {
        self.words(0..before).filter(|(_, word)| *word == name).find_map(|(at, _)| {
            let behind = at + name.len();
            let code = self.code(behind..before);
            let open = behind + code.len() - code.trim_start().len();
            self.code(open..before).starts_with('{').then_some(open)
        })
    }

    /// The end of the body for a byte of a function's head, as macros such as `BPF_PROG` have for the whole function; any
    /// other byte as it is.
    pub fn in_body(&self, at: usize) -> usize {
        let brace = self.code.iter().skip(at).position(|byte| *byte == b'{').map(|distance| at + distance);
        let own = brace.filter(|_| self.function(at).is_none()).and_then(|brace| self.function(brace));
        own.filter(|own| own.head.contains(&at)).map_or(at, |own| own.body.end - 1)
    }

    /// The end of the statement that begins at `at`.
    fn statement_end(&self, at: usize, depth: u32) -> Option<usize> {
        let at = self.skip_space(at);
        if depth > 64 || at >= self.code.len() {
            return None;
        }
        if self.code[at] == b'{' {
            return self.closing(at);
        }
        let word = self.word(at);
        if HEADS.contains(&word) {
            let head = self.skip_space(at + word.len());
            let end = self.statement_end(self.closing(head)?, depth + 1)?;
            let next = self.skip_space(end);
            if word == "if" && next < self.code.len() && self.word(next) == "else" {
                return self.statement_end(next + 4, depth + 1);
            }
            return Some(end);
        }
        if word == "do" {
            let end = self.statement_end(at + 2, depth + 1)?;
            return Some(self.code[end..].iter().position(|byte| *byte == b';')? + end + 1);
        }
        let mut index = at;
        while index < self.code.len() {
            match self.code[index] {
                b';' => return Some(index + 1),
                b'(' | b'[' | b'{' => index = self.closing(index)?,
                b')' | b']' | b'}' => return None,
                _ => index += 1,
            }
        }
        None
    }

    /// The innermost statement that a byte is in, and whether it stands alone after `if (...)` and the like, where no
    /// second one can stand before it. A byte in the brackets of an `if` is in the whole of it.
    pub fn statement(&self, at: usize) -> Option<(Range<usize>, bool)> {
        let body = self.function(at)?.body;
        let mut begin = body.start + 1;
        let mut index = begin;
        let mut brackets: Vec<usize> = Vec::new();
        while index < at {
            match self.code[index] {
                b'(' | b'[' => index = self.closing(index)?.min(at),
                b'{' | b'}' | b';' => {
                    // Braces of an initializer or of a statement expression are no block.
                    if self.code[index] == b'{' {
                        let before = self.code(begin..index).trim_end();
                        let block = before.is_empty() || before.ends_with(')') || is_word_end(before, &["else", "do"]);
                        if !block && self.closing(index)? <= at {
                            index = self.closing(index)?;
                            continue;
                        }
                        brackets.push(index);
                    }
                    index += 1;
                    begin = index;
                }
                _ => index += 1,
            }
        }
        let mut begin = self.skip_space(begin);
        let mut alone = false;
        loop {
            let word = self.word(begin).to_owned();
            if HEADS.contains(&word.as_str()) {
                let end = self.closing(self.skip_space(begin + word.len()))?;
                if at < end {
                    break;
                }
                begin = self.skip_space(end);
                alone = self.code.get(begin) != Some(&b'{');
            } else if word == "else" || word == "do" {
                begin = self.skip_space(begin + word.len());
                alone = self.code.get(begin) != Some(&b'{');
            } else if word == "case" || word == "default" {
                begin = self.skip_space(self.code[begin..].iter().position(|byte| *byte == b':')? + begin + 1);
            } else {
                break;
            }
        }
        Some((begin..self.statement_end(begin, 0)?, alone))
    }

    /// The loops that a byte is in, the innermost first: where each begins, and its brackets.
    pub fn loops(&self, at: usize) -> Vec<(usize, Range<usize>)> {
        let Some(body) = self.function(at).map(|function| function.body) else { return Vec::new() };
        let mut found = Vec::new();
        for (begin, word) in self.words(body).filter(|(_, word)| ["for", "while"].contains(word)) {
            let open = self.skip_space(begin + word.len());
            let Some((close, end)) = self.closing(open).zip(self.statement_end(begin, 0)) else { continue };
            if (begin..end).contains(&at) {
                found.insert(0, (begin, open + 1..close - 1));
            }
        }
        found
    }

    /// The words of a range, with where they begin.
    pub fn words(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &str)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            while at < range.end && !(is_part(self.code[at]) && !(at > 0 && is_part(self.code[at - 1]))) {
                at += 1;
            }
            if at >= range.end {
                return None;
            }
            let begin = at;
            let word = self.word(begin);
            at += word.len();
            (!word.is_empty()).then_some((begin, word))
        })
    }

    /// A name that stands nowhere in the source yet.
    pub fn fresh(&self, name: &str) -> String {
        let taken = |name: &str| self.words(0..self.code.len()).any(|(_, word)| word == name);
        let numbered = (2..100).map(|number| format!("{name}{number}"));
        std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
    }

    /// The declaration of a variable, in the function of `at` or outside of functions.
    pub fn declaration(&self, name: &str, at: usize) -> Option<Declaration> {
        let own = self.function(at).map_or(0..0, |function| function.body);
        let inside: Vec<usize> = self.words(own).filter(|(_, word)| *word == name).map(|(begin, _)| begin).collect();
        let all = self.words(0..self.code.len()).filter(|(_, word)| *word == name).map(|(begin, _)| begin);
        let outside = all.filter(|begin| self.function(*begin).is_none());
        inside.into_iter().chain(outside.collect::<Vec<_>>()).find_map(|begin| self.declared(name, begin))
    }

    /// The type of a variable or parameter, as it is written.
    pub fn declared_type(&self, name: &str, at: usize) -> Option<&str> {
        if let Some(own) = self.declaration(name, at) {
            return Some(self.text[own.kind].trim());
        }
        let Function { head, body } = self.function(at)?;
        if let Some((place, _)) = self.words(head.clone()).find(|(_, word)| *word == name) {
            let before = self.code(head.start..place);
            let begin = head.start + before.rfind([',', '('])? + 1;
            return Some(self.text[begin..place].trim());
        }
        // One of several, as in `struct key *a, *b;`: the type is that of the first.
        let (place, _) = self.words(body.clone()).find(|(_, word)| *word == name)?;
        let begin = self.skip_space(self.code(0..place).rfind([';', '{', '}'])? + 1);
        let (first, _) = self.code(begin..place).split_once(',')?;
        let (last, word) = self.words(begin..begin + first.len()).last()?;
        let ends = self.code(last + word.len()..begin + first.len()).trim().is_empty();
        ends.then(|| self.text[begin..last].trim())
    }

    fn declared(&self, name: &str, begin: usize) -> Option<Declaration> {
        let before = self.code(0..begin);
        let from = self.skip_space(before.rfind([';', '{', '}']).map_or(0, |at| at + 1));
        let kind = self.code(from..begin);
        let plain = |byte: u8| is_part(byte) || byte.is_ascii_whitespace() || byte == b'*';
        let first = self.word(from);
        let no_type = ["return", "goto", "else", "case", "sizeof"].contains(&first) || first.is_empty();
        if no_type || kind.trim().is_empty() || !kind.bytes().all(plain) {
            return None;
        }
        let end = self.statement_end(begin, 0)? - 1;
        Some(Declaration { kind: from..begin, rest: begin + name.len()..end })
    }

    /// The edits that put lines before the statement at `at`.
    pub fn before(&self, at: usize, lines: &str) -> Option<Vec<Edit>> {
        let (statement, alone) = self.statement(at)?;
        Some(self.around(statement, alone, Some(lines), None))
    }

    /// The edits that put lines after the statement at `at`.
    pub fn after(&self, at: usize, lines: &str) -> Option<Vec<Edit>> {
        let (statement, alone) = self.statement(at)?;
        Some(self.around(statement, alone, None, Some(lines)))
    }

    fn around(&self, statement: Range<usize>, alone: bool, first: Option<&str>, last: Option<&str>) -> Vec<Edit> {
        let line = self.text[..statement.start].rfind('\n').map_or(0, |at| at + 1);
        let prefix = &self.text[line..statement.start];
        let own_line = prefix.trim().is_empty();
        let indent: String = prefix.chars().take_while(|letter| letter.is_whitespace()).collect();
        let indented = |lines: &str| lines.replace('\n', &format!("\n{indent}"));
        let insert = |at: usize, text: String| Edit { range: at..at, text };
        let mut edits = Vec::new();
        if alone {
            let head = self.code(0..statement.start).trim_end().len();
            edits.push(insert(head, " {".to_owned()));
        }
        if let Some(lines) = first {
            let begin = if own_line && !alone { self.before_pragmas(statement.start) } else { statement.start };
            let text = match own_line {
                true => format!("{}\n{indent}", indented(lines)),
                false => format!("{} ", lines.replace('\n', " ")),
            };
            edits.push(insert(begin, text));
        }
        if let Some(lines) = last {
            edits.push(insert(statement.end, format!("\n{indent}{}", indented(lines))));
        }
        if alone {
            let outer = indent.strip_suffix('\t').or_else(|| indent.strip_suffix("    ")).unwrap_or(&indent);
            edits.push(insert(statement.end, format!("\n{outer}}}")));
        }
        edits
    }

    /// Where a statement begins with the pragmas that are about it.
    fn before_pragmas(&self, at: usize) -> usize {
        let mut begin = at;
        loop {
            let line = self.text[..begin].rfind('\n').map_or(0, |at| at + 1);
            let Some(above) = line.checked_sub(1) else { return begin };
            let previous = self.text[..above].rfind('\n').map_or(0, |at| at + 1);
            if !self.text[previous..above].trim_start().starts_with("#pragma") {
                return begin;
            }
            begin = previous;
        }
    }

    /// The call of a function in a range: its brackets' contents, argument by argument, and the whole.
    pub fn call(&self, name: &str, range: Range<usize>) -> Option<(Range<usize>, Vec<Range<usize>>)> {
        let (begin, word) = self.words(range).find(|(_, word)| *word == name)?;
        let open = self.skip_space(begin + word.len());
        if self.code.get(open) != Some(&b'(') {
            return None;
        }
        let end = self.closing(open)?;
        let mut arguments = Vec::new();
        let mut from = open + 1;
        let mut index = from;
        while index < end {
            match self.code[index] {
                b',' | b')' if index == end - 1 || self.code[index] == b',' => {
                    arguments.push(self.trimmed(from..index));
                    from = index + 1;
                    index += 1;
                }
                b'(' | b'[' | b'{' => index = self.closing(index)?,
                _ => index += 1,
            }
        }
        Some((begin..end, arguments))
    }

    /// The whole lines of a range.
    pub fn lines(&self, range: Range<usize>) -> Range<usize> {
        let begin = self.text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[range.end..].find('\n').map_or(range.end, |at| range.end + at + 1);
        begin..end
    }

    /// A range without the space at its ends.
    pub fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        let text = &self.text[range.clone()];
        let begin = range.start + (text.len() - text.trim_start().len());
        begin..begin + text.trim().len()
    }

    /// The subscripts `X[E]` of a range: X's name and E.
    pub fn subscripts(&self, range: Range<usize>) -> Vec<(String, Range<usize>)> {
        let opens = range.filter(|at| self.code[*at] == b'[');
        let found = opens.filter_map(|open| {
            let before = self.code(0..open);
            let begin = before.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_').map_or(0, |at| at + 1);
            Some((before[begin..].to_owned(), self.trimmed(open + 1..self.closing(open)? - 1)))
        });
        found.collect()
    }

    /// Whether what an edit puts before a place stands there already.
    pub fn has(&self, edit: &Edit) -> bool {
        let text = edit.text.trim();
        let before = self.text.get(..edit.range.start).unwrap_or_default().trim_end();
        edit.range.is_empty() && text.len() > 3 && before.ends_with(text)
    }

    /// Replaces ranges, which must not overlap.
    pub fn edited(&self, edits: &[Edit]) -> String {
        let mut sorted: Vec<&Edit> = edits.iter().collect();
        sorted.sort_by_key(|edit| edit.range.start);
        let mut text = String::with_capacity(self.text.len());
        let mut at = 0;
        for edit in sorted {
            text.push_str(self.text.get(at..edit.range.start).unwrap_or_default());
            text.push_str(&edit.text);
            at = edit.range.end.max(at);
        }
        text.push_str(self.text.get(at..).unwrap_or_default());
        text
    }
}

fn is_word_end(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.strip_suffix(word).is_some_and(|rest| !rest.bytes().next_back().is_some_and(is_part)))
}

/// Whether a byte is part of a name.
pub fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a text is a name.
pub fn is_name(text: &str) -> bool {
    text.bytes().all(is_part) && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Spaces for comments, strings, characters and preprocessor lines; lines stay.
fn code_of(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    let blank = |code: &mut Vec<u8>, range: Range<usize>| {
        for byte in &mut code[range] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let mut at = 0;
    let mut line_begins = true;
    while at < text.len() {
        let rest = &text[at..];
        let len = match rest {
            [b'/', b'/', ..] => line_end(rest),
            [b'/', b'*', ..] => rest.windows(2).skip(2).position(|two| two == b"*/").map_or(rest.len(), |len| len + 4),
            [b'#', ..] if line_begins => line_end(rest),
            [quote @ (b'"' | b'\''), ..] => quoted(rest, *quote),
            _ => 0,
        };
        if len > 0 {
            let own = match rest[0] {
                // The quotes stay, so that a string still is something.
                b'"' | b'\'' if len >= 2 => at + 1..at + len - 1,
                _ => at..at + len,
            };
            blank(&mut code, own);
            at += len;
            line_begins = false;
        } else {
            line_begins = rest[0] == b'\n' || line_begins && rest[0].is_ascii_whitespace();
            at += 1;
        }
    }
    code.iter().map(|byte| if byte.is_ascii() { *byte } else { b'_' }).collect()
}

/// The length up to the end of a line that no backslash continues.
fn line_end(text: &[u8]) -> usize {
    let ends = |at: &usize| text[*at] == b'\n' && (*at == 0 || text[*at - 1] != b'\\');
    (0..text.len()).find(ends).unwrap_or(text.len())
}

fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'\n' => return at,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// if (x) {\nint table[4];\n\nSEC(\"xdp\")\nint f(struct xdp_md *ctx)\n{\n\tchar name[8] = {};\n\
                        \tif (a)\n\t\tuse(*b, name);\n\telse if (c[i]) {\n\t\twhile (d)\n\t\t\te();\n\t}\n\treturn 0;\n}\n";

    fn at(source: &Source, what: &str) -> usize {
        source.text.find(what).expect(what)
    }

    #[test]
    fn lines_go_before_statements() {
        let source = Source::new(TEXT.to_owned());
        let edits = source.before(at(&source, "*b"), "check();").expect("a statement");
        assert!(source.edited(&edits).contains("\tif (a) {\n\t\tcheck();\n\t\tuse(*b, name);\n\t}\n\telse if"));
        let edits = source.before(at(&source, "return"), "check();\nagain();").expect("a statement");
        assert!(source.edited(&edits).contains("\n\tcheck();\n\tagain();\n\treturn 0;\n}"));
        let edits = source.after(at(&source, "e();"), "f();").expect("a statement");
        assert!(source.edited(&edits).contains("while (d) {\n\t\t\te();\n\t\t\tf();\n\t\t}"));
        assert!(source.statement(at(&source, "table")).is_none());
        assert_eq!(source.loops(at(&source, "e();")).len(), 1);
    }

    #[test]
    fn declarations_and_calls_are_found() {
        let source = Source::new(TEXT.to_owned());
        let name = source.declaration("name", at(&source, "return")).expect("a declaration");
        assert_eq!((source.code(name.kind), source.code(name.rest)), ("char ", "[8] = {}"));
        assert!(source.declaration("table", at(&source, "return")).is_some());
        assert!(source.declaration("b", at(&source, "return")).is_none());
        let (_, arguments) = source.call("use", 0..TEXT.len()).expect("a call");
        let texts: Vec<&str> = arguments.into_iter().map(|range| source.code(range)).collect();
        assert_eq!(texts, ["*b", "name"]);
        assert_eq!(source.subscripts(at(&source, "else")..TEXT.len())[0].0, "c");
        assert_eq!(source.position(source.offset(5, 5).expect("a place")), (5, 5));
    }

    #[test]
    fn hostile_texts_have_no_statements() {
        for text in ["", "{", "int f() {", "int f() { if", "int f() { a[", "\"", "/*", "int f() { do", "ä(){é[ü]}"] {
            let source = Source::new(text.to_owned());
            for at in 0..=text.len() {
                source.statement(at);
                source.loops(at);
                source.subscripts(0..at);
                source.declaration("a", at);
                source.call("a", 0..at);
            }
        }
    }
}
