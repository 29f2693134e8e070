// Wrong context access (tracepoint/net/net_dev_queue).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
struct dev_key {
	char name[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct dev_key);
	__type(value, __u64);
} tx_bytes SEC(".maps");

SEC("tracepoint/net/net_dev_queue")
int on_queue(struct trace_event_raw_net_dev_template *ctx)
{
	struct dev_key k = {};
	__u32 off = ctx->__data_loc_name & 0xffff;
	const char *name = (const char *)ctx + off;
	__u64 len = ctx->len, *v;
	int i;

	for (i = 0; i < sizeof(k.name) - 1 && name[i]; i++)
		k.name[i] = name[i];

	v = bpf_map_lookup_elem(&tx_bytes, &k);
	if (!v) {
		bpf_map_update_elem(&tx_bytes, &k, &len, BPF_NOEXIST);
		return 0;
	}
	__sync_fetch_and_add(v, len);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
