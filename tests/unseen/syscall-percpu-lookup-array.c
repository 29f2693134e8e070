// Wrong map type for a helper.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 8);
} counts SEC(".maps");

SEC("syscall")
int total(void *ctx)
{
	__u32 key = 1;
	__u64 sum = 0, *v;

	for (int cpu = 0; cpu < 4; cpu++) {
		v = bpf_map_lookup_percpu_elem(&counts, &key, cpu);
		if (v)
			sum += *v;
	}
	return sum & 0x7fffffff;
}

char _license[] SEC("license") = "GPL";
