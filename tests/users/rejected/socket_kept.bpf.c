// A return forgets a socket.
#include "tools.h"
SEC("tc") int f(struct __sk_buff *skb)
{
	struct bpf_sock *sk = bpf_sk_lookup_tcp(skb, &(struct bpf_sock_tuple){}, 12, -1, 0);
	if (sk && sk->state == 10) return 1;
	if (sk) bpf_sk_release(sk);
	return 0;
}
