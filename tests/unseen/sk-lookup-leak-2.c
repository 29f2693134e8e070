// References: socket not released (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u16);
	__type(value, __u32);
} open_ports SEC(".maps");

SEC("tc")
int local_only(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + 14;
	struct tcphdr *th = (void *)(ip + 1);
	struct bpf_sock_tuple t = {};
	struct bpf_sock *sk;
	__u16 port;

	if ((void *)(th + 1) > data_end || skb->protocol != bpf_htons(0x0800))
		return 0;
	if (ip->protocol != IPPROTO_TCP || ip->ihl != 5)
		return 0;

	t.ipv4.saddr = ip->saddr;
	t.ipv4.daddr = ip->daddr;
	t.ipv4.sport = th->source;
	t.ipv4.dport = th->dest;
	port = bpf_ntohs(th->dest);

	sk = bpf_sk_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 2;
	if (sk->state == BPF_TCP_LISTEN && !bpf_map_lookup_elem(&open_ports, &port)) {
		return 2;
	}
	skb->mark = sk->mark;
	bpf_sk_release(sk);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
