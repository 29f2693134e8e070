// NULL-able socket released.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int probe_udp(struct __sk_buff *skb)
{
	struct bpf_sock_tuple tup = {};
	struct bpf_sock *sk;

	tup.ipv4.dport = 0x3500;
	sk = bpf_sk_lookup_udp(skb, &tup, sizeof(tup.ipv4), BPF_F_CURRENT_NETNS, 0);
	bpf_sk_release(sk);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
