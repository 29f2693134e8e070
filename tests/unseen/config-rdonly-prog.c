// Map flags: write to read-only map (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define MODE_OFF 0
#define MODE_LEARN 1
#define MODE_ENFORCE 2

struct settings {
	__u32 mode;
	__u32 max_pps;
	__u64 hits;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_RDONLY_PROG);
	__type(key, __u32);
	__type(value, struct settings);
} settings_map SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

SEC("xdp")
int gate(struct xdp_md *ctx)
{
	__u32 zero = 0, rxq = ctx->rx_queue_index;
	struct settings *s;
	__u64 one = 1, *n;

	s = bpf_map_lookup_elem(&settings_map, &zero);
	if (!s || s->mode == MODE_OFF)
		return XDP_PASS;
	__sync_fetch_and_add(&s->hits, 1);

	n = bpf_map_lookup_elem(&seen, &rxq);
	if (!n) {
		bpf_map_update_elem(&seen, &rxq, &one, BPF_ANY);
		return XDP_PASS;
	}
	*n += 1;
	if (s->mode == MODE_ENFORCE && *n > s->max_pps)
		return XDP_DROP;
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
