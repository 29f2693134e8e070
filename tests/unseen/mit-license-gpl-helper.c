// License (kprobe).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct alloc {
	__u64 size;
	__u64 ts;
	__u32 tid;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 100000);
	__type(key, __u64);
	__type(value, struct alloc);
} allocs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__type(key, __u32);
	__type(value, __u64);
} sizes SEC(".maps");

SEC("kprobe/malloc")
int BPF_KPROBE(malloc_enter, size_t size)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u64 sz = size;

	return bpf_map_update_elem(&sizes, &tid, &sz, BPF_ANY);
}

SEC("kretprobe/malloc")
int BPF_KRETPROBE(malloc_exit, void *ptr)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u64 addr = (__u64)ptr, *sz, head = 0;
	struct alloc a = {};

	sz = bpf_map_lookup_elem(&sizes, &tid);
	if (!sz || !addr)
		return 0;
	bpf_probe_read_user(&head, sizeof(head), ptr);
	a.size = head ? *sz | 1 : *sz;
	a.ts = bpf_ktime_get_ns();
	a.tid = tid;
	bpf_map_update_elem(&allocs, &addr, &a, BPF_ANY);
	bpf_map_delete_elem(&sizes, &tid);
	return 0;
}

char LICENSE[] SEC("license") = "MIT";
