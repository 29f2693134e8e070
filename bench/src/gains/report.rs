//! The tables: groups with their means, and one row per program.
//!
//! The same text is read on a terminal and in `docs/measurements/superoptimizer-results.md`, so it is Markdown.

use std::fmt::Write as _;

use super::equality::{Equality, Outcome};
use super::timing::Timed;
use super::{Measured, Row, proofs, ranks};

/// Programs of at least this many slots have a separate mean, because one slot is many per cent of a small program.
const LARGER: u32 = 20;

/// A group as it is reported: its heading and its rows.
fn groups(measured: &Measured) -> Vec<(String, Vec<&Row>)> {
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    let published: Vec<&Row> = measured.rows.iter().filter(|row| row.published.is_some()).collect();
    if !published.is_empty() {
        groups.push(("K2's Table 1".to_owned(), published));
    }
    for row in &measured.rows {
        match groups.iter_mut().find(|(name, _)| *name == row.group) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((row.group.clone(), vec![row])),
        }
    }
    if groups.len() > 1 {
        groups.push(("all".to_owned(), measured.rows.iter().collect()));
    }
    groups
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn geomean(values: impl Iterator<Item = f64>) -> Option<f64> {
    mean(values.map(f64::ln)).map(f64::exp)
}

/// The significance limit of a ratio, as distance from 1: nineteen of twenty controls are nearer.
#[derive(Clone, Copy)]
struct Noise {
    /// Of test runs, and of attached programs.
    kinds: [f64; 2],
}

impl Noise {
    fn of(rows: &[Row]) -> Noise {
        let kinds = [false, true].map(|attached| {
            let timed =
                rows.iter().filter_map(|row| row.timed.as_ref().ok()).filter(|timed| timed.attached == attached);
            let mut distances: Vec<f64> = timed.map(|timed| timed.noise().ln().abs()).collect();
            distances.sort_by(f64::total_cmp);
            distances.get(distances.len() * 19 / 20).copied().unwrap_or(0.0).exp()
        });
        Noise { kinds }
    }

    fn is_slower(self, timed: &Timed) -> bool {
        timed.ratio() > self.kinds[usize::from(timed.attached)]
    }

    fn is_faster(self, timed: &Timed) -> bool {
        timed.ratio() < 1.0 / self.kinds[usize::from(timed.attached)]
    }
}

/// Ratios of times without the loop or clock around the programs, for programs that take at least twice as long as
/// that.
fn net(rows: &[&Row]) -> impl Iterator<Item = f64> {
    let timed = rows.iter().filter_map(|row| row.timed.as_ref().ok());
    timed.filter_map(move |timed| {
        let [before, after] = [timed.before_ns - timed.around_ns, timed.after_ns - timed.around_ns];
        (before >= timed.around_ns && after > 0.0).then_some(after / before)
    })
}

/// What the cost model says of the instructions that the timed runs execute, after over before.
fn predicted(rows: &[&Row]) -> impl Iterator<Item = f64> {
    let paths = rows.iter().filter_map(|row| row.timed.as_ref().ok()?.path);
    paths.filter_map(|path| {
        let [before, after] = path.predicted_ns;
        (before > 0.0 && after > 0.0).then_some(after / before)
    })
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"))
}

