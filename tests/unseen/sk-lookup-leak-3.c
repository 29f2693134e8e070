// Reference (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define TCP_LISTEN_ 10

__u64 blocked, passed;

SEC("tc")
int only_known(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *data_end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + 14;
	struct tcphdr *tcp = (void *)(ip + 1);
	struct bpf_sock_tuple tup = {};
	struct bpf_sock *sk;

	if ((void *)(tcp + 1) > data_end || skb->protocol != bpf_htons(0x0800))
		return TC_ACT_OK;
	if (ip->ihl != 5 || ip->protocol != IPPROTO_TCP)
		return TC_ACT_OK;

	tup.ipv4.saddr = ip->saddr;
	tup.ipv4.daddr = ip->daddr;
	tup.ipv4.sport = tcp->source;
	tup.ipv4.dport = tcp->dest;

	sk = bpf_sk_lookup_tcp(skb, &tup, sizeof(tup.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk) {
		blocked++;
		return TC_ACT_SHOT;
	}
	if (sk->state == TCP_LISTEN_)
		return tcp->syn ? TC_ACT_OK : TC_ACT_SHOT;
	passed++;
	bpf_sk_release(sk);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
