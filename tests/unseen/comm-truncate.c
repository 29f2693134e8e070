// Bounds: stack variable offset (tracepoint).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct cfg {
	__u32 comm_chars;
	__u32 min_prio;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cfg);
} cfg_map SEC(".maps");

struct comm_key {
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct comm_key);
	__type(value, __u64);
} forks SEC(".maps");

SEC("tracepoint/sched/sched_process_fork")
int on_fork(void *ctx)
{
	struct comm_key k = {};
	__u32 zero = 0, cut;
	__u64 one = 1, *v;
	struct cfg *c;

	c = bpf_map_lookup_elem(&cfg_map, &zero);
	if (!c)
		return 0;
	bpf_get_current_comm(k.comm, sizeof(k.comm));

	/* group kworker/0:1, kworker/0:2 ... together */
	cut = c->comm_chars;
	if (cut > sizeof(k.comm))
		cut = sizeof(k.comm);
	k.comm[cut] = 0;

	v = bpf_map_lookup_elem(&forks, &k);
	if (v)
		__sync_fetch_and_add(v, 1);
	else
		bpf_map_update_elem(&forks, &k, &one, BPF_NOEXIST);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
