//! Plain values that callers and the kernel exchange. They need no libbpf.

use crate::error::Error;

/// A verifier log with messages and statistics, and no states of the paths (`BPF_LOG_STATS`). A load that asks for it verifies a
/// program that is refused once; without a log, libbpf loads it again for the messages.
pub const LOG_STATISTICS: u32 = 4;

/// Where a uprobe is in a file, and what it is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserProbe {
    /// Bytes from the file's beginning to the instruction.
    pub offset: u64,
    /// Whether the program runs where the function returns that begins there (a uretprobe).
    pub returns: bool,
    /// Bytes from the file's beginning to the 16 bits that count who looks; the kernel counts there for each process that
    /// has them. 0 without one.
    pub semaphore: u64,
    /// What `bpf_get_attach_cookie` returns.
    pub cookie: u64,
}

/// A verifier's log.
#[derive(Clone, Debug)]
pub struct ProgramLog {
    /// Which program.
    pub program: String,
    /// What the kernel's verifier printed, empty when it printed nothing.
    pub log: String,
}

/// Why an object or program did not load.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct LoadFailure {
    /// The failed call.
    pub error: Error,
    /// The verifier's logs of the programs tried.
    pub logs: Vec<ProgramLog>,
    /// libbpf's messages, one per line.
    pub messages: String,
}

impl From<Error> for LoadFailure {
    fn from(error: Error) -> LoadFailure {
        LoadFailure { error, logs: Vec::new(), messages: String::new() }
    }
}

impl LoadFailure {
    /// Whether the verifier gave up because the program is too complex for it: E2BIG for more than 1,000,000 instructions,
    /// EFAULT or ENOMEM for more than 8,192 branches that wait; or because a loop seems to have no end.
    pub fn is_too_complex(&self) -> bool {
        const E2BIG: i32 = 7;
        const ENOMEM: i32 = 12;
        const EFAULT: i32 = 14;
        // A log that is too long for its buffer changes the error to ENOSPC.
        const COMPLEX: [&str; 3] = ["infinite loop detected", "jumps is too complex", "BPF program is too large"];
        matches!(self.error, Error::Os { errno: E2BIG | ENOMEM | EFAULT, .. })
            || self.logs.iter().any(|log| COMPLEX.iter().any(|said| log.log.contains(said)))
    }

    /// The line of the verifier's logs that gives the reason: the last that is not statistics.
    pub fn reason(&self) -> Option<&str> {
        self.reason_where(|_| true)
    }

    /// The verifier's reason, or the failed call where its log gives none.
    pub fn why(&self) -> String {
        self.reason().map_or_else(|| self.to_string(), str::to_owned)
    }

    /// The map whose attributes the kernel refuses with EINVAL or E2BIG, and the error.
    pub fn refused_map(&self) -> Option<String> {
        const ATTRIBUTES: [(i32, &str); 2] = [(22, "-EINVAL"), (7, "-E2BIG")];
        if let Error::Os { call, errno } = &self.error
            && call.starts_with("creating map ")
            && ATTRIBUTES.iter().any(|(number, _)| number == errno)
        {
            return Some(self.error.to_string());
        }
        let lines = self.messages.lines().map(|line| line.trim_start_matches("libbpf: "));
        let mut failed = lines.filter(|line| line.starts_with("map '") && line.contains("': failed to create"));
        failed.find(|line| ATTRIBUTES.iter().any(|(_, name)| line.ends_with(name))).map(str::to_owned)
    }

    /// The line of one program's log that gives the reason.
    pub fn reason_of(&self, program: &str) -> Option<&str> {
        self.reason_where(|log| log.program == program)
    }

    /// The source line before the reason in one program's log, `FILE:LINE`. The verifier prints lines as `; CODE @ FILE:LINE`.
    pub fn line_of(&self, program: &str) -> Option<&str> {
        let lines = self.logs.iter().filter(|log| log.program == program).flat_map(|log| log.log.lines());
        lines.rev().find_map(|line| line.strip_prefix("; ")?.rsplit_once(" @ ").map(|(_, place)| place.trim()))
    }

