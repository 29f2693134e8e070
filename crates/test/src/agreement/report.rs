//! The comparison as tables, for a terminal and for `docs/measurements/agreement.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Column, Compared, Comparisons, Says};
use crate::verdicts::Verdicts;

/// Counts of one program type, by column.
type Counts = [usize; Column::ALL.len()];

fn by_type(all: &[Compared]) -> BTreeMap<&'static str, Counts> {
    let mut rows = BTreeMap::<&str, Counts>::new();
    for compared in all {
        rows.entry(compared.program_type).or_default()[compared.column() as usize] += 1;
    }
    rows
}

fn sum(rows: &BTreeMap<&'static str, Counts>) -> Counts {
    rows.values().fold(Counts::default(), |sum, row| std::array::from_fn(|at| sum[at] + row[at]))
}

/// Agreement in percent of the programs that the kernel was asked about; unsupported programs count as disagreement.
fn percent(counts: &Counts) -> Option<f64> {
    let agreed = counts[Column::BothAccept as usize] + counts[Column::BothReject as usize];
    let asked = counts.iter().sum::<usize>() - counts[Column::NotAsked as usize];
    (asked > 0).then(|| 100.0 * agreed as f64 / asked as f64)
}

/// The confusion matrix by program type, as a table of Markdown.
pub fn matrix(all: &[Compared]) -> String {
    let rows = by_type(all);
    let mut text = String::from("| program type |");
    for column in Column::ALL {
        let _ = write!(text, " {} |", column.name());
    }
    text.push_str(" agreement |\n|---|--:|--:|--:|--:|--:|--:|--:|\n");
    for (name, counts) in rows.iter().map(|(name, counts)| (*name, *counts)).chain([("**all**", sum(&rows))]) {
        let _ = write!(text, "| {name} |");
        for count in counts {
            let _ = write!(text, " {count} |");
        }
        let percent = percent(&counts).map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %"));
        let _ = writeln!(text, " {percent} |");
    }
    text
}

