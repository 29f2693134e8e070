//! The page is well-formed, loads nothing, and shows hostile names as text.

use std::time::Duration;

use super::*;
use crate::{input, optimize};

/// Elements that have no end tag.
const VOID: [&str; 7] = ["meta", "br", "col", "link", "img", "input", "hr"];

fn report_of(name: &str, text: &str) -> String {
    let input = input::parse(name, text.into(), &[]).expect("a program");
    let options = optimize::Options { budget: Duration::from_secs(120), keep_queries: true, ..Default::default() };
    let outcome = optimize::optimize(&input, &options, &mut ()).expect("optimized");
    assert!(!outcome.evidence.is_empty());
    page(&input.object, &outcome)
}

/// The tags of a page, in order; panics where an element is not closed, or closed by another's end.
fn tags(page: &str) -> Vec<&str> {
    let mut open = Vec::new();
    let mut tags = Vec::new();
    // What a style holds is not markup.
    let (head, rest) = page.split_once("<style>").expect("a style");
    let (style, body) = rest.split_once("</style>").expect("its end");
    assert!(!style.contains('<') && !style.contains("url(") && !style.contains("@import"));
    for part in [head, body].into_iter().flat_map(|part| part.split('<').skip(1)) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "a > that is not escaped: {text}");
        let name = tag.split_whitespace().next().expect("a tag has a name");
        tags.push(tag);
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "in {tag}"),
            None if name == "!DOCTYPE" || VOID.contains(&name) => {}
            None => open.push(name),
        }
    }
    assert_eq!(open, Vec::<&str>::new());
    tags
}

const PROGRAM: &str = "; map counters array key 4 value 8 entries 1
; program xdp name main
; line 3:1 \"src/a.c\" \"int main(void) { return 1 + 2; }\"
 r1 = 1
 r2 = 2
 r0 = 5
 r0 += r1
 r0 += r2
 exit
";

#[test]
fn the_page_is_well_formed_and_loads_nothing() {
    let page = report_of("sum.bpf", PROGRAM);
    for tag in tags(&page) {
        for attribute in ["src=", "srcset=", "data=", "action=", "onclick", "onload", "onerror", "style="] {
            assert!(!tag.contains(attribute), "<{tag}>");
        }
        if let Some((_, target)) = tag.split_once("href=\"") {
            assert!(target.starts_with('#'), "<{tag}> leads out of the page");
        }
        assert!(!tag.starts_with("script") && !tag.starts_with("link") && !tag.starts_with("iframe"), "<{tag}>");
    }
    for outside in ["http:", "https:", "//", "javascript:"] {
        assert!(!page.contains(outside), "the page has {outside}");
    }
}

#[test]
fn links_lead_somewhere() {
    let page = report_of("sum.bpf", PROGRAM);
    let tags = tags(&page);
    let ids: Vec<&str> = tags.iter().filter_map(|tag| Some(tag.split_once(" id=\"")?.1.split_once('"')?.0)).collect();
    let links: Vec<&str> =
        tags.iter().filter_map(|tag| Some(tag.split_once("href=\"#")?.1.split_once('"')?.0)).collect();
    assert!(links.iter().any(|link| link.starts_with('r')) && links.iter().any(|link| link.contains('c')), "{links:?}");
    for link in links {
        assert!(ids.contains(&link), "#{link} is nowhere");
    }
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "an id occurs twice");
}

#[test]
fn it_shows_source_changes_and_proofs() {
    let page = report_of("sum.bpf", PROGRAM);
    for shown in ["int main(void) { return 1 + 2; }", "a.c:3", "r0 = 0x8", "normal-form", "slots saved", "<svg"] {
        let shown = if shown == "normal-form" { "both have one normal form" } else { shown };
        assert!(page.contains(shown), "no {shown}");
    }
}

#[test]
fn hostile_names_are_text() {
    let mut input = input::parse("a.bpf", PROGRAM.into(), &[]).expect("a program");
    input.object.name = "</title><b>".to_owned();
    input.object.functions[0].name = "</code><script>alert(1)</script>\u{202e}\u{0}x".to_owned();
    input.object.programs[0].name = "<img src=x>".to_owned();
    input.object.programs[0].section = "\"><b onload=1>".to_owned();
    for line in &mut input.object.lines {
        line.file = "<i>.c".to_owned();
        line.text = "if (a < b && c > d) </td><style>".to_owned();
    }
    let options = optimize::Options { budget: Duration::from_secs(2), ..Default::default() };
    let outcome = optimize::optimize(&input, &options, &mut ()).expect("optimized");
    let page = page(&input.object, &outcome);
    let tags = tags(&page);
    for bad in ["script", "img", "i", "b"] {
        assert!(!tags.iter().any(|tag| tag.split_whitespace().next() == Some(bad)), "<{bad}>");
    }
    assert!(page.contains("&lt;script&gt;") && page.contains("\\u{202e}\\0x"), "{page}");
}

#[test]
fn five_thousand_slots_are_a_page() {
    let mut text = String::from("; program xdp\n r0 = 0\n");
    for number in 0..2500 {
        text += &format!(" r1 = {number}\n r0 += r1\n");
    }
    text += " exit\n";
    let page = report_of("long.bpf", &text);
    tags(&page);
    assert!(page.len() < 32 << 20, "{} bytes", page.len());
}
