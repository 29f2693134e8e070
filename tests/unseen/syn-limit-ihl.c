// Bounds: packet (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define ETH_P_IP 0x0800

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u64);
} syn_seen SEC(".maps");

const volatile __u64 syn_limit = 200;

SEC("tc")
int syn_limiter(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip;
	struct tcphdr *tcp;
	__u64 *n, one = 1;
	__u32 src;

	if (data + sizeof(*eth) + sizeof(*ip) + sizeof(*tcp) > data_end)
		return TC_ACT_OK;
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;

	ip = data + sizeof(*eth);
	if (ip->protocol != IPPROTO_TCP || ip->ihl < 5)
		return TC_ACT_OK;
	tcp = (void *)ip + ip->ihl * 4;

	if (!tcp->syn || tcp->ack)
		return TC_ACT_OK;

	src = ip->saddr;
	n = bpf_map_lookup_elem(&syn_seen, &src);
	if (!n) {
		bpf_map_update_elem(&syn_seen, &src, &one, BPF_ANY);
		return TC_ACT_OK;
	}
	__sync_fetch_and_add(n, 1);
	return *n > syn_limit ? TC_ACT_SHOT : TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
