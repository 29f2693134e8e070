// Callback return (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
struct scan {
	struct xdp_md *ctx;
	__u32 off;
	__u32 found;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} verdicts SEC(".maps");

static long scan_byte(__u32 i, void *arg)
{
	struct scan *s = arg;
	__u8 b;

	if (bpf_xdp_load_bytes(s->ctx, s->off + i, &b, 1))
		return -1;
	if (b == 0x90) {
		s->found++;
		if (s->found > 8)
			return 1;
	}
	return 0;
}

SEC("xdp")
int nop_sled(struct xdp_md *ctx)
{
	struct scan s = { .ctx = ctx, .off = 54 };
	__u32 idx = XDP_PASS;
	__u64 *v;

	if (ctx->data_end - ctx->data < 60)
		return XDP_PASS;

	bpf_loop(256, scan_byte, &s, 0);
	if (s.found > 8)
		idx = XDP_DROP;

	v = bpf_map_lookup_elem(&verdicts, &idx);
	if (v)
		(*v)++;
	return idx;
}

char LICENSE[] SEC("license") = "GPL";
