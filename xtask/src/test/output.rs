//! What the test harness prints, shortened: one line a test binary, every skip, and what failed whole.

/// What ran.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sum {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed, and binaries that crashed or did not compile.
    pub failed: u64,
    /// Tests that are ignored, and those that said that they cannot run here.
    pub skipped: u64,
    /// Tests that failed beside other work and passed when they ran alone.
    pub unsteady: u64,
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.unsteady += other.unsteady;
    }
}

/// Takes the output of one test binary line by line, keeps what matters and adds up.
pub struct Filter<'a> {
    /// The binary's source.
    name: &'a str,
    sum: Sum,
    /// Whether a result has been seen.
    ended: bool,
    section: Section,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum Section {
    /// One line a test.
    #[default]
    Tests,
    /// What passing tests printed.
    Successes,
    /// What failing tests printed.
    Failures,
}

impl Filter<'_> {
    /// Nothing has been read yet.
    pub fn new(name: &str) -> Filter<'_> {
        Filter { name, sum: Sum::default(), ended: false, section: Section::default() }
    }

    /// The line to show for this line of output, if any.
    pub fn line(&mut self, line: &str) -> Option<String> {
        if line.starts_with("skipped: ") {
            self.sum.skipped += 1;
            return Some(format!("  {line}"));
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.result(result);
            return None;
        }
        match line {
            "successes:" => self.section = Section::Successes,
            "failures:" => self.section = Section::Failures,
            _ => {}
        }
        let shown = match self.section {
            Section::Failures => !line.is_empty(),
            // A crash, or documentation that does not compile, has no section of its own.
            Section::Tests => line.starts_with("error") || line.contains("signal: "),
            Section::Successes => false,
        };
        shown.then(|| line.to_owned())
    }

    /// `ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.03s`
    fn result(&mut self, result: &str) {
        let number = |what: &str| -> u64 {
            let mut parts = result.split([';', '.']).map(str::trim);
            let count = parts.find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
            count.unwrap_or(0)
        };
        let [passed, failed, ignored] = ["passed", "failed", "ignored"].map(number);
        self.sum += Sum { passed, failed, skipped: ignored, unsteady: 0 };
        (self.ended, self.section) = (true, Section::Tests);
    }

    /// The sum, and the line that says it. A binary that ended without a result crashed: one failure.
    pub fn finish(self, success: bool, seconds: f64) -> (Sum, String) {
        let Filter { name, mut sum, ended, .. } = self;
        let crashed = !ended || (!success && sum.failed == 0);
        sum.failed += u64::from(crashed);
        let mut text = format!("{name:50} {:>5} passed", sum.passed);
        for (count, what) in [(sum.failed, "FAILED"), (sum.skipped, "skipped")] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        if crashed {
            text += ", ended without a result";
        }
        (sum, text + &format!("  {seconds:>7.2}s"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: &str = "
running 2 tests
test a ... ok
test b ... ok

successes:

---- a stdout ----
skipped: no bpf(2) here
not shown

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.03s
";
    const FAILED: &str = "
running 1 test
test c ... FAILED

failures:

---- c stdout ----
thread panicked: the reason

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s
";

    fn filtered(output: &str, success: bool) -> (Sum, String) {
        let mut filter = Filter::new("tests/llvm.rs");
        let shown: Vec<String> = output.lines().filter_map(|line| filter.line(line)).collect();
        let (sum, summary) = filter.finish(success, 1.0);
        (sum, format!("{summary}\n{}", shown.join("\n")))
    }

    #[test]
    fn adds_up_and_shows_what_matters() {
        let (sum, shown) = filtered(PASSED, true);
        assert_eq!(sum, Sum { passed: 2, failed: 0, skipped: 2, unsteady: 0 });
        assert!(shown.contains("skipped: no bpf(2) here") && !shown.contains("not shown"), "{shown}");
        let (sum, shown) = filtered(&format!("{PASSED}{FAILED}"), false);
        assert_eq!(sum, Sum { passed: 2, failed: 1, skipped: 2, unsteady: 0 });
        for wanted in ["the reason", "tests/llvm.rs", "1 FAILED"] {
            assert!(shown.contains(wanted), "{wanted} in {shown}");
        }
    }

    #[test]
    fn a_crash_is_a_failure() {
        let (sum, shown) = filtered("running 1 test\nerror: test failed (signal: 11, SIGSEGV)\n", false);
        assert_eq!(sum.failed, 1);
        assert!(shown.contains("SIGSEGV") && shown.contains("without a result"), "{shown}");
        // Its tests passed, and then it crashed.
        assert_eq!(filtered(PASSED, false).0.failed, 1);
    }
}