fn counted<T: Ord>(what: impl Iterator<Item = T>) -> Vec<(usize, T)> {
    let mut counts = BTreeMap::<T, usize>::new();
    what.for_each(|what| *counts.entry(what).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().map(|(what, count)| (count, what)).collect();
    counts.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    counts
}

/// A kernel's message without the registers, numbers and names of one program.
pub fn message_class(message: &str) -> String {
    let mut class = String::new();
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        if first == '\'' || first == '"' {
            let inside = &rest[1..];
            match inside.find(first) {
                Some(end) => (class, rest) = (class + "'..'", &inside[end + 1..]),
                None => (class, rest) = (class + "'", inside),
            }
        } else if first.is_ascii_digit() {
            class.push('N');
            rest = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == 'x');
        } else {
            class.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    class.replace("-N", "N")
}

/// Rejections by both: Kiln's reasons with the kernel's messages.
pub fn reasons(all: &[Compared]) -> String {
    const SHOWN: usize = 3;
    let mut classes = BTreeMap::<&str, Vec<String>>::new();
    for compared in all {
        if let (Says::Reject(ours), Says::Reject(theirs)) = (&compared.kiln, &compared.kernel) {
            classes.entry(ours).or_default().push(message_class(theirs));
        }
    }
    let mut rows: Vec<_> = classes.into_iter().collect();
    rows.sort_by_key(|(reason, messages)| (std::cmp::Reverse(messages.len()), *reason));
    let mut text =
        String::from("| Kiln's reason | programs | the kernel's messages, most frequent first |\n|---|--:|---|\n");
    for (reason, messages) in rows {
        let total = messages.len();
        let counts = counted(messages.into_iter());
        let shown: Vec<_> = counts
            .iter()
            .take(SHOWN)
            .map(|(count, message)| format!("{count} x `{}`", message.replace('|', "\\|")))
            .collect();
        let more = if counts.len() > SHOWN { format!(", {} others", counts.len() - SHOWN) } else { String::new() };
        let _ = writeln!(text, "| `{reason}` | {total} | {}{more} |", shown.join(", "));
    }
    text
}

/// Reasons of one column, counted.
pub fn why(all: &[Compared], column: Column) -> String {
    let reasons = all.iter().filter(|compared| compared.column() == column).filter_map(|compared| {
        let says = if column == Column::NotAsked { &compared.kernel } else { &compared.kiln };
        match says {
            Says::Nothing(what) => Some(what.as_str()),
            _ => None,
        }
    });
    let counts = counted(reasons);
    if counts.is_empty() {
        return "None.\n".to_owned();
    }
    let mut text = String::from("| programs | why |\n|--:|---|\n");
    for (count, what) in counts {
        let _ = writeln!(text, "| {count} | {what} |");
    }
    text
}

/// Every disagreement, with its reason from `tests/verdicts.toml` under a prefix.
pub fn disagreements(all: &[Compared], verdicts: &Verdicts, prefix: &str) -> String {
    let mut text = String::from("| program | Kiln | kernel | reason |\n|---|---|---|---|\n");
    let mut any = false;
    for compared in all.iter().filter(|compared| compared.disagrees()) {
        any = true;
        let kernel = match &compared.kernel {
            Says::Reject(message) => format!("reject: `{}`", message.replace('|', "\\|")),
            _ => "accept".to_owned(),
        };
        let listed = verdicts.of_program(&format!("{prefix}{}", compared.name));
        let reason = listed.map_or("not explained yet", |entry| entry.reason.as_str());
        let _ = writeln!(text, "| `{}` | {} | {kernel} | {reason} |", compared.name, compared.kiln_says());
    }
    if any { text } else { "None.\n".to_owned() }
}

/// The authors' expectations compared with both verdicts.
pub fn annotations(all: &[Compared]) -> String {
    let annotated: Vec<_> = all.iter().filter_map(|compared| Some((compared, compared.expected.as_ref()?))).collect();
    let accepts = |says: &Says| match says {
        Says::Accept => Some(true),
        Says::Reject(_) => Some(false),
        Says::Nothing(_) => None,
    };
    let differ = |says: fn(&Compared) -> &Says| {
        let other = |(compared, expected): &&(&Compared, &super::Expected)| {
            accepts(says(compared)).is_some_and(|accepted| accepted != expected.success)
        };
        annotated.iter().filter(other).map(|(compared, _)| compared.name.as_str()).collect::<Vec<_>>()
    };
    let (kernel, kiln) = (differ(|compared| &compared.kernel), differ(|compared| &compared.kiln));
    let mut text = format!(
        "{} programs are annotated. The running kernel answers otherwise than the annotation for {}, Kiln for {}; for {} \
         of these the two give the same answer.\n",
        annotated.len(),
        kernel.len(),
        kiln.len(),
        kernel.iter().filter(|name| kiln.contains(name)).count()
    );
    let list = |title: &str, names: Vec<&str>| {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        if names.is_empty() { String::new() } else { format!("\n{title}: {}.\n", names.join(", ")) }
    };
    let only_kiln = kiln.iter().filter(|name| !kernel.contains(name)).copied().collect();
    text.push_str(&list("The kernel against the annotation", kernel.clone()));
    text.push_str(&list("Kiln alone against the annotation (or the kernel was not asked)", only_kiln));
    text
}

/// The page `docs/measurements/agreement.md`.
pub fn page(all: &Comparisons, verdicts: &Verdicts, running: &str, other: Option<&str>) -> String {
    let mut text = format!(
        "# Agreement with the kernel\n\n\
         This page compares the verdicts of Kiln and the kernel on every program of the corpora\n\
         ([tests/corpus](../../tests/corpus/README.md), tier `all`). The running kernel (Linux {running} here) is asked by\n\
         loading each program alone. Programs that do not reach its verifier are loaded into another kernel in a virtual\n\
         machine. The page is written by\n\n    \
         scripts/corpus all && scripts/other-kernel\n    \
         BLESS=1 cargo test -p kiln-test --test agreement\n\n\
         *Agreement* is the share of programs that both accept or both reject, of those that the kernel was asked about;\n\
         unsupported programs count as disagreement. Every disagreement needs a reason in `tests/verdicts.toml`. The test\n\
         fails for a disagreement without a reason, and for a reason without a disagreement.\n\n\
         ## Linux {running}\n\n{}\n### Not asked\n\n{}\n### Unsupported by Kiln\n\n{}\n### Disagreements\n\n{}\n\
         ### Reasons of rejections by both\n\n{}\n",
        matrix(&all.running),
        why(&all.running, Column::NotAsked),
        why(&all.running, Column::Unsupported),
        disagreements(&all.running, verdicts, ""),
        reasons(&all.running),
    );
    if let Some(other) = other {
        let _ = write!(
            text,
            "## Linux {other}, where the running kernel was not asked\n\n{}\n### Unsupported by Kiln\n\n{}\n\
             ### Disagreements\n\n{}\n### Reasons of rejections by both\n\n{}\n",
            matrix(&all.other),
            why(&all.other, Column::Unsupported),
            disagreements(&all.other, verdicts, OTHER_PREFIX),
            reasons(&all.other),
        );
    }
    let _ = write!(text, "## The authors' annotations\n\n{}", annotations(&all.running));
    text
}

/// The section of a page that begins with a heading, such as `## Other releases`; empty if it has none.
pub fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let Some(at) = page.find(&format!("{heading}\n")) else { return "" };
    let rest = &page[at..];
    &rest[..rest[heading.len()..].find("\n## ").map_or(rest.len(), |end| heading.len() + end + 1)]
}

