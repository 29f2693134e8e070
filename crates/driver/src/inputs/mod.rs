//! What programs run on: packets of captures, entries of maps, values of global variables.

pub mod capture;
pub mod feed;
pub mod typed;
