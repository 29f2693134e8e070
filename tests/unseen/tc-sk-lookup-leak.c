// Reference leak of a socket.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

SEC("tc")
int has_listener(struct __sk_buff *skb)
{
	struct bpf_sock_tuple tup = {};
	struct bpf_sock *sk;

	tup.ipv4.daddr = bpf_htonl(0x7f000001);
	tup.ipv4.dport = bpf_htons(8080);
	sk = bpf_sk_lookup_tcp(skb, &tup, sizeof(tup.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return TC_ACT_SHOT;
	if (sk->state != 10)
		return TC_ACT_SHOT;
	skb->mark = 1;
	bpf_sk_release(sk);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
