// The socket that was looked for may not exist.
// line: __u32 mark = sk->mark;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int of_socket(struct __sk_buff *skb)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sk = bpf_sk_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	__u32 mark = sk->mark;

	bpf_sk_release(sk);
	return mark == 1 ? 2 : 0;
}

char _license[] SEC("license") = "GPL";
