//! Helpers: the VM's implementations of the kernel's helpers.
//!
//! Each is a plain function over [`crate::state::State`]; the table below gives its number. The interpreter calls it directly,
//! compiled code through an entry point ([`crate::trampoline`]), so both do the same:
//!
//! ```text
//!   call 1 ── interpreter ──> maps::look_up(&mut State, [r1, r2, ...]) -> R0
//!         └── JIT ──> entry(r1, r2, ..., &mut State) ──^
//! ```
//!
//! To add a helper, write the function in the file of its theme and add its row. The prototype is in `kiln_platform`.

mod answer;
pub(crate) mod bits;
pub(crate) mod checksum;
pub(crate) mod dynptr;
pub(crate) mod kernel;
pub mod kfunc;
pub(crate) mod maps;
pub(crate) mod print;
pub(crate) mod redirect;
pub(crate) mod ring;
pub(crate) mod route;
pub(crate) mod socket;
pub(crate) mod socket_buffer;
pub(crate) mod text;
pub(crate) mod tracing;
pub(crate) mod xdp;

use crate::state::HelperFunction;

/// How completely the VM implements a helper.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It does what the kernel does, and returns.
    Works,
    /// It does what the kernel does, but may end other than by returning: tail calls and helpers with callbacks.
    Leaves,
    /// It refuses or finds nothing, because the VM lacks what it would access, unless its surroundings have some.
    Refuses,
}

