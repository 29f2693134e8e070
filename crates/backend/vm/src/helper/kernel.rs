//! Time, identity, loops.

use super::answer::{Answer, refuse, value};
use crate::clock::Timer;
use crate::errno::Errno;
use crate::state::{Callback, Reply, State};

/// Jiffies a second (`CONFIG_HZ`).
const JIFFIES_PER_SECOND: u64 = 250;

/// Helpers whose answer is always 0 here: nothing to find.
pub fn zero(_: &mut State, _: [u64; 5]) -> Answer {
    value(0)
}

pub fn ktime_get_ns(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.time_ns(Timer::Monotonic))
}

pub fn ktime_get_boot_ns(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.time_ns(Timer::Boot))
}

pub fn ktime_get_coarse_ns(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.time_ns(Timer::MonotonicCoarse))
}

pub fn ktime_get_tai_ns(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.time_ns(Timer::Tai))
}

pub fn jiffies64(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.time_ns(Timer::Monotonic) / (1_000_000_000 / JIFFIES_PER_SECOND))
}

pub fn get_prandom_u32(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.next_random().into())
}

pub fn get_smp_processor_id(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.cpu.into())
}

pub fn get_current_pid_tgid(state: &mut State, _: [u64; 5]) -> Answer {
    let task = &state.surroundings.task;
    value(u64::from(task.process) << 32 | u64::from(task.thread))
}

pub fn get_current_uid_gid(state: &mut State, _: [u64; 5]) -> Answer {
    let task = &state.surroundings.task;
    value(u64::from(task.group) << 32 | u64::from(task.user))
}

/// The name, cut to fit with its NUL, the rest zeros.
pub fn get_current_comm(state: &mut State, [to, size, ..]: [u64; 5]) -> Answer {
    const NAME_BYTES: usize = 15;
    let mut name = state.surroundings.task.name.clone().into_bytes();
    name.truncate((size as usize).saturating_sub(1).min(NAME_BYTES));
    state.clear(to, size)?;
    state.write(to, &name)?;
    value(0)
}

pub fn get_current_task(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.task.address)
}

pub fn get_current_cgroup_id(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.task.cgroup)
}

/// `bpf_loop`: calls back with (round, context) until the callback says 1; returns how many rounds there were.
pub fn run_loop(state: &mut State, [rounds, function, context, flags, _]: [u64; 5]) -> Answer {
    let rounds = u64::from(rounds as u32);
    if flags != 0 {
        return refuse(Errno::EINVAL);
    }
    if rounds > u64::from(kiln_platform::limits::MAX_LOOP_ITERATIONS) {
        // The kernel's verifier inlines the helper, and with it this answer in 32 bits.
        return value(u64::from(Errno::E2BIG.value() as u32));
    }
    let mut walk = match state.callbacks.pop_if(|callback| callback.result.is_some()) {
        Some(callback) => callback,
        None => Callback { rounds: 0, position: 0, result: None },
    };
    if walk.result.take().is_some_and(|result| result != 0) || walk.rounds >= rounds {
        return value(walk.rounds);
    }
    let round = walk.rounds;
    walk.rounds += 1;
    state.callbacks.push(walk);
    Ok(Reply::Call { function, arguments: [round, context, 0, 0, 0] })
}
