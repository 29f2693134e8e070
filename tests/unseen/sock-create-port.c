// Context field of another attach type (cgroup/sock_create).
// Counts sockets per kind and forbids raw ones for a marked cgroup.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct kind {
	__u32 family;
	__u32 type;
	__u32 proto;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, struct kind);
	__type(value, __u64);
} kinds SEC(".maps");

const volatile __u32 fence = 0x77;

SEC("cgroup/sock_create")
int on_create(struct bpf_sock *sk)
{
	struct kind k = {
		.family = sk->family,
		.type = sk->type,
		.proto = sk->protocol,
	};
	__u64 one = 1, *n;

	n = bpf_map_lookup_elem(&kinds, &k);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&kinds, &k, &one, BPF_NOEXIST);

	if (k.type == 3 && sk->mark == fence)
		return 0;
	if (k.family == 2 && k.type == 2) {
		if (sk->src_port < 1024)
			sk->priority = 6;
		sk->mark = fence;
	}
	return 1;
}

char _license[] SEC("license") = "GPL";
