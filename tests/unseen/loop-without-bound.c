// Loop without a bound (kprobe).
// Depth of a dentry below its mount's root.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define DEEP 32

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DEEP + 1);
	__type(key, __u32);
	__type(value, __u64);
} depths SEC(".maps");

SEC("kprobe/vfs_mkdir")
int BPF_KPROBE(on_mkdir, struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry)
{
	struct dentry *d = dentry, *up;
	__u32 depth = 0;
	__u64 *n;

	for (;;) {
		up = BPF_CORE_READ(d, d_parent);
		if (!up || up == d)
			break;
		d = up;
		depth++;
	}
	if (depth > DEEP)
		depth = DEEP;
	n = bpf_map_lookup_elem(&depths, &depth);
	if (n)
		__sync_fetch_and_add(n, 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
