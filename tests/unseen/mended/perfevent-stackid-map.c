#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 127 * sizeof(__u64));
	__uint(max_entries, 1024);
} stacks SEC(".maps");

SEC("perf_event")
int profile(struct bpf_perf_event_data *ctx)
{
	int id = bpf_get_stackid(ctx, &stacks, 0x100);

	return id < 0 ? 1 : 0;
}

char _license[] SEC("license") = "GPL";
