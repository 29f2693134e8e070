// The packet may have no socket.
// line: sk = bpf_sk_fullsock(skb->sk);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup_skb/ingress")
int by_mark(struct __sk_buff *skb)
{
	struct bpf_sock *sk;

	sk = bpf_sk_fullsock(skb->sk);
	return sk && sk->mark == 4;
}

char _license[] SEC("license") = "GPL";
