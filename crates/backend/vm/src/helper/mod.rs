//! Helpers: what the kernel would do for a program, done here.
//!
//! Each is a plain function over [`State`]; the table below gives it its number. The interpreter calls it as it is,
//! compiled code through an entry point of its own ([`crate::trampoline`]), so both do the same:
//!
//! ```text
//!   call 1 ── interpreter ──> maps::look_up(&mut State, [r1, r2, ...]) -> R0
//!         └── JIT ──> entry(r1, r2, ..., &mut State) ──^
//! ```
//!
//! To add a helper: write the function beside its kin, add its row. The prototype is in `kiln_platform`.

pub(crate) mod checksum;
pub(crate) mod kernel;
pub(crate) mod maps;
pub(crate) mod print;
pub(crate) mod redirect;
pub(crate) mod ring;
pub(crate) mod route;
pub(crate) mod socket_buffer;
pub(crate) mod text;
pub(crate) mod tracing;
pub(crate) mod xdp;

use crate::errno::Errno;
use crate::state::{HelperFunction, Reply};
use kiln_program::interpret::Fault;

type Answer = Result<Reply, Fault>;

fn value(value: u64) -> Answer {
    Ok(Reply::Value(value))
}

fn refuse(errno: Errno) -> Answer {
    Ok(Reply::Value(errno.value()))
}

fn done(result: Result<(), Errno>) -> Answer {
    Ok(Reply::Value(crate::errno::status(result)))
}