/// The helpers: number, name in `kiln_platform`, function, and completeness.
macro_rules! helpers {
    ($apply:ident) => {
        $apply! {
            1, "map_lookup_elem", maps::look_up, Works;
            2, "map_update_elem", maps::update, Works;
            3, "map_delete_elem", maps::delete, Works;
            4, "probe_read", tracing::probe_read, Works;
            5, "ktime_get_ns", kernel::ktime_get_ns, Works;
            6, "trace_printk", print::trace_printk, Works;
            7, "get_prandom_u32", kernel::get_prandom_u32, Works;
            8, "get_smp_processor_id", kernel::get_smp_processor_id, Works;
            9, "skb_store_bytes", socket_buffer::store_bytes, Works;
            10, "l3_csum_replace", checksum::l3_replace, Works;
            11, "l4_csum_replace", checksum::l4_replace, Works;
            12, "tail_call", maps::tail_call, Leaves;
            13, "clone_redirect", redirect::clone_redirect, Works;
            14, "get_current_pid_tgid", kernel::get_current_pid_tgid, Works;
            15, "get_current_uid_gid", kernel::get_current_uid_gid, Works;
            16, "get_current_comm", kernel::get_current_comm, Works;
            17, "get_cgroup_classid", kernel::zero, Works;
            18, "skb_vlan_push", socket_buffer::vlan_push, Works;
            19, "skb_vlan_pop", socket_buffer::vlan_pop, Works;
            22, "perf_event_read", tracing::perf_event_read, Refuses;
            23, "redirect", redirect::redirect, Works;
            24, "get_route_realm", kernel::zero, Refuses;
            25, "perf_event_output", tracing::perf_event_output, Refuses;
            26, "skb_load_bytes", socket_buffer::load_bytes, Works;
            27, "get_stackid", tracing::get_stackid, Refuses;
            28, "csum_diff", checksum::difference, Works;
            31, "skb_change_proto", socket_buffer::change_protocol, Works;
            32, "skb_change_type", socket_buffer::change_type, Works;
            34, "get_hash_recalc", socket_buffer::get_hash_recalc, Works;
            35, "get_current_task", kernel::get_current_task, Works;
            36, "probe_write_user", tracing::probe_write_user, Works;
            38, "skb_change_tail", socket_buffer::change_tail, Works;
            39, "skb_pull_data", socket_buffer::pull_data, Works;
            40, "csum_update", checksum::update, Works;
            41, "set_hash_invalid", socket_buffer::set_hash_invalid, Works;
            42, "get_numa_node_id", kernel::zero, Works;
            43, "skb_change_head", socket_buffer::change_head, Works;
            44, "xdp_adjust_head", xdp::adjust_head, Works;
            45, "probe_read_str", tracing::probe_read_str, Works;
            46, "get_socket_cookie", socket_buffer::get_socket_cookie, Works;
            47, "get_socket_uid", socket_buffer::get_socket_uid, Works;
            48, "set_hash", socket_buffer::set_hash, Works;
            50, "skb_adjust_room", socket_buffer::adjust_room, Works;
            51, "redirect_map", redirect::redirect_map, Works;
            54, "xdp_adjust_meta", xdp::adjust_meta, Works;
            55, "perf_event_read_value", tracing::perf_event_read_value, Refuses;
            56, "perf_prog_read_value", tracing::perf_prog_read_value, Refuses;
            65, "xdp_adjust_tail", xdp::adjust_tail, Works;
            67, "get_stack", tracing::get_stack, Refuses;
            68, "skb_load_bytes_relative", socket_buffer::load_bytes_relative, Works;
            69, "fib_lookup", route::fib_lookup, Works;
            80, "get_current_cgroup_id", kernel::get_current_cgroup_id, Works;
            81, "get_local_storage", maps::get_local_storage, Works;
            84, "sk_lookup_tcp", socket::look_up_tcp, Refuses;
            85, "sk_lookup_udp", socket::look_up_udp, Refuses;
            86, "sk_release", socket::release, Refuses;
            87, "map_push_elem", maps::push, Works;
            88, "map_pop_elem", maps::pop, Works;
            89, "map_peek_elem", maps::peek, Works;
            93, "spin_lock", maps::spin_lock, Works;
            94, "spin_unlock", maps::spin_unlock, Works;
            95, "sk_fullsock", socket_buffer::sk_fullsock, Works;
            96, "tcp_sock", kernel::zero, Refuses;
            97, "skb_ecn_set_ce", socket_buffer::ecn_set_ce, Works;
            98, "get_listener_sock", kernel::zero, Refuses;
            99, "skc_lookup_tcp", socket::look_up_tcp, Refuses;
            105, "strtol", text::strtol, Works;
            106, "strtoul", text::strtoul, Works;
            112, "probe_read_user", tracing::probe_read, Works;
            113, "probe_read_kernel", tracing::probe_read, Works;
            114, "probe_read_user_str", tracing::probe_read_str, Works;
            115, "probe_read_kernel_str", tracing::probe_read_str, Works;
            118, "jiffies64", kernel::jiffies64, Works;
            125, "ktime_get_boot_ns", kernel::ktime_get_boot_ns, Works;
            130, "ringbuf_output", ring::output, Works;
            131, "ringbuf_reserve", ring::reserve, Works;
            132, "ringbuf_submit", ring::submit, Works;
            133, "ringbuf_discard", ring::discard, Works;
            134, "ringbuf_query", ring::query, Works;
            135, "csum_level", checksum::level, Works;
            152, "redirect_neigh", redirect::redirect_neigh, Works;
            155, "redirect_peer", redirect::redirect_peer, Works;
            160, "ktime_get_coarse_ns", kernel::ktime_get_coarse_ns, Works;
            163, "check_mtu", route::check_mtu, Works;
            164, "for_each_map_elem", maps::for_each, Leaves;
            165, "snprintf", print::snprintf, Works;
            174, "get_attach_cookie", kernel::zero, Refuses;
            177, "trace_vprintk", print::trace_vprintk, Works;
            181, "loop", kernel::run_loop, Leaves;
            182, "strncmp", text::strncmp, Works;
            188, "xdp_get_buff_len", xdp::get_buff_len, Works;
            189, "xdp_load_bytes", xdp::load_bytes, Works;
            190, "xdp_store_bytes", xdp::store_bytes, Works;
            195, "map_lookup_percpu_elem", maps::look_up_per_cpu, Works;
            197, "dynptr_from_mem", dynptr::from_mem, Works;
            198, "ringbuf_reserve_dynptr", dynptr::reserve, Works;
            199, "ringbuf_submit_dynptr", dynptr::submit, Works;
            200, "ringbuf_discard_dynptr", dynptr::discard, Works;
            201, "dynptr_read", dynptr::read, Works;
            202, "dynptr_write", dynptr::write, Works;
            203, "dynptr_data", dynptr::data, Works;
            208, "ktime_get_tai_ns", kernel::ktime_get_tai_ns, Works;
        }
    };
}
pub(crate) use helpers;

macro_rules! lookup {
    ($($id:literal, $name:literal, $function:path, $how:ident;)*) => {
        /// The function of a helper; `None` if the VM lacks it.
        #[inline]
        pub const fn by_id(id: u32) -> Option<HelperFunction> {
            match id {
                $($id => Some($function),)*
                _ => None,
            }
        }

        /// How completely the VM implements a helper; `None` if it lacks it.
        pub const fn how(id: u32) -> Option<How> {
            match id {
                $($id => Some(How::$how),)*
                _ => None,
            }
        }

        /// All helpers the VM has: numbers and names.
        pub const ALL: &[(u32, &str)] = &[$(($id, $name)),*];
    };
}

helpers!(lookup);

/// Whether a helper may end other than by returning.
pub const fn leaves(id: u32) -> bool {
    !matches!(how(id), Some(How::Works | How::Refuses))
}

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
