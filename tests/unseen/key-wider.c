// Map definition (tracepoint/syscalls/sys_exit_read).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
struct file_stat {
	__u64 reads;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct file_stat);
} by_pid SEC(".maps");

SEC("tracepoint/syscalls/sys_exit_read")
int read_done(struct trace_event_raw_sys_exit *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	struct file_stat *st;
	long n = ctx->ret;

	if (n <= 0)
		return 0;

	st = bpf_map_lookup_elem(&by_pid, &pid);
	if (!st) {
		static struct file_stat first;

		bpf_map_update_elem(&by_pid, &pid, &first, BPF_NOEXIST);
		return 0;
	}
	__sync_fetch_and_add(&st->reads, 1);
	__sync_fetch_and_add(&st->bytes, n);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
