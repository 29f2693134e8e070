//! What each command does, under its name. What several of them share is in the modules beside this one, what needs
//! no system in `kiln-inspect`, and queries, services and policies in `kiln-live`, `kiln-serve` and `kiln-policy`.

pub mod bench;
pub mod build;
pub mod cc;
pub mod check;
pub mod doctor;
pub mod dump;
pub mod kv;
pub mod learn;
pub mod optimize;
pub mod repair;
pub mod run;
pub mod sandbox;
pub mod tables;
pub mod verify_evidence;
