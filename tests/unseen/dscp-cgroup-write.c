// Wrong access: write into packet (cgroup_skb/egress).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u16);
	__type(value, __u32);
} prio_ports SEC(".maps");

SEC("cgroup_skb/egress")
int mark_dscp(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct iphdr *ip = data;
	struct udphdr *udp;
	__u32 *prio;
	__u16 port;

	if ((void *)(ip + 1) > data_end || ip->version != 4)
		return 1;
	if (ip->protocol != IPPROTO_UDP)
		return 1;
	udp = (void *)(ip + 1);
	if ((void *)(udp + 1) > data_end)
		return 1;

	port = bpf_ntohs(udp->dest);
	prio = bpf_map_lookup_elem(&prio_ports, &port);
	if (!prio)
		return 1;

	ip->tos = *prio << 2;
	return 1;
}

char _license[] SEC("license") = "GPL";
