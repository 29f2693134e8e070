// Signed index.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct histo {
	__u64 slot[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct histo);
	__uint(max_entries, 1);
} sizes SEC(".maps");

SEC("xdp")
int size_histogram(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct histo *h;
	__u32 key = 0;
	int idx;

	if (data + 4 > data_end)
		return XDP_PASS;
	h = bpf_map_lookup_elem(&sizes, &key);
	if (!h)
		return XDP_PASS;
	idx = *(int *)data;
	if (idx > 15)
		return XDP_PASS;
	h->slot[idx]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
