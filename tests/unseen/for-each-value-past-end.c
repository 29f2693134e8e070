// Access past a map value in a callback (tracepoint).
// Finds the busiest of all counters once in a while.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct small {
	__u64 hits;
	__u32 slot;
	__u32 pad;
};

struct big {
	struct small s;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, struct small);
} counters SEC(".maps");

struct best {
	__u64 hits;
	__u64 bytes;
	__u32 key;
	__u32 n;
};

__u64 last_scan;
struct best result;

static long visit(struct bpf_map *map, __u32 *key, struct big *v, struct best *b)
{
	b->n++;
	if (v->s.hits < b->hits)
		return 0;
	b->hits = v->s.hits;
	b->key = *key;
	b->bytes = v->bytes;
	return b->n > 400;
}

SEC("tracepoint/sched/sched_process_exec")
int scan(void *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct best b = {};
	struct small *s, one = { .hits = 1 };

	s = bpf_map_lookup_elem(&counters, &tgid);
	if (s)
		__sync_fetch_and_add(&s->hits, 1);
	else
		bpf_map_update_elem(&counters, &tgid, &one, BPF_ANY);
	if (now - last_scan < 1000000000)
		return 0;
	last_scan = now;
	bpf_for_each_map_elem(&counters, visit, &b, 0);
	result = b;
	return 0;
}

char _license[] SEC("license") = "GPL";
