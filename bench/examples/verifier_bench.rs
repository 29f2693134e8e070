//! Compares Kiln's verifier with the kernel's, on every program of the corpora that both accept: `cargo xtask bench
//! verifier`.
//!
//! ```text
//!   program                       Kiln us   kernel us   ratio   Kiln insns  kernel insns   ratio   peak MiB
//!   test_verif_scale1.o:balancer  ...
//!   sum, geometric means, the worst
//! ```
//!
//! Both verify the same program in turns, `--repeat` times; the medians are compared. The kernel's time is what its
//! verifier says of itself (`verification time` in the statistics of its log), Kiln's that of `Prepared::verify()`. What
//! is done once per object (`Prepared::new`; the kernel, too, loads BTF before) is told apart, and counted in the sum.
//! Peak memory is a process's own: a child verifies one object after the other and reads the high-water mark that
//! Linux keeps.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use kiln_bench::spread;
use kiln_driver::input::running_kernel_types;
use kiln_driver::kernel;
use kiln_program::Program;
use kiln_test::corpus::{self, CorpusObject};
use kiln_verifier::{Error, Options, Prepared};

const USAGE: &str = "usage: verifier_bench [--repeat N] [--facts] [--rows FILE] [NAME...]
  --repeat N   times that each program is verified by both (default 3)
  --facts      with facts, which a verdict alone does not need
  --rows FILE  every program's figures, separated by tabs
  NAME         only objects or `object.o:program` whose name contains one of these
";

#[derive(Default)]
struct Arguments {
    repeat: usize,
    facts: bool,
    rows: Option<String>,
    names: Vec<String>,
    child: bool,
}

