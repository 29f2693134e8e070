//! Whether the cost model puts programs in the order in which they are measured: Spearman's rank correlation.

use std::fmt::Write as _;

use super::Row;

/// The correlation that is aimed at.
const BAR: f64 = 0.9;
/// Programs that are named, those whose ranks are farthest apart first.
const NAMED: usize = 5;

/// The rank of each value, from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0.0; values.len()];
    for equal in order.chunk_by(|one, other| values[*one].total_cmp(&values[*other]).is_eq()) {
        let first = order.partition_point(|own| values[*own].total_cmp(&values[equal[0]]).is_lt());
        let rank = first as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|own| ranks[*own] = rank);
    }
    ranks
}

/// Spearman's rho, and how far apart the ranks of each pair are; `None` where one side has no order.
fn spearman(pairs: &[(f64, f64)]) -> Option<(f64, Vec<f64>)> {
    let (one, other): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (one, other) = (ranks(&one), ranks(&other));
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |left: &[f64], right: &[f64]| -> f64 {
        left.iter().zip(right).map(|(left, right)| (left - mean) * (right - mean)).sum()
    };
    let scale = (product(&one, &one) * product(&other, &other)).sqrt();
    let apart = one.iter().zip(&other).map(|(one, other)| one - other).collect();
    (scale > 0.0).then(|| (product(&one, &other) / scale, apart))
}

/// Predicted and measured nanoseconds of each form, without what is around a program.
fn times(row: &Row) -> Option<[(f64, f64); 2]> {
    let timed = row.timed.as_ref().ok()?;
    let [before, after] = timed.path?.predicted_ns;
    Some([(before, timed.before_ns - timed.around_ns), (after, timed.after_ns - timed.around_ns)])
}

/// Writes the correlation of times, and that of the ratios of after to before where the prediction changed.
pub(super) fn write(text: &mut String, rows: &[Row]) {
    let timed: Vec<(&Row, [(f64, f64); 2])> = rows.iter().filter_map(|row| Some((row, times(row)?))).collect();
    let before: Vec<(&Row, (f64, f64))> = timed.iter().map(|(row, both)| (*row, both[0])).collect();
    line(text, "times of the original", &before);
    let ratio = |[before, after]: [(f64, f64); 2]| (after.0 / before.0, after.1 / before.1);
    let changed = timed.iter().filter(|(_, both)| both[0].0 != both[1].0 && both[0].1 > 0.0);
    line(text, "ratios of after to before", &changed.map(|(row, both)| (*row, ratio(*both))).collect::<Vec<_>>());
}

fn line(text: &mut String, what: &str, all: &[(&Row, (f64, f64))]) {
    let pairs: Vec<(f64, f64)> = all.iter().map(|(_, pair)| *pair).collect();
    let Some((rho, apart)) = spearman(&pairs) else { return };
    let met = if rho >= BAR { "met" } else { "missed" };
    let mut farthest: Vec<(usize, f64)> = apart.into_iter().enumerate().collect();
    farthest.sort_by(|one, other| other.1.abs().total_cmp(&one.1.abs()));
    let named = farthest.iter().take(NAMED).map(|(at, apart)| {
        let (row, (predicted, measured)) = &all[*at];
        format!("`{}` by {apart:+.0} ({predicted:.3}, measured {measured:.3})", row.name())
    });
    let named: Vec<String> = named.collect();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\nSpearman's rho of predicted and measured {what}: {rho:.2} over {} programs (bar {BAR}: {met}). Ranks are \
         farthest apart for {}.",
        pairs.len(),
        named.join(", "),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_correlate_as_orders_do() {
        let rho = |pairs: &[(f64, f64)]| spearman(pairs).map(|(rho, _)| (rho * 1000.0).round() / 1000.0);
        assert_eq!(rho(&[(1.0, 10.0), (2.0, 400.0), (3.0, 500.0)]), Some(1.0));
        assert_eq!(rho(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Some(-1.0));
        // Ranks 1, 2, 3, 4 against 1, 3, 2, 4: 1 - 6 * 2 / (4 * 15).
        assert_eq!(rho(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 9.0)]), Some(0.8));
        // Equal values share a rank.
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [2.5, 1.0, 2.5]);
        assert_eq!(rho(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }
}