/// Returns a page with a section in place of the one with the same heading, or at its end; without it if it is empty.
pub fn with_section(page: &str, heading: &str, text: &str) -> String {
    let old = section(page, heading);
    let text = if text.is_empty() { String::new() } else { format!("{}\n", text.trim_end()) };
    let joined = match page.split_once(old).filter(|_| !old.is_empty()) {
        Some((before, after)) => format!("{}\n\n{text}\n{}", before.trim_end(), after.trim_start()),
        None => format!("{}\n\n{text}", page.trim_end()),
    };
    joined.trim_end().to_owned() + "\n"
}

/// The heading of the section about objects of another compiler.
pub const COMPILER: &str = "## Another compiler";

/// That section: the counts, and what differs.
pub fn of_compiler(all: &[Compared], verdicts: &Verdicts, compiler: &str, running: &str) -> String {
    let matrix = matrix(all);
    let mut rows = matrix.lines();
    let head: Vec<_> = rows.by_ref().take(2).collect();
    format!(
        "{COMPILER}\n\n`scripts/gcc-objects core` compiles the sources of the core tier with {compiler}. Linux {running} was asked:\n\
         `BLESS=1 KILN_CORPUS_DIR=$PWD/target/gcc cargo test -p kiln-test --test agreement`.\n\n{}\n{}\n\n\
         ### Unsupported\n\n{}\n### Differences\n\n{}",
        head.join("\n"),
        rows.next_back().unwrap_or_default(),
        why(all, Column::Unsupported),
        disagreements(all, verdicts, ""),
    )
}

/// The heading of the table that `crates/test/tests/old_kernels.rs` writes.
pub const RELEASES: &str = "## Other releases";

/// The heading of the section that `scripts/tool-objects --table` writes.
pub const TOOLS: &str = "## Tools that people run";

/// The prefix of program names in `tests/verdicts.toml` for the other kernel.
pub const OTHER_PREFIX: &str = "6.12 ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_where_it_is() {
        let page = "# Page\n\n## A\n\na\n\n## B\n\nb\n";
        assert_eq!((section(page, "## A"), section(page, "## C")), ("## A\n\na\n\n", ""));
        assert_eq!(with_section(page, "## A", "## A\n\nnew\n"), "# Page\n\n## A\n\nnew\n\n## B\n\nb\n");
        assert_eq!(with_section(page, "## B", "## B\n\nnew"), "# Page\n\n## A\n\na\n\n## B\n\nnew\n");
        assert_eq!(with_section(page, "## C", "## C\n"), format!("{page}\n## C\n"));
        assert_eq!(with_section(page, "## C", ""), page);
    }
}
