//! Queries that nest deeply or are long: refused by a limit, or parsed without deep recursion.

/// Parses a query on a stack as small as that of a test's thread.
fn said(sql: &str) -> String {
    kiln_sql::parse(sql, None).map_or_else(|error| error.to_string(), |_| "parsed".to_owned())
}

#[test]
fn nesting_is_limited() {
    type Shape = fn(usize) -> String;
    let shapes: &[(&str, Shape)] = &[
        ("parentheses", |depth| format!("{}pid{}", "(".repeat(depth), ")".repeat(depth))),
        ("parentheses that stay open", |depth| "(".repeat(depth)),
        ("NOT", |depth| format!("{}(pid = 1)", "NOT ".repeat(depth))),
        ("minus", |depth| format!("{}pid", "- ".repeat(depth))),
        ("CASE", |depth| format!("{}pid{}", "CASE WHEN pid = 1 THEN ".repeat(depth), " END".repeat(depth))),
        ("calls", |depth| format!("{}pid{}", "abs(".repeat(depth), ")".repeat(depth))),
        ("OR to the right", |depth| format!("{}pid = 1{}", "pid = 1 OR (".repeat(depth), ")".repeat(depth))),
        ("OR to the left", |depth| format!("pid = 1{}", " OR pid = 1".repeat(depth))),
        ("sums", |depth| format!("pid{} = 1", "+pid".repeat(depth))),
        ("lists", |depth| format!("pid IN (1{})", ",1".repeat(depth))),
        ("arrays", |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth))),
        ("casts", |depth| format!("pid{}", "::int".repeat(depth))),
        ("functions that are doubled", |depth| format!("{}pid{}", "time_bucket(1, ".repeat(depth), ")".repeat(depth))),
        ("subqueries", |depth| format!("{}1{}", "EXISTS (SELECT ".repeat(depth), ")".repeat(depth))),
    ];
    for (name, shape) in shapes {
        // The largest within the limit on tokens, and far beyond every limit: 100,000 and megabytes.
        for depth in [45, 150, 480, 1900, 100_000, 1 << 20] {
            let sql = format!("SELECT pid FROM syscalls WHERE {}", shape(depth));
            let answer = said(&sql);
            assert!(depth < 10_000 || answer != "parsed", "{name}, {depth}");
        }
    }
    for (name, shape) in &shapes[..6] {
        let said = said(&format!("SELECT pid FROM syscalls WHERE {}", shape(60)));
        assert!(said.contains("nests too deeply"), "{name}: {said}");
    }
    let nots = |depth: usize| said(&format!("SELECT {}true FROM syscalls", "NOT ".repeat(depth)));
    assert_eq!(nots(40), "parsed");
    let cases = |depth: usize| {
        said(&format!("SELECT {}1{} FROM syscalls", "CASE WHEN pid = 1 THEN ".repeat(depth), " END".repeat(depth)))
    };
    assert_eq!(cases(40), "parsed");
    assert!(cases(41).contains("nests too deeply"), "{}", cases(41));
    assert!(nots(41).contains("nests too deeply") && nots(400).contains("nests too deeply"), "{}", nots(41));
    let joined = format!("SELECT pid FROM {}syscalls{}", "(SELECT * FROM ".repeat(300), ")".repeat(300));
    assert_ne!(said(&joined), "parsed");
    let united = format!("SELECT pid FROM forks{}", " UNION ALL SELECT pid FROM forks".repeat(120));
    assert!(said(&united).contains("16 are allowed"), "{}", said(&united));
    // Each bucket has two copies of the one before it.
    let doubled = format!("SELECT {}pid{} FROM forks", "time_bucket(1, ".repeat(30), ")".repeat(30));
    assert!(said(&doubled).contains("become too long"), "{}", said(&doubled));
    // Each key has two copies of the key before it.
    let join = |at: usize| format!(" LEFT JOIN errno n{at} ON n{at}.errno = n{0}.errno + n{0}.errno", at - 1);
    let looked_up: String = (1..60).map(join).collect();
    let looked_up = format!("SELECT n59.name FROM syscalls LEFT JOIN errno n0 ON n0.errno = -ret{looked_up}");
    assert!(said(&looked_up).contains("too many other lookups"), "{}", said(&looked_up));
    let listed = format!("SELECT pid{} FROM syscalls", ", pid".repeat(600));
    assert_eq!(said(&listed), "parsed");
}

/// Places are in bytes, whatever characters the query has.
#[test]
fn errors_are_shown_for_any_text() {
    let hostile =
        ["\u{202e}\u{1b}[2K", "\0", "\u{10ffff}é\n\n\r\n\t", "'", "\"", "/*", "--", "$1 ?", "x'00", "\u{feff}"];
    for one in hostile {
        for other in hostile {
            for sql in [format!("{one}SELECT {other}"), format!("SELECT {one} FROM {other}"), format!("{one}{other}")] {
                if let Err(error) = kiln_sql::parse(&sql, None) {
                    let shown = error.shown(&sql);
                    assert!(shown.contains(&kiln_program::clean(&error.message)), "{shown}");
                    let hidden = |letter: char| letter != '\n' && !kiln_program::shown::is_visible(letter);
                    assert!(!shown.contains(hidden), "{shown:?}");
                    let further = |line: &str| line.starts_with("  ");
                    assert!(shown.lines().skip(1).all(further), "{shown}");
                }
            }
        }
    }
}
