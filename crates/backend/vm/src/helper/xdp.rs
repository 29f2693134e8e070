//! XDP frames.

use super::answer::{Answer, done, refuse, value};
use crate::state::State;

pub fn adjust_head(state: &mut State, [_, offset, ..]: [u64; 5]) -> Answer {
    done(state.packet.adjust_head(&mut state.memory, offset as i32))
}

pub fn adjust_tail(state: &mut State, [_, offset, ..]: [u64; 5]) -> Answer {
    done(state.packet.adjust_tail(&mut state.memory, offset as i32))
}

pub fn adjust_meta(state: &mut State, [_, offset, ..]: [u64; 5]) -> Answer {
    done(state.packet.adjust_meta(&mut state.memory, offset as i32))
}

pub fn get_buff_len(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.packet.len() as u64)
}

pub fn load_bytes(state: &mut State, [_, offset, to, bytes, _]: [u64; 5]) -> Answer {
    match state.packet.xdp_range(offset as u32, bytes as u32) {
        Ok(from) => copy(state, from, to, bytes as u32),
        Err(errno) => refuse(errno),
    }
}

pub fn store_bytes(state: &mut State, [_, offset, from, bytes, _]: [u64; 5]) -> Answer {
    match state.packet.xdp_range(offset as u32, bytes as u32) {
        Ok(to) => copy(state, from, to, bytes as u32),
        Err(errno) => refuse(errno),
    }
}

fn copy(state: &mut State, from: u64, to: u64, bytes: u32) -> Answer {
    state.copy(from, to, bytes.into())?;
    value(0)
}
