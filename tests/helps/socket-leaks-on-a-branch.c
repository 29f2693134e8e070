// The socket is released on one branch only.
// line: return 0;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int established(struct __sk_buff *skb)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sk = bpf_sk_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	int verdict = 2;

	if (!sk)
		return verdict;
	if (sk->state != 1)
		return 0;
	bpf_sk_release(sk);
	return verdict;
}

char _license[] SEC("license") = "GPL";
