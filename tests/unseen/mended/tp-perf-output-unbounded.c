#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct event {
	__u32 len;
	char path[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct event);
	__uint(max_entries, 1);
} heap SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

SEC("tp/syscalls/sys_enter_openat")
int opens(struct trace_event_raw_sys_enter *ctx)
{
	__u32 zero = 0;
	struct event *e = bpf_map_lookup_elem(&heap, &zero);
	long n;

	if (!e)
		return 0;
	n = bpf_probe_read_user_str(e->path, sizeof(e->path), (void *)ctx->args[1]);
	if (n < 0 || n > sizeof(e->path))
		return 0;
	e->len = n;
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, e, sizeof(e->len) + n);
	return 0;
}

char _license[] SEC("license") = "GPL";
