// Round-trip times of a control group's connections, asked for when they are established.
#include "tools.h"

struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, BUCKETS); __type(key, __u32); __type(value, __u64); } rtts SEC(".maps");

SEC("sockops")
int operation(struct bpf_sock_ops *ctx)
{
	__u32 at;
	__u64 *count;

	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		at = bucket(ctx->srtt_us >> 3);
		count = bpf_map_lookup_elem(&rtts, &at);
		if (count)
			__sync_fetch_and_add(count, 1);
		break;
	}
	return 1;
}
