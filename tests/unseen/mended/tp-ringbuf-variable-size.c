#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} rb SEC(".maps");

#define MAXW 128

SEC("tp/syscalls/sys_enter_write")
int writes(struct trace_event_raw_sys_enter *ctx)
{
	__u64 n = ctx->args[2];
	char *e;

	if (n > MAXW)
		n = MAXW;
	e = bpf_ringbuf_reserve(&rb, MAXW, 0);
	if (!e)
		return 0;
	bpf_probe_read_user(e, n, (void *)ctx->args[1]);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
