// Bounds: map value (size constant) (perf_event).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define MAX_DEPTH 64
#define KERN_STACK_BYTES 1024

struct stack_ev {
	__u32 pid;
	__u32 cpu;
	char comm[16];
	__s64 klen;
	__u64 kstack[MAX_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} rb SEC(".maps");

const volatile __u32 target_tgid;

SEC("perf_event")
int profile(struct bpf_perf_event_data *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct stack_ev *e;

	if (!(__u32)id)
		return 0;
	if (target_tgid && target_tgid != id >> 32)
		return 0;

	e = bpf_ringbuf_reserve(&rb, sizeof(*e), 0);
	if (!e)
		return 0;
	e->pid = id >> 32;
	e->cpu = bpf_get_smp_processor_id();
	if (bpf_get_current_comm(e->comm, sizeof(e->comm)))
		e->comm[0] = 0;
	e->klen = bpf_get_stack(ctx, e->kstack, KERN_STACK_BYTES, 0);
	if (e->klen < 0)
		bpf_ringbuf_discard(e, 0);
	else
		bpf_ringbuf_submit(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
