// What both programs begin with: the process's system calls, their starts in a hash map, and how many could not be kept.
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct start { __u64 time_ns; __u64 number; };

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 10240);
    __type(key, __u32);
    __type(value, struct start);
} starts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} lost SEC(".maps");

static __always_inline void count_lost(void)
{
    __u32 zero = 0;
    __u64 *count = bpf_map_lookup_elem(&lost, &zero);
    if (count)
        __sync_fetch_and_add(count, 1);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(enter, struct pt_regs *registers, long number)
{
    __u64 id = bpf_get_current_pid_tgid();
    if (id >> 32 != WANTED_PID)
        return 0;
    __u32 thread = id;
    struct start start = { bpf_ktime_get_ns(), number };
    if (bpf_map_update_elem(&starts, &thread, &start, BPF_ANY))
        count_lost();
    return 0;
}

char LICENSE[] SEC("license") = "GPL";
