// Wrong map type for a helper (XDP).
// Steers flows to CPUs chosen by user space.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u32);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, 8);
	__uint(value_size, 4);
} pins SEC(".maps");

struct lpm {
	__u32 bits;
	__be32 addr;
};

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct lpm key = { .bits = 32 };
	__u32 cpu;

	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	key.addr = ip->saddr;

	__u32 *pin = bpf_map_lookup_elem(&pins, &key);
	if (pin)
		cpu = *pin;
	else
		cpu = bpf_ntohl(ip->saddr ^ ip->daddr) % 16;
	return bpf_redirect_map(&cpus, cpu, 0);
}

char _license[] SEC("license") = "GPL";
