#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} rounds SEC(".maps");

__u64 acc;

SEC("tp/syscalls/sys_enter_getpid")
int spin(void *ctx)
{
	__u32 zero = 0, *n = bpf_map_lookup_elem(&rounds, &zero);
	__u32 sum = 0;

	if (!n)
		return 0;
	for (__u32 i = 0; i < *n && i < 1000; i++)
		sum += bpf_get_prandom_u32() ^ i;
	acc = sum;
	return 0;
}

char _license[] SEC("license") = "GPL";
