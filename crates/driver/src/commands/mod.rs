//! What each command does, and what several of them share: the packets that programs run on ([`packets`]), their heaps
//! ([`heap`]), the comparison of two objects ([`compare`]), evidence in a folder ([`evidence`]).

pub mod cancellation;
pub mod check;
pub mod cost;
pub mod dump;
pub mod operations;

system! {
    pub mod bench;
    pub mod calibrate;
    pub mod check_objects;
    pub mod compare;
    pub mod compile;
    pub mod congestion;
    pub mod dispatch;
    pub mod doctor;
    pub mod evidence;
    pub mod examples;
    pub mod explain;
    pub mod heap;
    pub mod learn;
    pub mod machine;
    pub mod native;
    pub mod objects;
    pub mod optimize;
    pub mod packets;
    pub mod profile;
    pub mod profiles;
    pub mod query;
    pub mod recheck;
    pub mod replay;
    pub mod run;
    pub mod sandbox;
    pub mod serve;
}
