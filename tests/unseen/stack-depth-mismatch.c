// Helper length (perf_event).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#define DEPTH 64
#define MAX_STACK 127

struct prof_rec {
	__u32 pid;
	__s32 ksz;
	__u64 ip;
	__u64 kstack[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct prof_rec);
} recs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} rb SEC(".maps");

SEC("perf_event")
int sample_cpu(struct bpf_perf_event_data *ctx)
{
	struct prof_rec *r;
	__u32 zero = 0;
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	if (!pid)
		return 0;
	r = bpf_map_lookup_elem(&recs, &zero);
	if (!r)
		return 0;

	r->pid = pid;
	r->ip = ctx->regs.ip;
	r->ksz = bpf_get_stack(ctx, r->kstack, MAX_STACK * sizeof(__u64), 0);
	if (r->ksz <= 0)
		return 0;

	bpf_ringbuf_output(&rb, r, sizeof(*r), 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
