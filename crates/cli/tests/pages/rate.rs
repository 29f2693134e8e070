//! The page of `kiln serve` at 1,000 rows a second: rows as they come, and windows of 1,000 groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::browser::{Browser, LOOKS};
use crate::serve::service::Service;

/// Calls a second, and how many differ in their argument.
const RATE: u32 = 1000;
const GROUPS: u32 = 1000;
/// The part of its thread's time that the page may take. It is the thread's own time, so other work does not count.
const MOST: f64 = 0.25;

/// A thread that makes system calls at a rate, until it is dropped.
struct Calls(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Calls {
    fn begin() -> Calls {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let file = tempfile::tempfile().expect("a file");
        let calls = move || {
            let (begun, mut made) = (Instant::now(), 0u32);
            while !stopped.load(Ordering::SeqCst) {
                while f64::from(made) < begun.elapsed().as_secs_f64() * f64::from(RATE) {
                    file.set_len(u64::from(made % GROUPS)).expect("a sparse file");
                    made += 1;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        Calls(stop, Some(std::thread::spawn(calls)))
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        if let Some(thread) = self.1.take() {
            thread.join().expect("the calls end");
        }
    }
}

/// Begins to note frames and tasks of more than 50 ms.
const WATCH: &str = "(() => { window.seen = { frame: 0, frames: 0, tasks: [] };
  new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((one) => Math.round(one.duration))))
    .observe({ type: 'longtask' });
  let last = performance.now();
  const turn = (now) => { seen.frame = Math.max(seen.frame, now - last); seen.frames += 1; last = now; requestAnimationFrame(turn); };
  requestAnimationFrame((now) => { last = now; requestAnimationFrame(turn); }); })()";

/// Looks at both queries in both themes for some time each, once there are `windows`. Returns the largest part of the
/// thread's time.
fn look(time: Duration, windows: u32) -> Option<f64> {
    let mut browser = Browser::start()?;
    let service = Service::begin(&["--max-overhead", "90%", "--max-total-overhead", "100%"])?;
    let _calls = Calls::begin();
    let from = format!("FROM syscalls WHERE name = 'ftruncate' AND pid = {}", std::process::id());
    service.document(&["install", "rows", &format!("SELECT ts, comm, arg1, ret, latency_ns {from}")]);
    let groups = format!("SELECT arg1, count(*) AS n, histogram(latency_ns) AS h {from} GROUP BY arg1 WINDOW 1 S");
    service.document(&["install", "groups", &groups]);
    let enough = |document: &serde_json::Value| document["last_window"].as_u64() >= Some(windows.into());
    for name in ["rows", "groups"] {
        service.until(name, enough);
    }
    let mut most = 0f64;
    browser.call("Performance.enable", json!({"timeDomain": "threadTicks"}));
    for look in [LOOKS[0], LOOKS[1]] {
        browser.look(look);
        browser.open_url("about:blank");
        browser.open_url(&format!("{}/#{}", service.page.0, service.page.1));
        for (button, name) in ["groups", "rows"].into_iter().enumerate() {
            browser.until(&format!("document.querySelectorAll('#queries tbody button').length > {button}"));
            browser.value(&format!("document.querySelectorAll('#queries tbody button')[{button}].click()"));
            browser.until("document.querySelectorAll('#rows tbody tr').length === 500");
            browser.value(WATCH);
            let (before, begun) = (busy(&mut browser), Instant::now());
            std::thread::sleep(time);
            let part = (busy(&mut browser) - before) / begun.elapsed().as_secs_f64();
            let seen = browser.value("[Math.round(seen.frame), seen.frames, seen.tasks]");
            println!(
                "{name}, {}: {:.1} % of the thread; longest frame, frames, long tasks: {seen} ms",
                look.theme,
                100.0 * part
            );
            browser.picture(&format!("rate-{name}"), look);
            most = most.max(part);
        }
    }
    assert_eq!(browser.complaints, Vec::<String>::new());
    Some(most)
}

/// Seconds that the page's thread has worked.
fn busy(browser: &mut Browser) -> f64 {
    let metrics = browser.call("Performance.getMetrics", json!({}));
    let metrics = metrics["metrics"].as_array().expect("metrics");
    let task = metrics.iter().find(|metric| metric["name"] == "TaskDuration").expect("its time");
    task["value"].as_f64().expect("a number")
}

#[test]
fn a_thousand_rows_a_second_leave_the_page_free() {
    if let Some(most) = look(Duration::from_secs(3), 3) {
        assert!(most < MOST, "{most:.2} of the page's thread");
    }
}

#[test]
#[ignore = "a measurement: a minute of windows, then 20 s of each query in each theme"]
fn measure_a_thousand_rows_a_second() {
    look(Duration::from_secs(20), 60);
}
