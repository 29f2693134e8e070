//! Kiln against a kernel on that kernel's own tests, which `scripts/other-kernel SERIES --own` builds and asks about.
//!
//! ```text
//!   target/kernels/7.3/own/      objects, made with the types of 7.3
//!                      own.jsonl its verdicts ([`OtherKernel`])  --> a row, and the programs that differ
//!                                                                --> docs/measurements/agreement.md
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use kiln_driver::Input;
use kiln_verifier::Prepared;

use super::recorded::OtherKernel;
use super::{Column, Compared, Says, annotation, kiln_verdict, resolve_core};
use crate::corpus::CorpusObject;
use crate::verdicts::Verdicts;

/// The section of the page.
pub const HEADING: &str = "## The kernels' own tests";

/// What the names of a row and of a list end with where GCC compiled the tests.
pub const GCC: &str = ", GCC";

const INTRODUCTION: &str = "
`scripts/other-kernel 7.3 --own` builds the programs of `tools/testing/selftests/bpf/progs` with that kernel's types, asks the
kernel in a virtual machine, and writes its row: of the objects that were asked about so far, the smallest first. *To be
linked* (parts that another object defines symbols for), *unreadable* and *unsupported* count programs. *Not asked*: mostly programs of the kernel's test module, which Debian does not build.

";

const HEADER: &str = "| kernel | objects | to be linked | unreadable | it loads | Kiln accepts | | it refuses | Kiln accepts | unsupported | not asked |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
";

/// What became of the objects.
#[derive(Debug, Default)]
pub struct Own {
    /// How many were read.
    pub objects: usize,
    /// Objects and programs that Kiln does not read, each with the reason.
    pub unreadable: Vec<String>,
    /// Programs that refer to what another object defines.
    pub unlinked: Vec<String>,
    /// The verdicts on their programs.
    pub compared: Vec<Compared>,
}

/// Compares Kiln with a kernel on objects of that kernel's own tests.
pub fn compare(objects: &[CorpusObject], kernel: &OtherKernel) -> Own {
    let mut own = Own { objects: objects.len(), ..Own::default() };
    for entry in objects {
        match entry.read() {
            Ok(input) => own.add(entry, input, kernel),
            Err(why) => own.unreadable.push(why.to_string()),
        }
    }
    own
}

impl Own {
    fn add(&mut self, entry: &CorpusObject, mut input: Input, kernel: &OtherKernel) {
        input.kernel_types = Some(Arc::clone(&kernel.types));
        resolve_core(&mut input.object, &kernel.types);
        kiln_elf::resolve_kconfig(&mut input.object, &kernel.config);
        let options = kernel.options();
        let prepared = Prepared::new(&input.object, &options);
        for program in &input.object.programs {
            let Some(program_type) = program.program_type else { continue };
            let name = format!("{}:{}", entry.file_name(), program.name);
            self.compared.push(Compared {
                program_type: program_type.name(),
                kiln: kiln_verdict(&prepared, program, &options),
                kernel: kernel.says(&entry.group, &name).unwrap_or(Says::Nothing(String::new())),
                expected: annotation::expected(&input.object, program),
                name,
            });
        }
        for one in input.unreadable() {
            self.add_unreadable(&entry.group, format!("{}:{}", entry.file_name(), one.function), &one.reason, kernel);
        }
    }

    /// A program that Kiln calls malformed, and that the kernel was asked about, is one that both have a verdict on.
    fn add_unreadable(&mut self, group: &str, name: String, reason: &kiln_elf::Error, kernel: &OtherKernel) {
        let asked = kernel.says(group, &name).filter(|says| !matches!(says, Says::Nothing(_)));
        match (reason, asked) {
            (kiln_elf::Error::Unlinked { .. }, _) => self.unlinked.push(name),
            (kiln_elf::Error::InvalidInput { message, .. }, Some(kernel)) => self.compared.push(Compared {
                program_type: "unreadable",
                kiln: Says::Reject(message.clone()),
                kernel,
                expected: None,
                name,
            }),
            _ => self.unreadable.push(format!("{name}: {reason}")),
        }
    }

    fn count(&self, kernel: bool, kiln: fn(&Says) -> bool) -> usize {
        let of_kernel = |says: &Says| match says {
            Says::Accept => kernel,
            Says::Reject(_) => !kernel,
            Says::Nothing(_) => false,
        };
        self.compared.iter().filter(|one| of_kernel(&one.kernel) && kiln(&one.kiln)).count()
    }

    /// The table's row.
    pub fn row(&self, release: &str) -> String {
        let (loads, refuses) = (self.count(true, |_| true), self.count(false, |_| true));
        let accepted = self.count(true, |says| *says == Says::Accept);
        let unsupported = self.compared.iter().filter(|one| one.column() == Column::Unsupported).count();
        format!(
            "| {release} | {} | {} | {} | {loads} | {accepted} | {:.1} % | {refuses} | {} | {unsupported} | {} |\n",
            self.objects,
            self.unlinked.len(),
            self.unreadable.len(),
            100.0 * accepted as f64 / loads.max(1) as f64,
            self.count(false, |says| *says == Says::Accept),
            self.compared.iter().filter(|one| one.column() == Column::NotAsked).count(),
        )
    }

