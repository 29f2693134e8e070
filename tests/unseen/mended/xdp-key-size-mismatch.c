#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>

struct lpm_key {
	__u32 prefixlen;
	__u32 addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__type(key, struct lpm_key);
	__type(value, __u32);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
} denylist SEC(".maps");

SEC("xdp")
int deny(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct lpm_key key;

	if ((void *)(ip + 1) > data_end)
		return XDP_PASS;
	key.prefixlen = 32;
	key.addr = ip->saddr;
	return bpf_map_lookup_elem(&denylist, &key) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
