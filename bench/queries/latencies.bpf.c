// Every call's process, number and latency (the paper's Q2), as one writes it by hand: starts in a hash map, records of
// 16 bytes in a ring buffer whose reader is woken when 256 KiB wait.
#include "calls.h"

struct record { __u32 pid; __u32 number; __u64 latency_ns; };

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 16 << 20);
} records SEC(".maps");

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
    struct record record = { id >> 32, start->number, bpf_ktime_get_ns() - start->time_ns };
    bpf_map_delete_elem(&starts, &thread);
    __u64 flags = bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA) >= 256 << 10 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
    if (bpf_ringbuf_output(&records, &record, sizeof(record), flags))
        count_lost();
    return 0;
}