/// Everything, as Markdown.
pub fn markdown(measured: &Measured) -> String {
    let mut text = String::new();
    let noise = Noise::of(&measured.rows);
    let _ = writeln!(
        text,
        "Goal {}, budget {}, {} programs, kernel {}; the whole took {:.0} s.",
        measured.goal.name(),
        measured.budget_s.map_or("the default".to_owned(), |seconds| format!("{seconds} s an object")),
        measured.rows.len(),
        measured.kernel.as_deref().unwrap_or("not asked"),
        measured.elapsed_s,
    );
    if measured.rows.iter().any(|row| row.timed.is_ok()) {
        let [test_runs, attached] = noise.kinds.map(|kind| 100.0 * (kind - 1.0));
        let _ = writeln!(
            text,
            "Noise: a ratio of times within {test_runs:.1} % of 1 says nothing (nineteen of twenty originals measured \
             against themselves are nearer), and one within {attached:.1} % of attached programs. Times include the \
             kernel's loop around a program ({:.0} ns for XDP) or its reading of the clock; the net ratio leaves that \
             out, over programs that take at least twice that. Predicted is what the cost model says of the \
             instructions that the timed runs execute.",
            measured.loop_ns.unwrap_or(0.0),
        );
    }
    text.push('\n');
    summary(&mut text, measured, noise);
    ranks::write(&mut text, &measured.rows);
    exceptions(&mut text, measured, noise);
    comparisons(&mut text, &measured.rows);
    proofs::write(&mut text, &measured.evidence);
    let groups = groups(measured);
    for (name, rows) in groups.iter().filter(|(name, _)| name != "all") {
        table(&mut text, name, rows);
    }
    text
}

/// The page that `docs/` keeps.
pub fn document(tables: &str) -> String {
    format!(
        "# The superoptimizer, measured\n\nWritten by `cargo xtask bench optimizer --write`; what the columns mean and \
         how they are measured is in [measuring.md](../internals/measuring.md).\n\n{tables}"
    )
}

fn summary(text: &mut String, measured: &Measured, noise: Noise) {
    let _ = writeln!(
        text,
        "| group | programs | slots saved, mean | of those that load | and have {LARGER} slots | slots | estimated time, geomean | run time, \
         geomean | of those that changed | net | predicted | timed | slower | faster | processed, sum | ratio | mean ratio | up | slowest object |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for (name, rows) in groups(measured) {
        let loading = || rows.iter().filter(|row| row.loads());
        let all_ratios = || rows.iter().filter_map(|row| row.time_ratio());
        let timed = || rows.iter().filter_map(|row| row.timed.as_ref().ok());
        let processed = || rows.iter().filter_map(|row| row.processed);
        let [before, after] =
            processed().fold([0u64; 2], |sum, own| [sum[0] + u64::from(own[0]), sum[1] + u64::from(own[1])]);
        let share = |own: [u32; 2]| f64::from(own[1]) / f64::from(own[0].max(1));
        let slots = rows
            .iter()
            .fold([0u64; 2], |sum, row| [sum[0] + u64::from(row.slots[0]), sum[1] + u64::from(row.slots[1])]);
        let slowest = rows.iter().map(|row| row.optimizing_s).fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} -> {} | {} | {} | {} | {} | {} | {} | {} | {} | {before} -> {after} | {} | {} | {} | \
             {slowest:.1} s |",
            rows.len(),
            percent(mean(rows.iter().map(|row| row.saved()))),
            percent(mean(loading().map(|row| row.saved()))),
            percent(mean(loading().filter(|row| row.slots[0] >= LARGER).map(|row| row.saved()))),
            slots[0],
            slots[1],
            ratio(geomean(rows.iter().filter_map(|row| row.estimated_ratio()))),
            ratio(geomean(all_ratios())),
            ratio(geomean(timed().map(Timed::ratio))),
            ratio(geomean(net(&rows))),
            ratio(geomean(predicted(&rows))),
            timed().count(),
            timed().filter(|timed| noise.is_slower(timed)).count(),
            timed().filter(|timed| noise.is_faster(timed)).count(),
            ratio((before > 0).then(|| after as f64 / before.max(1) as f64)),
            ratio(mean(processed().map(share))),
            processed().filter(|own| own[1] > own[0]).count(),
        );
    }
    text.push('\n');
}

