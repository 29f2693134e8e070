//! What each command does, under its name. What several of them share is in the modules beside this one, and what needs
//! no system in `kiln-inspect`.

pub mod bench;
pub mod build;
pub mod cc;
pub mod check;
pub mod congestion;
pub mod dispatch;
pub mod doctor;
pub mod dump;
pub mod learn;
pub mod optimize;
pub mod query;
pub mod run;
pub mod sandbox;
pub mod serve;
pub mod verify_evidence;
