//! The page is well-formed, loads nothing, and keeps hostile names as text.

use std::io::Read as _;
use std::time::Duration;

use super::*;
use crate::optimize;
use kiln_inspect::input;

/// Elements that have no end tag.
const VOID: [&str; 7] = ["meta", "br", "col", "link", "img", "input", "hr"];

fn about() -> About {
    About { command: "kiln optimize a.o -o b.o".into(), kernel: "Linux 6.18".into(), output: "b.o".into() }
}

fn report_of(name: &str, text: &str) -> String {
    let input = input::parse(name, text.into(), &[]).expect("a program");
    let options = optimize::Options { budget: Duration::from_secs(120), keep_queries: true, ..Default::default() };
    let outcome = optimize::optimize(&input, &options, &mut ()).expect("optimized");
    assert!(!outcome.evidence.is_empty());
    page(&input, &outcome, &about())
}

/// The text of an element that is not markup: a style or a script, from what its start tag begins with.
fn raw<'p>(page: &'p str, start: &str) -> &'p str {
    let element = page.split_once(start).unwrap_or_else(|| panic!("no {start}")).1;
    let (_, text) = element.split_once('>').expect("a tag ends");
    text.split_once("</").expect("an element ends").0
}

/// What a part of the page unpacks to.
fn unpacked(page: &str, id: &str) -> String {
    let text = raw(page, &format!("<script id=\"{id}\""));
    let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).expect("base64");
    let mut json = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut json).expect("gzip");
    json
}

/// The tags of a page, in order; panics where an element is not closed, or closed by another's end.
fn tags(page: &str) -> Vec<&str> {
    let mut open = Vec::new();
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some((text, tag)) = rest.split_once('<') {
        assert!(!text.contains('>'), "a > that is not escaped: {text}");
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        let name = tag.split_whitespace().next().expect("a tag has a name");
        tags.push(tag);
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "in {tag}"),
            None if name == "!DOCTYPE" || VOID.contains(&name) => {}
            None => open.push(name),
        }
        rest = text;
        // What a style or a script holds is not markup. It ends where its end tag is.
        if name == "style" || name == "script" {
            let end = rest.find(&format!("</{name}>")).expect("its end");
            let text = &rest[..end];
            assert!(!text.contains("</") && !text.contains("<!--"), "{name}: markup in {text}");
            assert!(name == "script" || !text.contains("url(") && !text.contains("@import"));
            rest = &rest[end..];
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
    let tags = tags(&page);
    for tag in &tags {
        for attribute in ["src=", "srcset=", "data=", "action=", "onclick", "onload", "onerror", "style="] {
            assert!(!tag.contains(attribute), "<{tag}>");
        }
        if let Some((_, target)) = tag.split_once("href=\"") {
            assert!(target.starts_with('#'), "<{tag}> leads out of the page");
        }
        assert!(!tag.starts_with("link") && !tag.starts_with("iframe"), "<{tag}>");
    }
    // One script runs, the one that the policy names; the other three are data.
    let scripts: Vec<_> = tags.iter().filter(|tag| tag.split_whitespace().next() == Some("script")).collect();
    assert_eq!(scripts.iter().filter(|tag| tag.contains("type=\"application/")).count(), 3, "{scripts:?}");
    assert_eq!(scripts.len(), 4);
    let hash = data::base64(&Sha256::digest([THEME_SCRIPT, SCRIPT].concat()));
    assert!(page.contains(&format!("script-src 'sha256-{hash}'")), "the policy names another script");
    for outside in ["http:", "https:", "javascript:", "innerHTML", "insertAdjacentHTML", "eval("] {
        assert!(!page.contains(outside), "the page has {outside}");
    }
}

#[test]
fn links_lead_somewhere() {
    let page = report_of("sum.bpf", PROGRAM);
    let tags = tags(&page);
    let ids: Vec<&str> = tags.iter().filter_map(|tag| Some(tag.split_once(" id=\"")?.1.split_once('"')?.0)).collect();
    let links = tags.iter().filter_map(|tag| Some(tag.split_once("href=\"#")?.1.split_once('"')?.0));
    let links: Vec<&str> = links.collect();
    assert!(links.contains(&"p0"), "{links:?}");
    for link in links {
        assert!(ids.contains(&link), "#{link} is nowhere");
    }
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "an id occurs twice");
}

#[test]
fn it_shows_source_changes_proofs_and_both_objects() {
    let page = report_of("sum.bpf", PROGRAM);
    let details = unpacked(&page, "details");
    for shown in ["int main(void) { return 1 + 2; }", "a.c:3", "r0 = 0x8", "both have one normal form"] {
        assert!(details.contains(shown), "no {shown} in {details}");
    }
    let hash: String = Sha256::digest(PROGRAM).iter().map(|byte| format!("{byte:02x}")).collect();
    for shown in ["slots", "<svg", "kiln optimize a.o -o b.o", "Linux 6.18", &hash] {
        assert!(page.contains(shown), "no {shown}");
    }
    assert!(!unpacked(&page, "queries").is_empty());
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
    let page = page(&input, &outcome, &About { command: "kiln '</script>'".into(), ..about() });
    let tags = tags(&page);
    for bad in ["img", "i", "b"] {
        assert!(!tags.iter().any(|tag| tag.split_whitespace().next() == Some(bad)), "<{bad}>");
    }
    assert_eq!(tags.iter().filter(|tag| tag.starts_with("script")).count(), 4);
    assert!(page.contains("&lt;img src=x&gt;") && page.contains("kiln '&lt;/script&gt;'"), "{page}");
    let details = unpacked(&page, "details");
    assert!(details.contains("</code><script>alert(1)</script>\\\\u{202e}\\\\0x"), "{details}");
    assert_eq!(data::json(&"</script>"), "\"\\u003c/script>\"");
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
