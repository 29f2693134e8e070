//! `cargo xtask site`: the playground, and with `--book` the documents as a book, in `target/site`.
//!
//! ```text
//!   crates/playground --cargo, wasm32-wasip1--> program --gzip, base64--+
//!   crates/playground/page: worker, script, style ----------------------+--> playground.html, which needs nothing else
//!   README.md, CHANGELOG.md, docs/**/*.md ------mdBook------------------> index.html and a page each, with search
//! ```
//!
//! The pages need no server and no network: they work from a folder.

mod book;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::command::{Failure, cargo, flags, run as run_command, target_dir};

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
/// Bytes that the playground may have.
const MOST_BYTES: usize = 8 << 20;

/// `cargo xtask site`.
///
/// # Errors
/// When the playground does not build, or mdBook fails.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [with_book] = flags(arguments, ["--book"])?;
    let code = build()?;
    let folder = target_dir().join("site");
    // mdBook empties the folder first.
    if with_book {
        println!("{}: {} pages", folder.join("index.html").display(), book::build(&folder)?);
    }
    let page = playground(&code);
    if page.len() > MOST_BYTES {
        return Err(Failure::failed(format!("the playground has {} bytes, more than {MOST_BYTES}", page.len())));
    }
    let path = folder.join("playground.html");
    write(&path, page.as_bytes())?;
    println!("{}: {} KiB ({} KiB of WebAssembly)", path.display(), page.len() / 1024, code.len() / 1024);
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

fn playground(code: &[u8]) -> String {
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
    let parts = [
        ("{{POLICY}}", policy),
        ("{{STYLE}}", [STYLE, PAGE_STYLE].concat()),
        ("{{TYPES}}", types),
        ("{{WORKER}}", WORKER.to_owned()),
        ("{{CODE}}", code),
        ("{{SCRIPT}}", script),
    ];
    parts.iter().fold(PAGE.to_owned(), |page, (place, text)| page.replacen(place, text, 1))
}

/// What a policy calls a script.
fn hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)))
}

fn write(path: &Path, text: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("{}: {error}", path.display()));
    fs::create_dir_all(path.parent().map_or(PathBuf::new(), Path::to_owned)).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_playground_has_all_its_parts() {
        let page = playground(b"\0asm");
        assert!(!page.contains("{{"), "a part is missing");
        for part in [WORKER, PAGE_SCRIPT, THEME] {
            assert!(!part.contains("</") && !part.contains("<!--"), "a script that would end its element");
            assert!(!part.contains("innerHTML"));
        }
    }
}
