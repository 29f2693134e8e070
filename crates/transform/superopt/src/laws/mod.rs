//! Laws: what no window of a few instructions can see, because its reason lies in the graph, in liveness or in what the
//! verifier knows of all runs.
//!
//! Each file has functions that change one function of an object and say what they changed ([`control_flow::Change`]);
//! the table of [`crate::passes`] names them. A law's own conditions only have to be good enough to propose: that the
//! function still does what it did is proved afterwards, by [`kiln_equiv::simulation`].
//!
//! - branches and layout: [`control_flow`], [`alike`], [`thread`], [`truths`], [`turned`], [`hoist`], [`bounds`]
//! - values and registers: [`available`], [`webs`], [`reuse`], [`late`], [`narrow`], [`null_answers`], [`packet_loads`]
//! - what nobody reads: [`dead`], with [`frame`] and [`filled`]
//! - calls: [`inline`], [`found`], [`atomics`]
//!
//! [`trial`] tries changes that only pay together with what they make possible.

pub mod alike;
pub mod atomics;
pub mod available;
pub mod bounds;
pub mod control_flow;
pub mod dead;
pub mod filled;
pub mod found;
pub mod frame;
pub mod hoist;
pub mod inline;
pub mod late;
pub mod narrow;
pub mod null_answers;
pub mod packet_loads;
pub mod reuse;
pub mod thread;
pub mod trial;
pub mod truths;
pub mod turned;
pub mod webs;
