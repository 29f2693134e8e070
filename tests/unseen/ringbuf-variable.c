// Helper argument (constant) (kprobe/vfs_unlink).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
struct unlink_evt {
	__u32 pid;
	__u32 uid;
	__u32 len;
	char name[];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} rb SEC(".maps");

#define NAME_MAX_LEN 128

SEC("kprobe/vfs_unlink")
int BPF_KPROBE(on_unlink, struct mnt_idmap *idmap, struct inode *dir,
	       struct dentry *dentry)
{
	const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
	__u32 len = BPF_CORE_READ(dentry, d_name.len);
	struct unlink_evt *e;

	if (len > NAME_MAX_LEN)
		len = NAME_MAX_LEN;

	e = bpf_ringbuf_reserve(&rb, sizeof(*e) + len, 0);
	if (!e)
		return 0;
	e->pid = bpf_get_current_pid_tgid() >> 32;
	e->uid = bpf_get_current_uid_gid();
	e->len = len;
	bpf_probe_read_kernel(e->name, len, name);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
