//! `docs/reference/isa.md` is what the tables print. `BLESS=1` rewrites it.

use std::path::Path;

#[test]
fn the_manual_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/isa.md");
    let printed = kiln_isa::manual::markdown();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == printed, "docs/reference/isa.md is out of date: run `cargo xtask manual`");
}

#[test]
fn every_form_has_one_row() {
    let rows = kiln_isa::manual::markdown().lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, kiln_isa::forms::forms().len());
}
