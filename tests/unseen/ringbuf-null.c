// Ring buffer record used without a null check (tracepoint).
// Reports processes that are switched out in state D.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct event {
	__u32 pid;
	__u32 next;
	__u64 when;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} rb SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, __u64);
} since SEC(".maps");

struct switch_args {
	__u64 common;
	char prev_comm[16];
	__s32 prev_pid;
	__s32 prev_prio;
	__s64 prev_state;
	char next_comm[16];
	__s32 next_pid;
	__s32 next_prio;
};

SEC("tracepoint/sched/sched_switch")
int on_switch(struct switch_args *ctx)
{
	__u64 now = bpf_ktime_get_ns(), *was;
	__u32 pid = ctx->prev_pid, next = ctx->next_pid;
	struct event *e;

	was = bpf_map_lookup_elem(&since, &next);
	if (was) {
		if (now - *was < 10000000)
			return 0;
		e = bpf_ringbuf_reserve(&rb, sizeof(*e), 0);
		if (!was)
			return 0;
		e->pid = next;
		e->next = pid;
		e->when = now - *was;
		__builtin_memcpy(e->comm, ctx->next_comm, 16);
		bpf_ringbuf_submit(e, 0);
		bpf_map_delete_elem(&since, &next);
	}
	if (ctx->prev_state & 2)
		bpf_map_update_elem(&since, &pid, &now, BPF_ANY);
	return 0;
}

char _license[] SEC("license") = "GPL";
