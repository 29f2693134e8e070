//! How measurements of `kiln bench` look.

use std::collections::BTreeMap;

use kiln_driver::bench::{Pair, Row, geomean};
use kiln_driver::check::{KernelVerdict, Verdict};
use kiln_driver::shown::Clean;
use kiln_driver::timing::Timing;

use crate::print::{count, percent, table};
use crate::say;

const BENCH_COLUMNS: [&str; 7] =
    ["program", "slots", "saved", "verified us/kernel", "kernel processed", "VM ns", "kernel ns"];

/// Measurements: a row a program, then the means.
pub fn benched(rows: &[Row]) {
    let verdicts = |ours: &Verdict, kernel: &Option<KernelVerdict>| {
        let ours = match ours {
            Verdict::Accepted { .. } => "yes",
            Verdict::Rejected { .. } => "no",
            Verdict::Unsupported { .. } | Verdict::Invalid { .. } => "?",
        };
        let kernel = match kernel {
            Some(KernelVerdict::Accepted { .. }) => "yes",
            Some(KernelVerdict::Rejected { .. }) => "no",
            Some(KernelVerdict::NotAsked { .. }) => "?",
            None => "-",
        };
        format!("{ours}/{kernel}")
    };
    let kernel_cost = |verdict: &Option<KernelVerdict>| match verdict {
        Some(KernelVerdict::Accepted { processed_insns }) => processed_insns.to_string(),
        _ => "-".to_owned(),
    };
    let time = |timing: Timing| {
        let spread = (timing.high_ns - timing.low_ns) / 2.0;
        format!("{:.1}±{spread:.1}", timing.median_ns)
    };
    let times = |pair: Option<Pair>| {
        pair.map_or("-".to_owned(), |pair| format!("{} -> {}", time(pair.before), time(pair.after)))
    };
    let table_rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let own = &row.optimized;
            vec![
                format!("{}:{}", Clean(row.object.exact().trim_end_matches(".o")), own.program),
                format!("{} -> {}", own.slots_before, own.slots_after),
                percent(own.slots_before.into(), own.slots_after.into()),
                verdicts(&own.after, &own.kernel_after),
                format!("{} -> {}", kernel_cost(&own.kernel_before), kernel_cost(&own.kernel_after)),
                times(row.vm),
                times(row.kernel),
            ]
        })
        .collect();
    say!("{}", table(&BENCH_COLUMNS, &table_rows));
    around(rows);
    notes(rows);
    means(rows);
}

/// What was taken off the times.
fn around(rows: &[Row]) {
    let median = |pick: &dyn Fn(&Row) -> Option<Pair>| {
        let around = rows.iter().filter_map(|row| pick(row)?.around_ns).collect();
        Timing::of(around).map_or("-".to_owned(), |timing| format!("{:.1}", timing.median_ns))
    };
    let [vm, kernel] = [median(&|row| row.vm), median(&|row| row.kernel)];
    say!("times are net of an empty program's (median {vm} ns in the VM, {kernel} in the kernel)");
}

/// What could not be measured, each reason once with its programs. The means follow: they are the result.
fn notes(rows: &[Row]) {
    let mut programs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows {
        if let Some(note) = &row.note {
            let own = programs.entry(note.to_string()).or_default();
            own.push(format!("{}:{}", row.object, row.optimized.program));
        }
    }
    for (note, programs) in programs {
        match &programs[..] {
            [one] => say!("{one}: {note}"),
            several => say!("{}: {note}: {}", count(several.len(), "program"), several.join(", ")),
        }
    }
}

/// The summary below a table of measurements.
fn means(rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let saved = rows.iter().map(|row| {
        let own = &row.optimized;
        1.0 - f64::from(own.slots_after) / f64::from(own.slots_before.max(1))
    });
    say!(
        "{}, mean slot reduction {:.1}%",
        count(rows.len(), "program"),
        100.0 * saved.sum::<f64>() / rows.len() as f64
    );
    let ratios = |pick: &dyn Fn(&Row) -> Option<f64>| -> Vec<f64> { rows.iter().filter_map(pick).collect() };
    for (what, ratios) in [
        ("VM time, after over before", ratios(&|row| row.vm.and_then(|pair| pair.ratio()))),
        ("kernel time, after over before", ratios(&|row| row.kernel.and_then(|pair| pair.ratio()))),
        ("VM's JIT over the kernel's", ratios(&|row| row.vm_to_kernel)),
    ] {
        if let Some((mean, spread)) = geomean(&ratios) {
            say!(
                "{what}: geomean {mean:.2} (quartiles {:.2} to {:.2}, {})",
                spread.low_ns,
                spread.high_ns,
                count(ratios.len(), "program")
            );
        }
    }
}
