// Every call's process, number and latency (the paper's Q2), as one writes it by hand: starts in a hash map, records of
// 16 bytes in a ring buffer whose reader is woken when 256 KiB wait.
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct start { __u64 time_ns; __u64 number; };
struct record { __u32 pid; __u32 number; __u64 latency_ns; };

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 10240);
    __type(key, __u32);
    __type(value, struct start);
} starts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 16 << 20);
} records SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} lost SEC(".maps");

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *registers, long number)
{
    __u64 id = bpf_get_current_pid_tgid();
    if (id >> 32 != WANTED_PID)
        return 0;
    __u32 thread = id;
    struct start start = { bpf_ktime_get_ns(), number };
    bpf_map_update_elem(&starts, &thread, &start, BPF_ANY);
    return 0;
}

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
    if (bpf_ringbuf_output(&records, &record, sizeof(record), flags)) {
        __u32 zero = 0;
        __u64 *count = bpf_map_lookup_elem(&lost, &zero);
        if (count)
            __sync_fetch_and_add(count, 1);
    }
    return 0;
}

char LICENSE[] SEC("license") = "GPL";
