//! How long after its end a window is handed over.

use std::sync::Arc;
use std::time::Duration;

use kiln_driver::query::{Limits, Session, Settings, live, plan};

use crate::Failure;

const SQL: &str = "SELECT count(*) FROM syscalls WINDOW 100 MS";

/// Milliseconds of all windows that end within this time, in order.
pub fn milliseconds(over: Duration) -> Result<Vec<f64>, Failure> {
    let session = Session::new(SQL)?;
    let settings = Settings { except_pid: Some(std::process::id()), ..Settings::default() };
    let plan = plan::plan(&session, &settings, None)?;
    let limits = Limits::default();
    let watch = live::Watch {
        duration: Some(over),
        stop: &|| false,
        interrupt: Arc::default(),
        limits,
        measure: false,
        max_overhead: None,
        status: None,
    };
    let mut all: Vec<f64> = Vec::new();
    live::run(&session, plan, &watch, &mut |_, _| {}, &mut |rows| {
        let now = live::now_ns();
        // The last window is handed over when the query ends, before it does.
        let ended = rows.iter().filter_map(|row| now.checked_sub(row.window?[1]));
        all.extend(ended.map(|ns| ns as f64 / 1e6));
        true
    })?;
    all.sort_by(f64::total_cmp);
    if all.is_empty() { Err("no window ended".into()) } else { Ok(all) }
}
