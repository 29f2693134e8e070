// Callback bounds (syscall).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#define TOP 8

struct talker {
	__u32 ip;
	__u32 pad;
	__u64 bytes;
};

struct top {
	__u32 n;
	__u32 pad;
	struct talker t[TOP];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} by_ip SEC(".maps");

struct top result;
__u64 threshold = 1 << 20;

static long collect(struct bpf_map *map, __u32 *ip, __u64 *bytes, void *ctx)
{
	__u32 n = result.n;

	if (*bytes < threshold)
		return 0;
	if (n > TOP)
		return 1;
	result.t[n].ip = *ip;
	result.t[n].bytes = *bytes;
	result.n = n + 1;
	return 0;
}

SEC("syscall")
int snapshot_top(void *ctx)
{
	result.n = 0;
	bpf_for_each_map_elem(&by_ip, collect, NULL, 0);
	return result.n;
}

char LICENSE[] SEC("license") = "GPL";
