//! The page of `kiln serve`: real windows in a real browser.

// The tests of the service itself use all of it.
#[allow(dead_code)]
#[path = "../serve/service.rs"]
pub mod service;

use serde_json::json;

use crate::browser::{Browser, LOOKS};
use service::{Service, Work};

#[test]
fn the_page_of_a_service_shows_windows_as_they_come() {
    let Some(mut browser) = Browser::start() else { return };
    let Some(service) = Service::begin(&["--max-overhead", "90%", "--max-total-overhead", "100%"]) else { return };
    let _work = Work::begin();
    browser.look(LOOKS[0]);
    browser.open_url(&service.page.0);
    browser.until("document.getElementById('problem').textContent.includes('key is missing')");
    let refused = std::mem::take(&mut browser.complaints);
    assert!(refused.iter().all(|text| text.contains("401")), "{refused:?}");
    // Only the part after # changes, so the page would not load again.
    browser.open_url("about:blank");
    browser.open_url(&format!("{}/#{}", service.page.0, service.page.1));
    browser.until("!document.getElementById('none').hidden");
    let sql = "SELECT comm, name, count(*) AS n, histogram(latency_ns) AS h FROM syscalls \
               WHERE comm = '<script>a=1' GROUP BY comm, name WINDOW 200 MS";
    service.document(&["install", "calls", sql]);
    service.document(&["install", "rows", "SELECT pid, comm FROM forks"]);
    // Real windows arrive: lines, a heat map, and rows whose names are text.
    browser.until("document.querySelectorAll('#lines > svg polyline').length > 0");
    browser.until("document.querySelectorAll('#heat td.h6').length > 0");
    browser.until("document.querySelectorAll('#rows tbody tr').length > 1");
    assert_eq!(browser.value("document.querySelector('#rows tbody td').textContent"), "<script>a=1");
    assert_eq!(
        browser.value("[document.scripts.length, document.scripts[0].src.endsWith('/page.js')]"),
        json!([1, true])
    );
    let state = "document.getElementById('state').textContent";
    browser.until(&format!("{state}.includes('nothing lost') && {state}.includes('of one CPU')"));
    let listed = "[...document.querySelectorAll('#queries tbody tr')].map((row) => row.cells[0].textContent + row.cells[1].textContent)";
    assert_eq!(browser.value(listed), json!(["callsrunning", "rowsrunning"]));
    for look in LOOKS {
        browser.look(look);
        browser.picture("serve", look);
        browser.check_readable("the page of a service");
    }
    // Sorted by a column, filtered by a word; still while it is paused.
    browser.value("document.getElementById('pause').click()");
    browser.value("document.querySelectorAll('#rows th button')[2].click()");
    let numbers = "[...document.querySelectorAll('#rows tbody tr')].map((row) => Number(row.cells[2].textContent))";
    browser.until(&format!("((all) => all.length > 1 && all.every((n, at) => !at || all[at - 1] >= n))({numbers})"));
    assert_eq!(browser.value("document.querySelectorAll('#rows th')[2].getAttribute('aria-sort')"), "descending");
    let first = browser.value("document.querySelector('#rows tbody tr').cells[1].textContent");
    let filter = |text: &str| {
        format!(
            "document.getElementById('filter').value = '{text}', document.getElementById('filter').dispatchEvent(new Event('input'))"
        )
    };
    browser.value(&filter(first.as_str().expect("a system call")));
    browser.until("document.getElementById('found').textContent.includes(' of ')");
    browser.value(&filter("<script>nothing"));
    browser.until("document.querySelectorAll('#rows tbody tr').length === 0");
    browser.value(&filter(""));
    browser.value("document.getElementById('pause').click()");
    // Another query, chosen by its button; rows that are no groups have no charts.
    browser.value("document.querySelectorAll('#queries tbody button')[1].click()");
    browser.until("document.getElementById('query-title').textContent === 'rows'");
    browser.until("document.querySelectorAll('#rows tbody tr').length > 0 && document.getElementById('heat').hidden");
    assert_eq!(std::mem::take(&mut browser.complaints), Vec::<String>::new());
    service.document(&["stop", "rows"]);
    service.document(&["stop", "calls"]);
    browser.until("!document.getElementById('none').hidden");
    // The page may ask for a query once more while it ends.
    assert!(browser.complaints.iter().all(|text| text.contains("404")), "{:?}", browser.complaints);
    drop(service);
    browser.until("document.getElementById('problem').textContent.includes('does not answer')");
}
