// Null (tracepoint/block/block_rq_complete).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
struct req_key {
	__u32 dev;
	__u64 sector;
};

struct lat {
	__u64 total;
	__u64 count;
	__u64 max;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__type(key, struct req_key);
	__type(value, __u64);
} inflight SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct lat);
} by_dev SEC(".maps");

SEC("tracepoint/block/block_rq_complete")
int rq_done(struct trace_event_raw_block_rq_completion *ctx)
{
	struct req_key k = {};
	__u64 *tsp, delta;
	struct lat *l, fresh = {};
	__u32 dev = ctx->dev;

	k.dev = dev;
	k.sector = ctx->sector;
	tsp = bpf_map_lookup_elem(&inflight, &k);
	if (!tsp)
		return 0;
	delta = bpf_ktime_get_ns() - *tsp;
	bpf_map_delete_elem(&inflight, &k);

	l = bpf_map_lookup_elem(&by_dev, &dev);
	if (!tsp) {
		fresh.total = delta;
		fresh.count = 1;
		fresh.max = delta;
		bpf_map_update_elem(&by_dev, &dev, &fresh, BPF_ANY);
		return 0;
	}
	l->total += delta;
	l->count++;
	if (delta > l->max)
		l->max = delta;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
