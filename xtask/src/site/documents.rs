//! Markdown documents as pages.
//!
//! Links to other documents lead to their pages. Links to files that have no page, such as sources, become plain text. A
//! heading's anchor is its text in lower case with hyphens, as code hosts make it, so that links work in both places.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use crate::command::Failure;

/// A page that was written.
pub struct Written {
    /// Its path from the front page.
    pub page: String,
    /// Its first heading.
    pub title: String,
    /// Whether it is named at the top of the front page.
    pub first: bool,
}

/// Documents named at the top of the front page.
const FIRST: [&str; 5] =
    ["README.md", "docs/guide/running.md", "docs/guide/check-output.md", "docs/guide/superoptimizer.md", "docs/internals/architecture.md"];

/// Makes a page around a document: from its title, the way up to the front page, and its content.
type Wrap<'a> = &'a dyn Fn(&str, &str, &str) -> String;

/// Writes a page for each document of the repository.
///
/// # Errors
/// When a file cannot be read or written.
pub fn write(root: &Path, folder: &Path, wrap: Wrap<'_>) -> Result<Vec<Written>, Failure> {
    let mut sources: BTreeSet<PathBuf> = ["README.md", "CHANGELOG.md", "SECURITY.md"].map(PathBuf::from).into();
    markdown_below(root, Path::new("docs"), &mut sources)?;
    let pages: BTreeMap<PathBuf, String> = sources.iter().map(|source| (source.clone(), page_of(source))).collect();
    let mut written = Vec::new();
    for (source, page) in &pages {
        let text = fs::read_to_string(root.join(source)).map_err(|error| failed(source, &error))?;
        let (title, content) = render(&text, source, &pages);
        let up = "../".repeat(page.matches('/').count());
        super::write(&folder.join(page), &wrap(&title, &up, &content))?;
        let first = FIRST.iter().any(|own| Path::new(own) == source);
        written.push(Written { page: page.clone(), title, first });
    }
    Ok(written)
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

fn markdown_below(root: &Path, folder: &Path, sources: &mut BTreeSet<PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(root.join(folder)).map_err(|error| failed(folder, &error))? {
        let entry = entry.map_err(|error| failed(folder, &error))?;
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            markdown_below(root, &path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            sources.insert(path);
        }
    }
    Ok(())
}

/// `docs/running.md` becomes `docs/running.html`; the front page is `index.html`.
fn page_of(source: &Path) -> String {
    source.with_extension("html").to_string_lossy().into_owned()
}

/// The title and the content of a document.
fn render(text: &str, source: &Path, pages: &BTreeMap<PathBuf, String>) -> (String, String) {
    let mut events: Vec<Event<'_>> =
        Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).collect();
    let mut title = String::new();
    let mut anchors = BTreeMap::new();
    let mut plain = Vec::new();
    for at in 0..events.len() {
        if let Event::Start(Tag::Heading { level, .. }) = &events[at] {
            let level = *level;
            let words = words(&events[at + 1..]);
            if level == HeadingLevel::H1 && title.is_empty() {
                title = words.clone();
            }
            let anchor = anchor(&words, &mut anchors);
            if let Event::Start(Tag::Heading { id, .. }) = &mut events[at] {
                *id = Some(CowStr::from(anchor));
            }
        }
        if let Event::Start(Tag::Link { dest_url, .. }) = &mut events[at] {
            match target(dest_url, source, pages) {
                Some(url) => *dest_url = CowStr::from(url),
                None => plain.push(at),
            }
        }
    }
    // Links do not nest: the next end belongs to the start.
    for at in plain {
        let end = events[at..].iter().position(|event| matches!(event, Event::End(TagEnd::Link)));
        events[at] = Event::Text("".into());
        if let Some(end) = end {
            events[at + end] = Event::Text("".into());
        }
    }
    // Markup of a document is shown as text: none of ours has any.
    let shown = events.into_iter().map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        other => other,
    });
    let mut content = String::new();
    html::push_html(&mut content, shown);
    if title.is_empty() {
        title = source.display().to_string();
    }
    (title, content)
}