/// What the targets exclude, by name, and what could not be measured, by reason.
fn exceptions(text: &mut String, measured: &Measured, noise: Noise) {
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = writeln!(text, "{title} ({}):\n", lines.len());
            text.extend(lines.iter().map(|line| format!("- {line}\n")));
            text.push('\n');
        }
    };
    let rows = &measured.rows;
    let slower = rows.iter().filter_map(|row| {
        let timed = row.timed.as_ref().ok().filter(|timed| noise.is_slower(timed))?;
        Some(format!("`{}`: {:.1} -> {:.1} ns, {:.3}", row.name(), timed.before_ns, timed.after_ns, timed.ratio()))
    });
    list("Slower than noise explains", slower.collect());
    let up = rows.iter().filter_map(|row| {
        let [before, after] = row.processed.filter(|own| own[1] > own[0])?;
        Some(format!("`{}`: {before} -> {after}", row.name()))
    });
    list("More instructions for the kernel's verifier", up.collect());
    let grown = rows.iter().filter(|row| row.slots[1] > row.slots[0]);
    list("Grown", grown.map(|row| format!("`{}`: {} -> {}", row.name(), row.slots[0], row.slots[1])).collect());
    let refused = rows.iter().filter_map(|row| {
        let reason = row.refused.as_ref().filter(|reason| reason.starts_with("only the optimized"))?;
        Some(format!("`{}`: {reason}", row.name()))
    });
    list("No longer loads", refused.collect());
    list("Not read or not written", measured.failed.iter().map(|(name, why)| format!("`{name}`: {why}")).collect());
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for reason in rows.iter().filter_map(|row| row.timed.as_ref().err()) {
        let reason = if reason.starts_with("does not load") { "does not load in this kernel" } else { reason };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    list("Not timed", reasons.iter().map(|(reason, count)| format!("{count} programs: {reason}")).collect());
}

