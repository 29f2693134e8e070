// Tail call while a reference is held (TC).
// Dispatches by the state of the socket a packet belongs to.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 16);
	__uint(key_size, 4);
	__uint(value_size, 4);
} stages SEC(".maps");

SEC("tc")
int entry(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct bpf_sock_tuple t = {};
	struct bpf_sock *sk;
	__u32 stage;

	if ((void *)(udp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	if (ip->protocol != 17)
		return TC_ACT_OK;
	t.ipv4.saddr = ip->saddr;
	t.ipv4.daddr = ip->daddr;
	t.ipv4.sport = udp->source;
	t.ipv4.dport = udp->dest;
	sk = bpf_sk_lookup_udp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return TC_ACT_OK;
	skb->cb[0] = sk->mark;
	stage = sk->priority & 15;
	bpf_tail_call(skb, &stages, stage);
	bpf_sk_release(sk);
	skb->cb[1] = stage;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
