// Ring buffer record leaked on an early return (kprobe).
// Reports unlinks of files by processes of one user.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

struct event {
	__u32 pid, uid;
	__u32 mode;
	char comm[16];
	char name[64];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} rb SEC(".maps");

const volatile __u32 target_uid = 1000;

SEC("kprobe/vfs_unlink")
int BPF_KPROBE(on_unlink, struct mnt_idmap *map, struct inode *dir, struct dentry *dentry)
{
	const unsigned char *name;
	struct event *e;

	e = bpf_ringbuf_reserve(&rb, sizeof(*e), 0);
	if (!e)
		return 0;
	e->uid = bpf_get_current_uid_gid();
	e->pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
	if (e->uid != target_uid)
		return 0;
	e->mode = BPF_CORE_READ(dir, i_mode);
	name = BPF_CORE_READ(dentry, d_name.name);
	if (bpf_probe_read_kernel_str(e->name, sizeof(e->name), name) < 0)
		goto drop;
	bpf_ringbuf_submit(e, 0);
	return 0;
drop:
	bpf_ringbuf_discard(e, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
