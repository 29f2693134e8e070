// The socket is read after it was released.
// line: return sk->mark == 9 ? 2 : 0;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int marked(struct __sk_buff *skb)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sk = bpf_sk_lookup_udp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);

	if (!sk)
		return 0;
	bpf_sk_release(sk);
	return sk->mark == 9 ? 2 : 0;
}

char _license[] SEC("license") = "GPL";
