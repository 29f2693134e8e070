//! `cargo xtask site`: the playground and the documents as pages, in `target/site`.
//!
//! ```text
//!   crates/playground --cargo, wasm32-wasip1--> program --gzip, base64--+
//!   crates/playground/page: worker, script, style ----------------------+--> index.html, which needs nothing else
//!   README.md, CHANGELOG.md, docs/**/*.md ------------------------------> one page each, links checked
//! ```
//!
//! The pages need no server and no network: they work from a folder.

mod documents;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::command::{Failure, cargo, flags, root, run as run_command, target_dir};

const STYLE: &str = include_str!("../../../crates/driver/src/report/style.css");
const THEME: &str = include_str!("../../../crates/driver/src/report/theme.js");
const PAGE: &str = include_str!("../../../crates/playground/page/index.html");
const PAGE_STYLE: &str = include_str!("../../../crates/playground/page/style.css");
const PAGE_SCRIPT: &str = include_str!("../../../crates/playground/page/page.js");
const WORKER: &str = include_str!("../../../crates/playground/page/worker.js");

/// The kind of machine that the playground is built for.
pub const TARGET: &str = "wasm32-wasip1";
/// Bytes of its stack, and of all its memory at most: deep programs fit, and a page cannot take the machine's memory.
const STACK: u32 = 8 << 20;
const MEMORY: u32 = 1 << 30;
/// Bytes that the front page may have.
const MOST_BYTES: usize = 8 << 20;

/// `cargo xtask site`.
///
/// # Errors
/// When the playground does not build, or a link leads nowhere.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [] = flags(arguments, [])?;
    let code = build()?;
    let folder = target_dir().join("site");
    let written = documents::write(&root(), &folder, &wrap)?;
    let page = front_page(&code, &written);
    if page.len() > MOST_BYTES {
        return Err(Failure::failed(format!("the front page has {} bytes, more than {MOST_BYTES}", page.len())));
    }
    write(&folder.join("index.html"), &page)?;
    documents::check_links(&folder)?;
    println!(
        "{}: {} KiB with the playground ({} KiB of WebAssembly), {} documents, all links lead somewhere",
        folder.join("index.html").display(),
        page.len() / 1024,
        code.len() / 1024,
        written.len()
    );
    Ok(())
}

/// Builds the playground and returns its bytes.
fn build() -> Result<Vec<u8>, Failure> {
    let mut command = cargo();
    command.args(["rustc", "--quiet", "--profile", "browser", "--target", TARGET, "-p", "kiln-playground"]);
    command.args(["--bin", "kiln-playground", "--"]);
    command.arg(format!("-Clink-arg=-zstack-size={STACK}")).arg(format!("-Clink-arg=--max-memory={MEMORY}"));
    run_command(&mut command, "building the playground")
        .map_err(|failure| Failure::failed(format!("{failure}\nis the target there? rustup target add {TARGET}")))?;
    let path = target_dir().join(TARGET).join("browser/kiln-playground.wasm");
    fs::read(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

fn front_page(code: &[u8], documents: &[documents::Written]) -> String {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(code).expect("memory takes everything");
    let code = STANDARD.encode(gzip.finish().expect("memory takes everything"));
    let script = [THEME, PAGE_SCRIPT].concat();
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src {} 'wasm-unsafe-eval' blob:; worker-src blob:; \
         base-uri 'none'; form-action 'none'",
        hash(&script)
    );
    let types =
        ["xdp", "sched_cls", "socket_filter", "kprobe", "tracepoint", "raw_tracepoint", "cgroup_skb", "tracing"];
    let types: String = types.iter().map(|name| format!("<option>{name}</option>")).collect();
    let list = |all: bool| {
        let chosen = documents.iter().filter(|one| all || one.first);
        let links = chosen.map(|one| {
            let link = format!("<a href=\"{}\">{}</a>", one.page, documents::escape(&one.title));
            if all { format!("<li>{link}</li>") } else { link }
        });
        links.collect::<Vec<_>>().join(" ")
    };
    let parts = [
        ("{{POLICY}}", policy),
        ("{{STYLE}}", [STYLE, PAGE_STYLE].concat()),
        ("{{NAVIGATION}}", list(false)),
        ("{{TYPES}}", types),
        ("{{DOCUMENTS}}", format!("<ul>{}</ul>", list(true))),
        ("{{WORKER}}", WORKER.to_owned()),
        ("{{CODE}}", code),
        ("{{SCRIPT}}", script),
    ];
    parts.iter().fold(PAGE.to_owned(), |page, (place, text)| page.replacen(place, text, 1))
}

/// A document's page around its content. `up` leads to the folder of the front page.
fn wrap(title: &str, up: &str, content: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; script-src {}\">\n<meta name=\"color-scheme\" \
         content=\"light dark\">\n<title>{}</title>\n<style>{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<header \
         class=\"top\"><nav aria-label=\"Site\"><a href=\"{up}index.html\">Playground and documents</a></nav><button \
         id=\"theme\" type=\"button\">Theme</button></header>\n<main \
         class=\"doc\">\n{content}</main>\n<script>{THEME}</script>\n</body>\n</html>\n",
        hash(THEME),
        documents::escape(title)
    )
}

/// What a policy calls a script.
fn hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", path.display()));
    fs::create_dir_all(path.parent().map_or(PathBuf::new(), Path::to_owned)).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_page_has_all_its_parts() {
        let page = front_page(b"\0asm", &[]);
        assert!(!page.contains("{{"), "a part is missing");
        for part in [WORKER, PAGE_SCRIPT, THEME] {
            assert!(!part.contains("</") && !part.contains("<!--"), "a script that would end its element");
            assert!(!part.contains("innerHTML"));
        }
    }
}