    /// What differs: Kiln's verdict and the kernel's, and the reasons of `tests/verdicts.toml` (`own-7.3 NAME`, or
    /// `own OBJECT` for all programs of an object). Programs with one reason are one row.
    pub fn differences(&self, series: &str, verdicts: &Verdicts) -> String {
        let mut rows = BTreeMap::<(String, String), Vec<&str>>::new();
        for one in self.compared.iter().filter(|one| one.disagrees() || one.column() == Column::Unsupported) {
            let object = one.name.split(':').next().unwrap_or_default();
            let entry = verdicts.of_program(&format!("own-{series} {}", one.name));
            let entry = entry.or_else(|| verdicts.of_program(&format!("own {object}")));
            let listed = entry.map(|entry| entry.reason.clone());
            let kernel = match &one.kernel {
                Says::Reject(message) => format!("reject: `{}`", message.replace('|', "\\|")),
                _ => "accept".to_owned(),
            };
            let why = listed.unwrap_or_else(|| super::report::message_class(&one.kiln_says()).replace('|', "\\|"));
            rows.entry((why, kernel)).or_default().push(&one.name);
        }
        let mut text = format!("\n### {series}\n\n| Kiln, or why | kernel | programs |\n|---|---|---|\n");
        for ((why, kernel), names) in &rows {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(text, "| {why} | {kernel} | {} |", names.join(", "));
        }
        if !self.unlinked.is_empty() {
            let names: Vec<_> = self.unlinked.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(text, "| to be linked | | {} |", names.join(", "));
        }
        for why in &self.unreadable {
            let _ = writeln!(text, "| unreadable | | {} |", why.replace(['\n', '|'], " "));
        }
        text
    }
}

/// Returns the section with the row and the differences of a kernel in place of its older ones.
pub fn put(section: &str, series: &str, row: &str, differences: &str) -> String {
    let release = |text: &str| {
        let number = text.split(|c: char| !c.is_ascii_digit() && c != '.').find(|part| !part.is_empty());
        let mut parts = number.unwrap_or_default().split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let name = text.lines().next().unwrap_or_default().split('|').nth(usize::from(text.starts_with('|')));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0), name.is_some_and(|name| name.trim_end().ends_with(GCC)))
    };
    let (table, lists) = section.split_at(section.find("\n### ").unwrap_or(section.len()));
    let mut rows: BTreeMap<(u32, u32, bool), String> = table
        .lines()
        .filter(|line| line.starts_with("| ") && release(line) != (0, 0, false))
        .map(|line| (release(line), format!("{line}\n")))
        .collect();
    let mut chunks: BTreeMap<(u32, u32, bool), String> = lists
        .split("\n### ")
        .filter(|chunk| !chunk.is_empty())
        .map(|chunk| (release(chunk), format!("\n### {chunk}")))
        .collect();
    rows.insert(release(series), row.to_owned());
    chunks.insert(release(series), differences.to_owned());
    let joined = |all: BTreeMap<(u32, u32, bool), String>| all.into_values().collect::<String>();
    format!("{HEADING}\n{INTRODUCTION}{HEADER}{}{}", joined(rows), joined(chunks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_replaces_its_row_and_no_other() {
        let first = put("", "6.12", "| 6.12.117 | 1 |\n", "\n### 6.12\n\n| a |\n");
        let both = put(&first, "5.10", "| 5.10.262 | 2 |\n", "\n### 5.10\n\n| b |\n");
        let again = put(&both, "6.12", "| 6.12.118 | 3 |\n", "\n### 6.12\n\n| c |\n");
        let rows: Vec<_> = again.lines().filter(|line| line.starts_with("| 5") || line.starts_with("| 6")).collect();
        assert_eq!(rows, ["| 5.10.262 | 2 |", "| 6.12.118 | 3 |"]);
        assert!(again.ends_with("\n### 5.10\n\n| b |\n\n### 6.12\n\n| c |\n"), "{again}");
        assert_eq!(put(&again, "5.10", "| 5.10.262 | 2 |\n", "\n### 5.10\n\n| b |\n"), again);
        let other = put(&again, "5.10, GCC", "| 5.10.262, GCC | 4 |\n", "\n### 5.10, GCC\n\n| d |\n");
        assert!(other.contains("| 5.10.262 | 2 |\n| 5.10.262, GCC | 4 |\n"), "{other}");
        assert!(other.contains("\n### 5.10\n\n| b |\n\n### 5.10, GCC\n\n| d |\n\n### 6.12"), "{other}");
    }
}