/// The helpers: number, name in `kiln_platform`, function, and whether it may stop the run, call back or leave by a
/// tail call even when all is well.
macro_rules! helpers {
    ($apply:ident) => {
        $apply! {
            1, "map_lookup_elem", maps::look_up, false;
            2, "map_update_elem", maps::update, false;
            3, "map_delete_elem", maps::delete, false;
            4, "probe_read", tracing::probe_read, false;
            5, "ktime_get_ns", kernel::ktime_get_ns, false;
            6, "trace_printk", print::trace_printk, false;
            7, "get_prandom_u32", kernel::get_prandom_u32, false;
            8, "get_smp_processor_id", kernel::get_smp_processor_id, false;
            9, "skb_store_bytes", socket_buffer::store_bytes, false;
            10, "l3_csum_replace", checksum::l3_replace, false;
            11, "l4_csum_replace", checksum::l4_replace, false;
            12, "tail_call", maps::tail_call, true;
            13, "clone_redirect", redirect::clone_redirect, false;
            14, "get_current_pid_tgid", kernel::get_current_pid_tgid, false;
            15, "get_current_uid_gid", kernel::get_current_uid_gid, false;
            16, "get_current_comm", kernel::get_current_comm, false;
            17, "get_cgroup_classid", kernel::zero, false;
            18, "skb_vlan_push", socket_buffer::vlan_push, false;
            19, "skb_vlan_pop", socket_buffer::vlan_pop, false;
            22, "perf_event_read", tracing::perf_event_read, false;
            23, "redirect", redirect::redirect, false;
            24, "get_route_realm", kernel::zero, false;
            25, "perf_event_output", tracing::perf_event_output, false;
            26, "skb_load_bytes", socket_buffer::load_bytes, false;
            27, "get_stackid", tracing::get_stackid, false;
            28, "csum_diff", checksum::difference, false;
            31, "skb_change_proto", socket_buffer::change_protocol, false;
            32, "skb_change_type", socket_buffer::change_type, false;
            34, "get_hash_recalc", socket_buffer::get_hash_recalc, false;
            35, "get_current_task", kernel::get_current_task, false;
            36, "probe_write_user", tracing::probe_write_user, false;
            38, "skb_change_tail", socket_buffer::change_tail, false;
            39, "skb_pull_data", socket_buffer::pull_data, false;
            40, "csum_update", checksum::update, false;
            41, "set_hash_invalid", socket_buffer::set_hash_invalid, false;
            42, "get_numa_node_id", kernel::zero, false;
            43, "skb_change_head", socket_buffer::change_head, false;
            44, "xdp_adjust_head", xdp::adjust_head, false;
            45, "probe_read_str", tracing::probe_read_str, false;
            46, "get_socket_cookie", socket_buffer::get_socket_cookie, false;
            47, "get_socket_uid", socket_buffer::get_socket_uid, false;
            48, "set_hash", socket_buffer::set_hash, false;
            50, "skb_adjust_room", socket_buffer::adjust_room, false;
            51, "redirect_map", redirect::redirect_map, false;
            54, "xdp_adjust_meta", xdp::adjust_meta, false;
            55, "perf_event_read_value", tracing::perf_event_read_value, false;
            56, "perf_prog_read_value", tracing::perf_prog_read_value, false;
            65, "xdp_adjust_tail", xdp::adjust_tail, false;
            67, "get_stack", tracing::get_stack, false;
            68, "skb_load_bytes_relative", socket_buffer::load_bytes_relative, false;
            69, "fib_lookup", route::fib_lookup, false;
            80, "get_current_cgroup_id", kernel::get_current_cgroup_id, false;
            81, "get_local_storage", maps::get_local_storage, false;
            84, "sk_lookup_tcp", kernel::zero, false;
            85, "sk_lookup_udp", kernel::zero, false;
            86, "sk_release", kernel::zero, false;
            87, "map_push_elem", maps::push, false;
            88, "map_pop_elem", maps::pop, false;
            89, "map_peek_elem", maps::peek, false;
            93, "spin_lock", maps::spin_lock, false;
            94, "spin_unlock", maps::spin_unlock, false;
            95, "sk_fullsock", socket_buffer::sk_fullsock, false;
            96, "tcp_sock", kernel::zero, false;
            97, "skb_ecn_set_ce", socket_buffer::ecn_set_ce, false;
            98, "get_listener_sock", kernel::zero, false;
            99, "skc_lookup_tcp", kernel::zero, false;
            105, "strtol", text::strtol, false;
            106, "strtoul", text::strtoul, false;
            112, "probe_read_user", tracing::probe_read, false;
            113, "probe_read_kernel", tracing::probe_read, false;
            114, "probe_read_user_str", tracing::probe_read_str, false;
            115, "probe_read_kernel_str", tracing::probe_read_str, false;
            118, "jiffies64", kernel::jiffies64, false;
            125, "ktime_get_boot_ns", kernel::ktime_get_boot_ns, false;
            130, "ringbuf_output", ring::output, false;
            131, "ringbuf_reserve", ring::reserve, false;
            132, "ringbuf_submit", ring::submit, false;
            133, "ringbuf_discard", ring::discard, false;
            134, "ringbuf_query", ring::query, false;
            135, "csum_level", checksum::level, false;
            152, "redirect_neigh", redirect::redirect_neigh, false;
            155, "redirect_peer", redirect::redirect_peer, false;
            160, "ktime_get_coarse_ns", kernel::ktime_get_coarse_ns, false;
            163, "check_mtu", route::check_mtu, false;
            164, "for_each_map_elem", maps::for_each, true;
            165, "snprintf", print::snprintf, false;
            174, "get_attach_cookie", kernel::zero, false;
            177, "trace_vprintk", print::trace_vprintk, false;
            181, "loop", kernel::run_loop, true;
            182, "strncmp", text::strncmp, false;
            188, "xdp_get_buff_len", xdp::get_buff_len, false;
            189, "xdp_load_bytes", xdp::load_bytes, false;
            190, "xdp_store_bytes", xdp::store_bytes, false;
            195, "map_lookup_percpu_elem", maps::look_up_per_cpu, false;
            208, "ktime_get_tai_ns", kernel::ktime_get_tai_ns, false;
        }
    };
}
pub(crate) use helpers;

macro_rules! lookup {
    ($($id:literal, $name:literal, $function:path, $leaves:literal;)*) => {
        /// The function behind a helper's number; `None` where the VM lacks it.
        #[inline]
        pub const fn by_id(id: u32) -> Option<HelperFunction> {
            match id {
                $($id => Some($function),)*
                _ => None,
            }
        }

        /// Whether a helper may leave other than by returning: tail calls and those that call back.
        pub const fn leaves(id: u32) -> bool {
            match id {
                $($id => $leaves,)*
                _ => true,
            }
        }

        /// All helpers the VM has: numbers and names.
        pub const ALL: &[(u32, &str)] = &[$(($id, $name)),*];
    };
}

helpers!(lookup);

/// A helper's name for messages.
pub fn name(id: u32) -> String {
    kiln_platform::Helper::by_id(id).map_or_else(|| format!("helper {id}"), |helper| format!("bpf_{}", helper.name))
}

#[cfg(test)]
mod tests {
    #[test]
    fn rows_agree_with_the_platform() {
        for (id, name) in super::ALL {
            let helper = kiln_platform::Helper::by_id(*id).expect("the platform has it");
            assert_eq!(helper.name, *name);
        }
    }
}
