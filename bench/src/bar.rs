//! Something that is asked, and whether what was measured meets it: measuring and judging are two things.

use std::fmt;

use serde::Serialize;

/// Something that is asked.
#[derive(Debug, Serialize)]
pub struct Bar {
    /// What, and beside what.
    pub what: String,
    /// What was measured.
    pub measured: String,
    /// Whether that is enough.
    pub verdict: Verdict,
}

/// Whether what was measured meets a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// By the median.
    Met,
    /// It is missed by less than the rounds differ.
    Even,
    /// In every round.
    Missed,
}

impl Verdict {
    /// Of what does not differ by rounds.
    pub fn of(is_met: bool) -> Verdict {
        if is_met { Verdict::Met } else { Verdict::Missed }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bar { what, measured, verdict } = self;
        let verdict = match verdict {
            Verdict::Met => "met",
            Verdict::Even => "even",
            Verdict::Missed => "missed",
        };
        write!(to, "{verdict:6}  {what}: {measured}")
    }
}
