//! Patterns of keys: `*`, `?`, `[a-z]`, `[^a]`, and `\` before what means itself.

/// Whether a text fits a pattern. It takes at most as many steps as both lengths multiplied.
///
/// Of the patterns that take nothing, Redis lets the empty text fit only these two: not `**`.
pub fn fits(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return matches!(pattern, b"" | b"*");
    }
    let (mut rest, mut left) = (pattern, text);
    // Behind the last star, and the text that it has not taken.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', behind @ ..] = rest {
            star = Some((behind, left));
            rest = behind;
            continue;
        }
        if let (None, []) = (left.first(), rest) {
            return true;
        }
        if let Some((byte, next)) = left.split_first()
            && let Some(behind) = one(rest, *byte)
        {
            (rest, left) = (behind, next);
            continue;
        }
        match star {
            Some((behind, [_, next @ ..])) => {
                star = Some((behind, next));
                (rest, left) = (behind, next);
            }
            _ => return false,
        }
    }
}

/// What is behind the first part of a pattern, if that fits a byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', behind @ ..] => Some(behind),
        [b'[', b'^', class @ ..] => in_class(class, byte).and_then(|(fits, behind)| (!fits).then_some(behind)),
        [b'[', class @ ..] => in_class(class, byte).and_then(|(fits, behind)| fits.then_some(behind)),
        [b'\\', own, behind @ ..] => (*own == byte).then_some(behind),
        [own, behind @ ..] => (*own == byte).then_some(behind),
    }
}

/// Whether a byte is in a class, and what is behind it. A class without an end ends with the pattern.
fn in_class(mut class: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let mut fits = false;
    loop {
        class = match class {
            [b'\\', own, behind @ ..] => {
                fits |= *own == byte;
                behind
            }
            [b']', behind @ ..] => return Some((fits, behind)),
            [] => return Some((fits, class)),
            [from, b'-', to, behind @ ..] => {
                fits |= (*from.min(to)..=*from.max(to)).contains(&byte);
                behind
            }
            [own, behind @ ..] => {
                fits |= *own == byte;
                behind
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_fit_what_redis_says() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("**", "", false),
            ("", "", true),
            ("a**", "a", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
        // No pattern takes long.
        assert!(!fits(&[&b"*a".repeat(500)[..], b"b"].concat(), &b"a".repeat(5000)));
    }
}