/// What running both forms on the same inputs came to.
fn comparisons(text: &mut String, rows: &[Row]) {
    let compared: Vec<(&Row, &Equality)> = rows.iter().filter_map(|row| Some((row, row.equality.as_ref()?))).collect();
    if compared.is_empty() {
        return;
    }
    let equal = |outcome: &Outcome| match outcome {
        Outcome::Equal { inputs, masked } => Some((*inputs, *masked)),
        _ => None,
    };
    let _ = writeln!(text, "Compared on the same inputs: {} programs that changed.\n", compared.len());
    for (at, place) in ["the kernel", "the VM", "the VM with stand-ins"].into_iter().enumerate() {
        let own: Vec<(usize, usize)> = compared.iter().filter_map(|(_, all)| equal(all.outcomes()[at].1)).collect();
        let _ = writeln!(
            text,
            "- in {place}: {} programs equal on {} inputs in sum, at least {} each; {} have something masked, which the \
             original does not always do alike",
            own.len(),
            own.iter().map(|(inputs, _)| inputs).sum::<usize>(),
            own.iter().map(|(inputs, _)| *inputs).min().unwrap_or(0),
            own.iter().filter(|(_, masked)| *masked > 0).count(),
        );
    }
    let ran = |all: &Equality| all.outcomes().iter().any(|(_, outcome)| !matches!(outcome, Outcome::NotRun(_)));
    let only = compared
        .iter()
        .filter(|(_, all)| matches!((&all.kernel, &all.vm), (Outcome::NotRun(_), Outcome::NotRun(_))) && ran(all));
    let _ = writeln!(text, "- with stand-ins only: {} programs", only.count());
    let mut reasons: std::collections::BTreeMap<&str, usize> = Default::default();
    for (_, all) in compared.iter().filter(|(_, all)| !ran(all)) {
        if let Outcome::NotRun(reason) = &all.stand_in {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let _ = writeln!(text, "- nowhere: {} programs", reasons.iter().map(|(_, count)| count).sum::<usize>());
    for (reason, count) in &reasons {
        let _ = writeln!(text, "  - {count}: {reason}");
    }
    let mut differences = Vec::new();
    for (row, all) in &compared {
        for (place, outcome) in all.outcomes() {
            if let Outcome::Different(what) = outcome {
                let what: String = what.chars().take(300).collect();
                differences.push(format!("  - `{}` in {place}: {what}", row.name()));
            }
        }
    }
    let _ = writeln!(text, "- differences: {}", differences.len());
    differences.iter().for_each(|line| text.extend([line, "\n"]));
    text.push('\n');
}

fn table(text: &mut String, name: &str, rows: &[&Row]) {
    let published = rows.iter().all(|row| row.published.is_some());
    let _ = writeln!(text, "## {name}\n");
    let columns = if published { "in the paper | " } else { "" };
    let _ = writeln!(
        text,
        "| program | {columns}slots | saved | estimated ns | ns a run | ratio (quartiles) | processed | object took |\n\
         |---|{}--:|--:|--:|--:|--:|--:|--:|",
        if published { "--:|" } else { "" }
    );
    for row in rows {
        let paper = row.published.as_ref().filter(|_| published);
        let paper = paper.map(|paper| format!("{}: {} -> {} | ", paper.name, paper.slots[0], paper.slots[1]));
        let (ns, relative) = match &row.timed {
            Ok(timed) => (
                format!("{:.1} -> {:.1}", timed.before_ns, timed.after_ns),
                format!("{:.3} ({:.2}-{:.2})", timed.ratio(), timed.quartiles[0], timed.quartiles[1]),
            ),
            Err(_) => ("-".to_owned(), "-".to_owned()),
        };
        let processed =
            row.processed.map_or("does not load".to_owned(), |[before, after]| format!("{before} -> {after}"));
        let _ = writeln!(
            text,
            "| `{}` | {}{} -> {} | {} | {:.1} -> {:.1} | {ns} | {relative} | {processed} | {:.2} s |",
            row.name(),
            paper.unwrap_or_default(),
            row.slots[0],
            row.slots[1],
            percent(Some(row.saved())),
            row.estimated_ns[0],
            row.estimated_ns[1],
            row.optimizing_s,
        );
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use kiln_superopt::Goal;

    use super::*;

    fn row(group: &str, slots: [u32; 2], processed: Option<[u32; 2]>, after_ns: f64) -> Row {
        let timed = Timed {
            before_ns: 100.0,
            after_ns,
            control_ns: 101.0,
            quartiles: [0.9, 1.0],
            attached: false,
            around_ns: 0.0,
            path: None,
        };
        Row {
            group: group.to_owned(),
            object: format!("{group}/a.o"),
            program: "p".to_owned(),
            published: None,
            slots,
            estimated_ns: [20.0, 18.0],
            processed,
            refused: None,
            skipped: None,
            optimizing_s: 0.5,
            timed: Ok(timed),
            equality: None,
        }
    }

    #[test]
    fn means_are_of_what_they_say() {
        let rows = vec![row("a", [100, 80], Some([10, 12]), 90.0), row("a", [10, 10], None, 120.0)];
        let measured = Measured {
            rows,
            failed: Vec::new(),
            evidence: Vec::new(),
            goal: Goal::Size,
            budget_s: None,
            elapsed_s: 2.0,
            kernel: None,
            loop_ns: None,
        };
        let text = markdown(&measured);
        let summary = text.lines().find(|line| line.starts_with("| a |")).expect("a row for the group");
        // 10 % over both, 20 % over the one that loads; 0.9 times 1.2 is 1.08, whose root is 1.039.
        assert_eq!(
            summary,
            "| a | 2 | 10.0 % | 20.0 % | 20.0 % | 110 -> 90 | 0.900 | 1.039 | 1.039 | 1.039 | - | 2 | 1 | 1 | 10 -> 12 | 1.200 | 1.200 | 1 | 0.5 s |"
        );
        assert!(text.contains("More instructions for the kernel's verifier (1)"), "{text}");
        assert!(text.contains("Slower than noise explains (1)"), "{text}");
    }
}
