//! Patterns of `GLOB` and `SIMILAR TO`, which are regular expressions, replaced among a query's tokens.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Replaces `x GLOB 'a*'` and `x SIMILAR TO 'a%'` by `x ~ '^a.*$'`, and those with `NOT` by `!~`.
pub fn replace(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut replaced: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let Token::SingleQuotedString(text) = &token.token else {
            replaced.push(token);
            continue;
        };
        let words: Vec<(usize, String)> = last_words(&replaced);
        let names: Vec<&str> = words.iter().map(|(_, name)| name.as_str()).collect();
        let (first, pattern) = match names[..] {
            [.., "glob"] => (words.len() - 1, of_glob(text)),
            [.., "similar", "to"] => (words.len() - 2, of_similar(text)),
            _ => {
                replaced.push(token);
                continue;
            }
        };
        let negated = first > 0 && names[first - 1] == "not";
        let start = words[first - usize::from(negated)].0;
        let span = replaced[start].span;
        replaced.truncate(start);
        let sign = if negated { Token::ExclamationMarkTilde } else { Token::Tilde };
        replaced.push(TokenWithSpan { token: sign, span });
        replaced.push(TokenWithSpan { token: Token::SingleQuotedString(pattern), ..token });
    }
    replaced
}

/// The last words before a token, up to three, with their places; in lower case.
fn last_words(tokens: &[TokenWithSpan]) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let own = tokens.iter().enumerate().rev().filter(|(_, token)| !matches!(token.token, Token::Whitespace(_)));
    for (at, token) in own.take(3) {
        match &token.token {
            Token::Word(word) if word.quote_style.is_none() => words.push((at, word.value.to_lowercase())),
            _ => break,
        }
    }
    words.reverse();
    words
}

/// A letter that stands for itself in a regular expression.
fn plain(regex: &mut String, letter: char) {
    // Not all signs: `\<` is the beginning of a word.
    if r"\.+*?()|[]{}^$#&-~".contains(letter) {
        regex.push('\\');
    }
    regex.push(letter);
}

fn of_glob(glob: &str) -> String {
    let mut regex = "(?s)^".to_owned();
    let mut letters = glob.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => regex += ".*",
            '?' => regex.push('.'),
            '[' => {
                regex.push('[');
                if letters.next_if(|letter| matches!(letter, '!' | '^')).is_some() {
                    regex.push('^');
                }
                // A bracket that comes first is one of the letters.
                let mut is_first = true;
                while let Some(letter) = letters.next() {
                    match letter {
                        ']' if !is_first => {
                            regex.push(']');
                            break;
                        }
                        '-' if !is_first && letters.peek().is_some_and(|next| *next != ']') => regex.push('-'),
                        other => plain(&mut regex, other),
                    }
                    is_first = false;
                }
            }
            other => plain(&mut regex, other),
        }
    }
    regex + "$"
}

fn of_similar(pattern: &str) -> String {
    let mut regex = "(?s)^(?:".to_owned();
    let mut letters = pattern.chars();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        in_class = match letter {
            '[' => true,
            ']' => false,
            _ => in_class,
        };
        match letter {
            '%' if !in_class => regex += ".*",
            '_' if !in_class => regex.push('.'),
            '\\' => {
                if let Some(letter) = letters.next() {
                    plain(&mut regex, letter);
                }
            }
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' | '[' | ']' | '-' | '^' if in_class || letter != '^' => {
                regex.push(letter);
            }
            other => plain(&mut regex, other),
        }
    }
    regex + ")$"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_regular_expressions() {
        assert_eq!(of_glob("/etc/*.d?"), r"(?s)^/etc/.*\.d.$");
        assert_eq!(of_glob("[!a-c]x[]-]"), r"(?s)^[^a-c]x[\]\-]$");
        assert_eq!(of_glob("<a>"), "(?s)^<a>$");
        assert_eq!(of_similar("a(b|c)+%_.\\%\\_^[^%_]"), r"(?s)^(?:a(b|c)+.*.\.%_\^[^%_])$");
        // One that stays open is no regular expression, and refused as such.
        assert_eq!(of_glob("[a"), "(?s)^[a$");
    }
}
