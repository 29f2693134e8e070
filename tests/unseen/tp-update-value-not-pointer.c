// Value passed, not its address.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1024);
} start SEC(".maps");

SEC("tp/syscalls/sys_enter_read")
int begin(void *ctx)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u64 ts = bpf_ktime_get_ns();

	bpf_map_update_elem(&start, &tid, (void *)ts, BPF_ANY);
	return 0;
}

char _license[] SEC("license") = "GPL";
