// Helper length (kprobe/ksys_write).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#define MAXBUF 256

struct sniff {
	__u32 pid;
	__s32 len;
	char comm[16];
	char buf[MAXBUF];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} rb SEC(".maps");

const volatile __u32 target_pid;

SEC("kprobe/ksys_write")
int BPF_KPROBE(on_write, unsigned int fd, const char *ubuf, size_t count)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct sniff *s;
	int len = count;

	if (target_pid && pid != target_pid)
		return 0;
	if (fd != 1 && fd != 2)
		return 0;

	s = bpf_ringbuf_reserve(&rb, sizeof(*s), 0);
	if (!s)
		return 0;
	s->pid = pid;
	bpf_get_current_comm(s->comm, sizeof(s->comm));

	if (len > MAXBUF)
		len = MAXBUF;
	s->len = len;
	if (bpf_probe_read_user(s->buf, len, ubuf)) {
		bpf_ringbuf_discard(s, 0);
		return 0;
	}
	bpf_ringbuf_submit(s, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
