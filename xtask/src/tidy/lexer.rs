//! Rust source with comments and literals blanked out, so that a check for a word in code does not meet it in prose.

/// The source with every comment, string and character literal replaced by spaces; line breaks stay.
pub fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match literal_or_comment(bytes, at) {
            Some(end) => end.min(bytes.len()),
            None => {
                code.push(bytes[at]);
                at += 1;
                continue;
            }
        };
        code.extend(bytes[at..end].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        at = end;
    }
    // Only whole comments and literals were replaced, and by ASCII.
    String::from_utf8_lossy(&code).into_owned()
}

/// Where the comment or literal that begins here ends.
fn literal_or_comment(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let after_word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => Some(at + find(rest, b"\n").unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(at + block_comment(rest)),
        [b'"', ..] => Some(at + quoted(rest, 0, b'"')),
        [b'b' | b'c', b'"', ..] if !after_word => Some(at + quoted(rest, 1, b'"')),
        [b'r', b'"' | b'#', ..] if !after_word => raw_string(rest, 1).map(|length| at + length),
        [b'b' | b'c', b'r', b'"' | b'#', ..] if !after_word => raw_string(rest, 2).map(|length| at + length),
        [b'\'', b'\\', ..] => Some(at + quoted(rest, 0, b'\'')),
        // 'x' is a character, 'x without a quote behind it a lifetime; a character may be several bytes.
        [b'\'', ..] => {
            (2..=5).find(|end| rest.get(*end) == Some(&b'\'') && one_character(&rest[1..*end])).map(|end| at + end + 1)
        }
        _ => None,
    }
}

fn one_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().count() == 1)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn quoted(rest: &[u8], prefix: usize, quote: u8) -> usize {
    let mut at = prefix + 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8], prefix: usize) -> Option<usize> {
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    Some(find(&rest[open + 1..], &close).map_or(rest.len(), |length| open + 1 + length + close.len()))
}

#[cfg(test)]
mod tests {
    use super::code_only;

    #[test]
    fn blanks_comments_and_literals_only() {
        for (source, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* /* b */ */ c", "a               c"),
            (r#"f("x\"y", 'z', '\'', b"q")"#, "f(      ,    ,     ,     )"),
            (r###"r#"a"b"# + r"c" + br"d""###, "         +      +      "),
            ("fn f<'a>(x: &'a str) -> r#try", "fn f<'a>(x: &'a str) -> r#try"),
            ("'é' x", "     x"),
        ] {
            assert_eq!(code_only(source).trim_end(), expected.trim_end(), "{source}");
        }
    }
}
