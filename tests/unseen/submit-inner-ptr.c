// References: release with offset (raw_tp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct ev_hdr {
	__u32 type;
	__u32 cpu;
	__u64 ts;
};

struct sys_ev {
	struct ev_hdr hdr;
	__u64 nr;
	__u64 ret;
	__u32 tgid;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} rb SEC(".maps");

static __always_inline void fill_hdr(struct ev_hdr *h, __u32 type)
{
	h->type = type;
	h->cpu = bpf_get_smp_processor_id();
	h->ts = bpf_ktime_get_ns();
}

SEC("raw_tp/sys_exit")
int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
	long ret = ctx->args[1];
	struct sys_ev *e;

	if (ret >= 0 || ret < -4095)
		return 0;
	e = bpf_ringbuf_reserve(&rb, sizeof(*e), 0);
	if (!e)
		return 0;
	fill_hdr(&e->hdr, 7);
	e->ret = ret;
	e->nr = 0;
	e->tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_ringbuf_submit(&e->nr, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
