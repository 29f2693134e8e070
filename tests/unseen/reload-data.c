// Checked one packet pointer, read another (XDP).
// Limits UDP by source port; remembers when a port was seen.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u16);
	__type(value, __u64);
} last SEC(".maps");

static __always_inline int has(struct xdp_md *ctx, __u32 off, __u32 n)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;

	return data + off + n <= end;
}

SEC("xdp")
int limit(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = (void *)(eth + 1);
	__u32 off;
	__u16 port;

	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (ip->protocol != 17)
		return XDP_PASS;
	off = sizeof(*eth) + ip->ihl * 4;
	if (!has(ctx, off, sizeof(struct udphdr)))
		return XDP_PASS;

	__u64 now = bpf_ktime_get_ns();
	struct udphdr *udp = (void *)(long)ctx->data + off;
	port = udp->source;

	__u64 *then = bpf_map_lookup_elem(&last, &port);
	if (then && now - *then < 1000000)
		return XDP_DROP;
	bpf_map_update_elem(&last, &port, &now, BPF_ANY);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
