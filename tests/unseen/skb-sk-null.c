// Null: skb->sk (cgroup_skb/ingress).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct conn_key {
	__u32 family;
	__u32 sport;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct conn_key);
	__type(value, __u64);
} rx_bytes SEC(".maps");

SEC("cgroup_skb/ingress")
int account_rx(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct conn_key k = {};
	__u64 *v, n;

	if (skb->pkt_type != 0)
		return 1;

	k.family = sk->family;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1;
	k.sport = sk->src_port;

	n = skb->len;
	v = bpf_map_lookup_elem(&rx_bytes, &k);
	if (v)
		__sync_fetch_and_add(v, n);
	else
		bpf_map_update_elem(&rx_bytes, &k, &n, BPF_NOEXIST);
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
