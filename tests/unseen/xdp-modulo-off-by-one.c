// Modulo by one too many.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define NBACKENDS 16

struct backends {
	__u32 addr[NBACKENDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct backends);
	__uint(max_entries, 1);
} lb SEC(".maps");

SEC("xdp")
int pick_backend(struct xdp_md *ctx)
{
	struct backends *b;
	__u32 key = 0, hash;

	b = bpf_map_lookup_elem(&lb, &key);
	if (!b)
		return XDP_ABORTED;
	hash = bpf_get_prandom_u32();
	if (!b->addr[hash % (NBACKENDS + 1)])
		return XDP_DROP;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
