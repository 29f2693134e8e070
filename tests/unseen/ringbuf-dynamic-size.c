// Ring buffer size is not a constant (kprobe).
// Sends the first bytes of every write to a log file.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define SNAP 512

struct chunk {
	__u64 ino;
	__u32 pid;
	__u32 len;
	char data[];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} rb SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u64);
	__type(value, __u8);
} watched SEC(".maps");

SEC("kprobe/vfs_write")
int BPF_KPROBE(on_write, struct file *file, const char *buf, size_t count)
{
	__u64 ino = BPF_CORE_READ(file, f_inode, i_ino);
	struct chunk *c;
	__u32 len;

	if (!bpf_map_lookup_elem(&watched, &ino))
		return 0;
	len = count > SNAP ? SNAP : count;
	c = bpf_ringbuf_reserve(&rb, sizeof(*c) + len, 0);
	if (!c)
		return 0;
	c->ino = ino;
	c->pid = bpf_get_current_pid_tgid() >> 32;
	c->len = len;
	if (bpf_probe_read_user(c->data, len & (SNAP - 1), buf)) {
		bpf_ringbuf_discard(c, 0);
		return 0;
	}
	bpf_ringbuf_submit(c, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
