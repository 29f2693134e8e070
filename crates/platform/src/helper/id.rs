//! Numbers of the helpers that code outside the table refers to by name.

macro_rules! ids {
    ($($constant:ident = $number:literal $name:literal,)*) => {
        $(
            #[doc = concat!("`bpf_", $name, "`.")]
            pub const $constant: u32 = $number;
        )*

        /// Every one of them, with its name.
        #[cfg(test)]
        const NAMED: &[(u32, &str)] = &[$(($number, $name)),*];
    };
}

ids! {
    MAP_LOOKUP_ELEM = 1 "map_lookup_elem",
    MAP_UPDATE_ELEM = 2 "map_update_elem",
    MAP_DELETE_ELEM = 3 "map_delete_elem",
    PROBE_READ = 4 "probe_read",
    GET_SMP_PROCESSOR_ID = 8 "get_smp_processor_id",
    TAIL_CALL = 12 "tail_call",
    GET_CURRENT_PID_TGID = 14 "get_current_pid_tgid",
    PROBE_WRITE_USER = 36 "probe_write_user",
    PROBE_READ_STR = 45 "probe_read_str",
    REDIRECT_MAP = 51 "redirect_map",
    OVERRIDE_RETURN = 58 "override_return",
    GET_STACK = 67 "get_stack",
    GET_LOCAL_STORAGE = 81 "get_local_storage",
    SPIN_LOCK = 93 "spin_lock",
    SPIN_UNLOCK = 94 "spin_unlock",
    PROBE_READ_USER = 112 "probe_read_user",
    PROBE_READ_KERNEL = 113 "probe_read_kernel",
    PROBE_READ_USER_STR = 114 "probe_read_user_str",
    PROBE_READ_KERNEL_STR = 115 "probe_read_kernel_str",
    GET_TASK_STACK = 141 "get_task_stack",
    PER_CPU_PTR = 153 "per_cpu_ptr",
    THIS_CPU_PTR = 154 "this_cpu_ptr",
    FOR_EACH_MAP_ELEM = 164 "for_each_map_elem",
    SNPRINTF = 165 "snprintf",
    TIMER_SET_CALLBACK = 170 "timer_set_callback",
    FIND_VMA = 180 "find_vma",
    LOOP = 181 "loop",
    GET_RETVAL = 186 "get_retval",
    SET_RETVAL = 187 "set_retval",
    KPTR_XCHG = 194 "kptr_xchg",
    DYNPTR_FROM_MEM = 197 "dynptr_from_mem",
    DYNPTR_WRITE = 202 "dynptr_write",
    USER_RINGBUF_DRAIN = 209 "user_ringbuf_drain",
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_those_of_the_table() {
        for (number, name) in super::NAMED {
            assert_eq!(crate::Helper::by_id(*number).map(|helper| helper.name), Some(*name), "{number}");
        }
    }
}
