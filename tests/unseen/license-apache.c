// Helper availability (kprobe/path_mount).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
struct mnt_evt {
	__u32 pid;
	__u64 flags;
	char dev[64];
	char type[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 15);
} rb SEC(".maps");

SEC("kprobe/path_mount")
int BPF_KPROBE(on_mount, const char *dev, struct path *path,
	       const char *type, unsigned long flags)
{
	struct mnt_evt *e;

	if (flags & 32 /* MS_REMOUNT */)
		return 0;
	e = bpf_ringbuf_reserve(&rb, sizeof(*e), 0);
	if (!e)
		return 0;

	e->pid = bpf_get_current_pid_tgid() >> 32;
	e->flags = flags;
	bpf_probe_read_kernel_str(e->dev, sizeof(e->dev), dev);
	bpf_probe_read_kernel_str(e->type, sizeof(e->type), type);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Apache-2.0";