fn arguments() -> Option<Arguments> {
    let mut parsed = Arguments { repeat: 3, ..Arguments::default() };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--repeat" => parsed.repeat = rest.next()?.parse().ok().filter(|count| *count > 0)?,
            "--facts" => parsed.facts = true,
            "--rows" => parsed.rows = Some(rest.next()?),
            "--child" => parsed.child = true,
            flag if flag.starts_with('-') => return None,
            _ => parsed.names.push(argument),
        }
    }
    Some(parsed)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    if arguments.child {
        measure_memory(&arguments);
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = kiln_test::engine::kernel_available() {
        eprintln!("skipped: kernel: {reason}");
        return ExitCode::SUCCESS;
    }
    let mut rows = Vec::new();
    let preparation_us = for_each_program(&arguments, |name, bytes, object, program, options| {
        rows.extend(compare(name, bytes, object, program, options, arguments.repeat));
    });
    add_memory(&mut rows, &arguments);
    print!("{}", report(&mut rows, preparation_us));
    if let Some(path) = &arguments.rows {
        let lines: String = rows.iter().map(|row| row.tabbed() + "\n").collect();
        if let Err(error) = std::fs::write(path, lines) {
            eprintln!("{path}: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Hands every wanted program to `each`, by its name `object.o:program`; what preparing their objects took, in
/// microseconds.
fn for_each_program(
    arguments: &Arguments,
    mut each: impl FnMut(&str, &[u8], &Prepared<'_>, &Program, &Options),
) -> f64 {
    let mut preparation_us = 0.0;
    let vmlinux = running_kernel_types();
    let options = Options { skip_facts: !arguments.facts, kernel_types: vmlinux.clone(), ..Options::default() };
    let mut objects = corpus::objects();
    objects.retain(|entry| entry.refused().is_none());
    for entry in &objects {
        let file = short(entry);
        let wanted = |name: &str| arguments.names.is_empty() || arguments.names.iter().any(|part| name.contains(part));
        let in_object = |part: &String| part.split(':').next().is_some_and(|part| file.contains(part));
        if !arguments.names.is_empty() && !arguments.names.iter().any(in_object) {
            continue;
        }
        let Ok(mut input) = entry.read() else { continue };
        let bytes = std::mem::take(&mut input.bytes);
        if let Some(vmlinux) = &vmlinux {
            // What cannot be resolved stays, as an instruction that is refused where it can be reached.
            let _ = kiln_elf::resolve_core(&mut input.object, vmlinux);
        }
        // Maps that leave their size to the loader have the size that the kernel is given.
        let object = kiln_vm::with_sized_maps(input.object.clone());
        let begun = Instant::now();
        let prepared = Prepared::new(&object, &options);
        let took_us = begun.elapsed().as_nanos() as f64 / 1000.0;
        let mut used = false;
        for program in object.programs.iter().filter(|program| program.program_type.is_some()) {
            let name = format!("{file}:{}", program.name);
            if !entry.leaves_out(&program.name) && wanted(&name) {
                used = true;
                each(&name, &bytes, &prepared, program, &options);
            }
        }
        preparation_us += if used { took_us } else { 0.0 };
    }
    preparation_us
}

/// The object's group and file name.
fn short(entry: &CorpusObject) -> String {
    format!("{}/{}", entry.group, entry.path.file_name().unwrap_or_default().to_string_lossy())
}

/// A program's figures.
struct Row {
    name: String,
    accepted: bool,
    kiln_us: f64,
    kernel_us: f64,
    kiln_insns: u64,
    kernel_insns: u64,
    kiln_states: u64,
    kernel_states: u64,
    peak_kilobytes: u64,
}

impl Row {
    fn time_ratio(&self) -> f64 {
        self.kiln_us / self.kernel_us.max(1.0)
    }

    fn insn_ratio(&self) -> f64 {
        self.kiln_insns as f64 / self.kernel_insns.max(1) as f64
    }

    fn shown(&self) -> String {
        format!(
            "{:60} {:>10.0} {:>10.0} {:>6.2} {:>9} {:>9} {:>6.2} {:>6.0}\n",
            self.name,
            self.kiln_us,
            self.kernel_us,
            self.time_ratio(),
            self.kiln_insns,
            self.kernel_insns,
            self.insn_ratio(),
            self.peak_kilobytes as f64 / 1024.0
        )
    }

    fn tabbed(&self) -> String {
        format!(
            "{}\t{}\t{:.1}\t{:.0}\t{}\t{}\t{}\t{}\t{}",
            self.name,
            if self.accepted { "accepted" } else { "rejected" },
            self.kiln_us,
            self.kernel_us,
            self.kiln_insns,
            self.kernel_insns,
            self.kiln_states,
            self.kernel_states,
            self.peak_kilobytes
        )
    }
}

/// What the kernel's statistics say after a word.
fn after(log: &str, word: &str) -> f64 {
    let rest = log.rsplit(word).next().filter(|rest| rest.len() < log.len()).unwrap_or_default();
    rest.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// Both on one program, in turns; nothing where they disagree or Kiln lacks something.
fn compare(
    name: &str,
    bytes: &[u8],
    prepared: &Prepared<'_>,
    program: &Program,
    options: &Options,
    repeat: usize,
) -> Option<Row> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut row = Row {
        name: name.to_owned(),
        accepted: true,
        kiln_us: 0.0,
        kernel_us: 0.0,
        kiln_insns: 0,
        kernel_insns: 0,
        kiln_states: 0,
        kernel_states: 0,
        peak_kilobytes: 0,
    };
    for _ in 0..repeat {
        let (log, accepted) = match kernel::load_with_statistics(bytes, prepared.object(), program) {
            Ok(loaded) => (loaded.object.logs.iter().find(|log| log.program == program.name)?.log.clone(), true),
            Err(failure) => {
                (failure.logs.iter().find(|log| log.program == program.name).map(|log| log.log.clone())?, false)
            }
        };
        let begun = Instant::now();
        let verdict = prepared.verify(program, options);
        ours.push(begun.elapsed().as_nanos() as f64 / 1000.0);
        theirs.push(after(&log, "verification time "));
        row.kernel_insns = after(&log, "processed ") as u64;
        row.kernel_states = after(&log, "total_states ") as u64;
        row.accepted = accepted;
        match verdict {
            Ok(verified) if accepted => {
                row.kiln_insns = verified.statistics.processed_insns;
                row.kiln_states = verified.statistics.total_states;
            }
            Err(Error::Rejected(_)) if !accepted => {}
            _ => return None,
        }
    }
    (row.kiln_us, row.kernel_us) = (spread(ours.into_iter())[1], spread(theirs.into_iter())[1]);
    (row.kernel_us > 0.0).then_some(row)
}

/// In the child: verifies each program and prints the most memory this process had while it did.
fn measure_memory(arguments: &Arguments) {
    for_each_program(arguments, |name, _, object, program, options| {
        // 5 sets the mark back to what is used now; where that is not possible, the mark only grows.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let _ = object.verify(program, options);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = after(&status, "VmHWM:");
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{name}\t{peak}");
    });
}

fn add_memory(rows: &mut [Row], arguments: &Arguments) {
    let Ok(this) = std::env::current_exe() else { return };
    let mut child = Command::new(this);
    child.arg("--child").args(arguments.facts.then_some("--facts")).args(&arguments.names);
    let Ok(output) = child.stderr(Stdio::null()).output() else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    for (name, peak) in text.lines().filter_map(|line| line.split_once('\t')) {
        if let (Some(row), Ok(peak)) = (rows.iter_mut().find(|row| row.name == name), peak.parse::<f64>()) {
            row.peak_kilobytes = peak as u64;
        }
    }
}

/// Programs that are so quick that a ratio says nothing: the kernel tells its time in whole microseconds.
const QUICK_US: f64 = 50.0;

fn report(rows: &mut [Row], preparation_us: f64) -> String {
    let heading = format!(
        "{:60} {:>10} {:>10} {:>6} {:>9} {:>9} {:>6} {:>6}\n",
        "program", "Kiln us", "kernel us", "ratio", "insns", "kernel", "ratio", "MiB"
    );
    let mut text = String::new();
    let mut top = |title: &str, rows: &mut Vec<&Row>, by: &dyn Fn(&Row) -> f64| {
        rows.sort_by(|a, b| by(b).total_cmp(&by(a)));
        text += &format!("{title}\n{heading}");
        rows.iter().take(15).for_each(|row| text += &row.shown());
        text += "\n";
    };
    let mut accepted: Vec<&Row> = rows.iter().filter(|row| row.accepted).collect();
    let mut slower: Vec<&Row> =
        accepted.iter().copied().filter(|row| row.kiln_us.max(row.kernel_us) > QUICK_US).collect();
    top("most time", &mut accepted, &|row| row.kiln_us);
    top(&format!("slowest beside the kernel, of those above {QUICK_US} us"), &mut slower, &Row::time_ratio);
    top("most instructions beside the kernel", &mut accepted, &|row| {
        if row.kernel_insns < 1000 { 0.0 } else { row.insn_ratio() }
    });
    top("most memory", &mut accepted, &|row| row.peak_kilobytes as f64);
    let rejected: Vec<&Row> = rows.iter().filter(|row| !row.accepted).collect();
    text += &sums("accepted by both", &accepted);
    text += &sums("rejected by both", &rejected);
    let theirs: f64 = rows.iter().map(|row| row.kernel_us).sum();
    let ours = rows.iter().map(|row| row.kiln_us).sum::<f64>() + preparation_us;
    text += &format!(
        "preparing all objects: {:.1} ms; with it, all programs: Kiln {:.1} ms, kernel {:.1} ms, ratio {:.2}\n",
        preparation_us / 1000.0,
        ours / 1000.0,
        theirs / 1000.0,
        ours / theirs.max(1.0)
    );
    let above = accepted.iter().filter(|row| row.kiln_us > QUICK_US && row.time_ratio() > 3.0).count();
    text += &format!("above 3x the kernel's time (and {QUICK_US} us): {above}\n");
    let peak = rows.iter().map(|row| row.peak_kilobytes).max().unwrap_or(0);
    text += &format!("most memory: {:.0} MiB\n", peak as f64 / 1024.0);
    text
}

fn sums(title: &str, rows: &[&Row]) -> String {
    let sum = |value: &dyn Fn(&Row) -> f64| rows.iter().map(|row| value(row)).sum::<f64>();
    let geomean =
        |value: &dyn Fn(&Row) -> f64| (sum(&|row| value(row).max(1e-9).ln()) / rows.len().max(1) as f64).exp();
    let (ours, theirs) = (sum(&|row| row.kiln_us), sum(&|row| row.kernel_us));
    let mut text = format!(
        "{title}: {} programs, Kiln {:.1} ms, kernel {:.1} ms, ratio {:.2}, geomean {:.2}\n",
        rows.len(),
        ours / 1000.0,
        theirs / 1000.0,
        ours / theirs.max(1.0),
        geomean(&Row::time_ratio)
    );
    if rows.iter().any(|row| row.kiln_insns > 0) {
        let (ours, theirs) = (sum(&|row| row.kiln_insns as f64), sum(&|row| row.kernel_insns as f64));
        text += &format!(
            "  instructions: Kiln {ours}, kernel {theirs}, ratio {:.2}, geomean {:.3}\n",
            ours / theirs.max(1.0),
            geomean(&Row::insn_ratio)
        );
    }
    text
}
