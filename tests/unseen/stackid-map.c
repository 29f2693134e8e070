// Wrong map type for a helper (perf_event).
// A sampling profiler: counts stacks.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct sample_key {
	__s32 kstack, ustack;
	__u32 tgid, cpu;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__uint(key_size, 4);
	__uint(value_size, 127 * 8);
} traces SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__type(key, struct sample_key);
	__type(value, __u64);
} counts SEC(".maps");

const volatile bool user_too = true;

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), one = 1, *n;
	struct sample_key k = {};

	if (id == 0)
		return 0;
	k.tgid = id >> 32;
	k.cpu = bpf_get_smp_processor_id();
	k.kstack = bpf_get_stackid(ctx, &traces, 0);
	k.ustack = -1;
	if (user_too)
		k.ustack = bpf_get_stackid(ctx, &traces, 1 << 8);
	if (k.kstack < 0 && k.ustack < 0)
		return 0;
	n = bpf_map_lookup_elem(&counts, &k);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&counts, &k, &one, BPF_NOEXIST);
	return 0;
}

char _license[] SEC("license") = "GPL";
