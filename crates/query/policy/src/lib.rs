//! Policies that run in the kernel: which processor or socket gets a packet ([`dispatch`]), how much a TCP connection may
//! send ([`congestion`], in CCP's language, which [`ccp`] reads).
#![forbid(unsafe_code)]

pub mod ccp;
pub mod congestion;
pub mod dispatch;