/// The text of a heading.
fn words(events: &[Event<'_>]) -> String {
    let inside = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let texts = inside.filter_map(|event| match event {
        Event::Text(text) | Event::Code(text) => Some(text.as_ref()),
        _ => None,
    });
    texts.collect()
}

/// The anchor of a heading: lower case, hyphens for spaces, a number where it is not the first.
fn anchor(words: &str, taken: &mut BTreeMap<String, u32>) -> String {
    let kept = words.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
    let anchor = kept.replace(' ', "-");
    let count = taken.entry(anchor.clone()).or_default();
    *count += 1;
    if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
}

/// Where a link leads: to a page, a place in it, or out of the site; `None` for files without a page.
fn target(url: &str, source: &Path, pages: &BTreeMap<PathBuf, String>) -> Option<String> {
    if url.contains("://") || url.starts_with('#') || url.starts_with("mailto:") {
        return Some(url.to_owned());
    }
    let (path, place) = url.split_once('#').map_or((url, String::new()), |(path, place)| (path, format!("#{place}")));
    let page = pages.get(&normal(&source.parent()?.join(path)))?;
    let up = "../".repeat(page_of(source).matches('/').count());
    Some(format!("{up}{page}{place}"))
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Checks that each link of each page leads to a page of the folder, and to a place that it has.
///
/// # Errors
/// All links that lead nowhere.
pub fn check_links(folder: &Path) -> Result<(), Failure> {
    let mut pages = BTreeMap::new();
    html_below(folder, Path::new(""), &mut pages)?;
    let broken: Vec<String> = pages
        .iter()
        .flat_map(|(page, text)| attributes(text, " href=\"").into_iter().map(move |link| (page, link)))
        .filter(|(page, link)| !leads_somewhere(page, link, &pages))
        .map(|(page, link)| format!("{}: {link} leads nowhere", page.display()))
        .collect();
    if broken.is_empty() { Ok(()) } else { Err(Failure::failed(broken.join("\n"))) }
}

fn html_below(root: &Path, folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<(), Failure> {
    for entry in fs::read_dir(root.join(folder)).map_err(|error| failed(folder, &error))? {
        let entry = entry.map_err(|error| failed(folder, &error))?;
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            html_below(root, &path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "html") {
            let text = fs::read_to_string(entry.path()).map_err(|error| failed(&path, &error))?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// The values of an attribute.
fn attributes<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    text.split(start).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)).collect()
}

fn leads_somewhere(page: &Path, link: &str, pages: &BTreeMap<PathBuf, String>) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => page.to_owned(),
        path => normal(&page.parent().unwrap_or(Path::new("")).join(path)),
    };
    let Some(text) = pages.get(&target) else { return false };
    place.is_empty() || attributes(text, " id=\"").contains(&place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> BTreeMap<PathBuf, String> {
        ["README.md", "docs/a.md", "docs/b.md"].iter().map(|path| (path.into(), page_of(Path::new(path)))).collect()
    }

    #[test]
    fn links_between_documents_become_links_between_pages() {
        let from = Path::new("docs/a.md");
        assert_eq!(target("b.md#some-place", from, &pages()).as_deref(), Some("../docs/b.html#some-place"));
        assert_eq!(target("../README.md", from, &pages()).as_deref(), Some("../README.html"));
        assert_eq!(target("../crates/a.rs", from, &pages()), None);
        assert_eq!(target("https://example.org/a.md", from, &pages()).as_deref(), Some("https://example.org/a.md"));
    }

    #[test]
    fn headings_have_anchors_and_markup_is_text() {
        let (title, content) =
            render("# The `title`\n\n<b>x</b> [code](../x.rs)\n\n## A, b\n## A, b\n", Path::new("docs/a.md"), &pages());
        assert_eq!(title, "The title");
        assert!(content.contains("id=\"a-b\"") && content.contains("id=\"a-b-1\""), "{content}");
        assert!(content.contains("&lt;b&gt;") && !content.contains("<a"), "{content}");
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let pages: BTreeMap<PathBuf, String> =
            [("docs/a.html".into(), "<h1 id=\"x\">".to_owned()), ("index.html".into(), String::new())].into();
        let leads = |link| leads_somewhere(Path::new("docs/a.html"), link, &pages);
        assert!(leads("#x") && leads("../index.html") && leads("a.html#x"));
        assert!(!leads("#y") && !leads("b.html") && !leads("../index.html#x"));
    }
}
