// Uninitialized argument (tracepoint/syscalls/sys_enter_kill).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
/* our headers are older than this helper, so declare it here */
static long (*get_stack)(void *ctx, void *buf, __u32 size) = (void *)67;

#define FRAMES 16

struct rec {
	__u64 ts;
	long n;
	__u64 ips[FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} rb SEC(".maps");

SEC("tracepoint/syscalls/sys_enter_kill")
int on_kill(struct trace_event_raw_sys_enter *ctx)
{
	struct rec *r;
	int sig = ctx->args[1];

	if (sig != 9 && sig != 15)
		return 0;

	r = bpf_ringbuf_reserve(&rb, sizeof(*r), 0);
	if (!r)
		return 0;
	r->ts = bpf_ktime_get_ns();
	r->n = get_stack(ctx, r->ips, sizeof(r->ips));
	if (r->n < 0) {
		bpf_ringbuf_discard(r, 0);
		return 0;
	}
	bpf_ringbuf_submit(r, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
