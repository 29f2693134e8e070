// Bounds: packet (pull_data not reloaded) (sk_msg).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} upstreams SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} method_to_upstream SEC(".maps");

/* route by the first four bytes of the request ("GET ", "POST") */
SEC("sk_msg")
int route_by_method(struct sk_msg_md *msg)
{
	void *data, *data_end;
	__u32 method, *up, key;

	if (msg->size < 4)
		return SK_PASS;

	data = msg->data;
	data_end = msg->data_end;
	if (data + 4 > data_end) {
		if (bpf_msg_pull_data(msg, 0, 4, 0))
			return SK_DROP;
	}
	method = *(__u32 *)data;

	up = bpf_map_lookup_elem(&method_to_upstream, &method);
	if (!up)
		return SK_PASS;
	key = *up;
	return bpf_msg_redirect_hash(msg, &upstreams, &key, BPF_F_INGRESS);
}

char _license[] SEC("license") = "GPL";
