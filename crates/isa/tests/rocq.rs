//! `proofs/Generated.v` and `proofs/Required.v` say what the operation table says (`BLESS=1` writes them).

use kiln_isa::operation::{Registry, rocq};

#[test]
fn generated_files_are_fresh() {
    for (name, text) in
        [("Generated.v", rocq::definitions(&Registry::BUILTIN)), ("Required.v", rocq::required(&Registry::BUILTIN))]
    {
        let path = format!("{}/../../proofs/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &text).expect("the file can be written");
        }
        let file = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(file == text, "{path} is not what the table says; BLESS=1 writes it");
    }
}
