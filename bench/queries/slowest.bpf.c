// The slowest call of each process and system call (the paper's Q1), as one writes it by hand: starts in a hash map,
// results in a per-CPU hash map, which user space reads and clears each second.
#include "calls.h"

struct key { __u32 pid; __u32 number; };

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 10240);
    __type(key, struct key);
    __type(value, __u64);
} slowest SEC(".maps");

SEC("tp_btf/sys_exit")
int BPF_PROG(leave, struct pt_regs *registers, long result)
{
    __u64 id = bpf_get_current_pid_tgid();
    if (id >> 32 != WANTED_PID)
        return 0;
    __u32 thread = id;
    struct start *start = bpf_map_lookup_elem(&starts, &thread);
    if (!start)
        return 0;
    __u64 latency = bpf_ktime_get_ns() - start->time_ns;
    struct key key = { id >> 32, start->number };
    bpf_map_delete_elem(&starts, &thread);
    __u64 *most = bpf_map_lookup_elem(&slowest, &key);
    if (!most) {
        if (bpf_map_update_elem(&slowest, &key, &latency, BPF_ANY))
            count_lost();
    } else if (*most < latency) {
        *most = latency;
    }
    return 0;
}
