#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} rb SEC(".maps");

SEC("tp/syscalls/sys_enter_write")
int writes(struct trace_event_raw_sys_enter *ctx)
{
	struct bpf_dynptr ptr;
	__u32 n = ctx->args[2] & 0xff;

	if (bpf_ringbuf_reserve_dynptr(&rb, n, 0, &ptr)) {
		bpf_ringbuf_discard_dynptr(&ptr, 0);
		return 0;
	}
	bpf_dynptr_write(&ptr, 0, &n, sizeof(n), 0);
	bpf_ringbuf_submit_dynptr(&ptr, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
