// Index one past the end of an array in a map value (kprobe).
// Latency classes of fsync, by a table of limits.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define CLASSES 6

struct table {
	__u64 limit[CLASSES];
	__u64 count[CLASSES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct table);
} tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} begun SEC(".maps");

SEC("kprobe/vfs_fsync_range")
int BPF_KPROBE(enter)
{
	__u64 id = bpf_get_current_pid_tgid(), now = bpf_ktime_get_ns();

	bpf_map_update_elem(&begun, &id, &now, BPF_ANY);
	return 0;
}

SEC("kretprobe/vfs_fsync_range")
int BPF_KRETPROBE(leave, int err)
{
	__u64 id = bpf_get_current_pid_tgid(), *t, took;
	__u32 zero = 0, c;
	struct table *tab;

	t = bpf_map_lookup_elem(&begun, &id);
	tab = bpf_map_lookup_elem(&tables, &zero);
	if (!t || !tab || err)
		return 0;
	took = bpf_ktime_get_ns() - *t;
	for (c = 0; c < CLASSES; c++)
		if (took < tab->limit[c])
			break;
	if (c > CLASSES)
		return 0;
	__sync_fetch_and_add(&tab->count[c], 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
