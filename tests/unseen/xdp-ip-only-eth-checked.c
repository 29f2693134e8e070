// Packet bounds, second header.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 256);
} proto_count SEC(".maps");

SEC("xdp")
int count_protocols(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct iphdr *ip;
	__u64 *count;
	__u32 key;

	if (data + sizeof(*eth) > data_end)
		return XDP_DROP;
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	ip = data + sizeof(*eth);
	key = ip->protocol;
	count = bpf_map_lookup_elem(&proto_count, &key);
	if (count)
		*count += 1;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
