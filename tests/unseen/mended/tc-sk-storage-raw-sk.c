#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} per_sock SEC(".maps");

SEC("tc")
int per_socket_bytes(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	__u64 *bytes;

	if (!sk)
		return TC_ACT_OK;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return TC_ACT_OK;
	bytes = bpf_sk_storage_get(&per_sock, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (bytes)
		__sync_fetch_and_add(bytes, skb->len);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
