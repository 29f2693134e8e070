// Second read does not fit behind the first (kprobe).
// Joins directory and file name in one buffer.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define HALF 128

struct path_buf {
	__u32 len;
	char s[2 * HALF - 32];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct path_buf);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} rb SEC(".maps");

SEC("kprobe/vfs_rmdir")
int BPF_KPROBE(on_rmdir, struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry)
{
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	__u32 zero = 0;
	struct path_buf *p = bpf_map_lookup_elem(&scratch, &zero);
	long n, m;

	if (!p)
		return 0;
	n = bpf_probe_read_kernel_str(p->s, HALF, BPF_CORE_READ(parent, d_name.name));
	if (n <= 0 || n > HALF)
		return 0;
	p->s[n - 1] = '/';
	m = bpf_probe_read_kernel_str(&p->s[n], HALF, BPF_CORE_READ(dentry, d_name.name));
	if (m <= 0)
		return 0;
	p->len = n + m;
	bpf_ringbuf_output(&rb, p, sizeof(*p), 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
