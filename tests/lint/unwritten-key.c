// The last byte of the key is padding, and nothing writes it.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct flow {
	__u32 address;
	__u16 port;
	__u8 protocol;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct flow);
	__type(value, __u64);
} flows SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	struct flow key;

	key.address = ctx->ingress_ifindex;
	key.port = ctx->rx_queue_index;
	key.protocol = 17;
	__u64 *packets = bpf_map_lookup_elem(&flows, &key);

	if (packets)
		__sync_fetch_and_add(packets, 1);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
