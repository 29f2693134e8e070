// Callback: return value (raw_tp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define NR 64

struct watch {
	__u32 tgid;
	__u32 hits;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR);
	__type(key, __u32);
	__type(value, struct watch);
} watches SEC(".maps");

struct find {
	__u32 tgid;
	int found;
};

static long find_one(__u32 i, struct find *f)
{
	__u32 key = i;
	struct watch *w = bpf_map_lookup_elem(&watches, &key);

	if (!w)
		return -1;
	if (w->tgid != f->tgid)
		return 0;
	w->hits++;
	f->found = 1;
	return 1;
}

SEC("raw_tp/sched_process_exec")
int on_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct find f = {};

	f.tgid = bpf_get_current_pid_tgid() >> 32;
	bpf_loop(NR, find_one, &f, 0);
	if (f.found)
		bpf_printk("watched %d called exec", f.tgid);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
