// The storage of a socket may not be there, also where it is to be created.
// line: *seen += 1;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} storage SEC(".maps");

SEC("cgroup_skb/egress")
int seen(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	__u64 *seen;

	if (!sk)
		return 1;
	seen = bpf_sk_storage_get(&storage, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	*seen += 1;
	return 1;
}

char _license[] SEC("license") = "GPL";
