// Locks: spin lock in a tracing program (kprobe).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct lat {
	struct bpf_spin_lock lock;
	__u64 sum;
	__u64 n;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct lat);
} lats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, __u64);
} begin SEC(".maps");

SEC("kprobe/vfs_fsync_range")
int BPF_KPROBE(fsync_in)
{
	__u64 id = bpf_get_current_pid_tgid(), ts = bpf_ktime_get_ns();

	bpf_map_update_elem(&begin, &id, &ts, BPF_ANY);
	return 0;
}

SEC("kretprobe/vfs_fsync_range")
int BPF_KRETPROBE(fsync_out, int ret)
{
	__u64 id = bpf_get_current_pid_tgid(), *ts, d;
	__u32 tgid = id >> 32;
	struct lat *l;

	ts = bpf_map_lookup_elem(&begin, &id);
	if (!ts)
		return 0;
	d = bpf_ktime_get_ns() - *ts;
	l = bpf_map_lookup_elem(&lats, &tgid);
	if (l) {
		bpf_spin_lock(&l->lock);
		l->sum += d;
		l->n++;
		bpf_spin_unlock(&l->lock);
	}
	bpf_map_delete_elem(&begin, &id);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