    fn reason_where(&self, wanted: impl Fn(&ProgramLog) -> bool) -> Option<&str> {
        let statistics = ["processed ", "verification time", "stack depth", "max_states"];
        let logs = self.logs.iter().rev().filter(|log| wanted(log));
        let lines = logs.flat_map(|log| log.log.lines().rev());
        let mut lines = lines.map(str::trim).filter(|line| !line.is_empty());
        // Linux 7.3 tells them of each function, too.
        let is_of_function = |line: &str| line.starts_with("subprog ") && line.contains(" insns_total ");
        lines.find(|line| !statistics.iter().any(|word| line.starts_with(word)) && !is_of_function(line))
    }
}

/// A program of an opened object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramEntry {
    /// Its name.
    pub name: String,
    /// Its section.
    pub section: String,
    /// Its type number from libbpf, 0 if the section name does not tell it.
    pub program_type: u32,
    /// Whether it is loaded by default.
    pub autoload: bool,
    /// Slots, with the subprograms it will get.
    pub slots: usize,
}

/// The kernel's information about a loaded program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgInfo {
    /// Instructions the verifier processed, over all paths.
    pub verified_insns: u32,
    /// Bytes after the verifier's rewriting.
    pub xlated_bytes: u32,
    /// Bytes of machine code, 0 without a JIT.
    pub jited_bytes: u32,
    /// The kernel's id of the program.
    pub id: u32,
    /// Ids of its maps.
    pub map_ids: Vec<u32>,
    /// Nanoseconds of its runs while statistics were kept; see [`crate::Statistics`].
    pub run_time_ns: u64,
    /// How many runs those were.
    pub run_count: u64,
    /// Runs that the kernel left out because the program, or another, ran on that processor already.
    pub missed_count: u64,
}

/// The input of a test run.
#[derive(Clone, Debug, Default)]
pub struct TestInput {
    /// Packet bytes; empty for program types without packets.
    pub packet: Vec<u8>,
    /// The context in the kernel's user-space layout, where the program type takes one.
    pub context: Vec<u8>,
    /// How often to run; the packet and context go from run to run. 0 and 1 both mean once.
    pub repeat: u32,
}

/// The result of a test run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestOutput {
    /// R0 of the last run.
    pub value: u32,
    /// The packet after the last run.
    pub packet: Vec<u8>,
    /// The context after the last run.
    pub context: Vec<u8>,
    /// Nanoseconds per run, averaged by the kernel over the repetitions.
    pub duration_ns: u32,
}

/// Entries for a reader: those that say something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Walked {
    /// Keys and values, as many as were wanted at most; of arrays those that are not zero.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// How many there are.
    pub count: usize,
    /// Elements of an array that are zero.
    pub zeros: usize,
}

/// Where XDP runs (`XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XdpMode {
    /// Before the driver builds an skb, where the driver can; else generic.
    Default,
    /// On the skb.
    Generic,
    /// In the driver, or fail.
    Native,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_line_before_the_reason_is_found() {
        let log = "; int main() @ a.c:1\n0: (b7) r0 = 0\n; r6 += x; @ dir/a.c:12\n1: (0f) r6 += r5\nmath between pkt pointer\n";
        let logs = vec![ProgramLog { program: "main".to_owned(), log: log.to_owned() }];
        let error = Error::Os { call: "bpf".into(), errno: 13 };
        let failure = LoadFailure { error, logs, messages: String::new() };
        assert_eq!((failure.line_of("main"), failure.line_of("other")), (Some("dir/a.c:12"), None));
        assert_eq!(failure.reason(), Some("math between pkt pointer"));
        let statistics = "processed 3 insns\nsubprog 0 (main) main insns_self 9 insns_total 9 stack 0\n";
        let logs = vec![ProgramLog { program: "main".to_owned(), log: format!("{log}{statistics}") }];
        assert_eq!(LoadFailure { logs, ..failure }.reason(), Some("math between pkt pointer"));
    }
}
