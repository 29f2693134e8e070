// Packet bounds (xdp).
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define MAX_QNAME 40

struct dnshdr {
	__u16 id, flags, qd, an, ns, ar;
};

struct qkey {
	char name[MAX_QNAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct qkey);
	__type(value, __u64);
} queries SEC(".maps");

SEC("xdp")
int dns_watch(struct xdp_md *ctx)
{
	void *data_end = (void *)(long)ctx->data_end;
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct dnshdr *dns = (void *)(udp + 1);
	char *p = (char *)(dns + 1);
	struct qkey key = {};
	__u64 one = 1, *cnt;
	int i;

	if ((void *)(dns + 1) > data_end)
		return XDP_PASS;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5)
		return XDP_PASS;
	if (ip->protocol != IPPROTO_UDP || udp->dest != bpf_htons(53))
		return XDP_PASS;

	for (i = 0; i < MAX_QNAME - 1; i++) {
		if (p + i > (char *)data_end)
			break;
		if (p[i] == 0)
			break;
		key.name[i] = p[i];
	}

	cnt = bpf_map_lookup_elem(&queries, &key);
	if (cnt)
		__sync_fetch_and_add(cnt, 1);
	else
		bpf_map_update_elem(&queries, &key, &one, BPF_ANY);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
