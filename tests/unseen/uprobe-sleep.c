// Helper availability (uprobe).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
struct query {
	__u64 ts;
	__u32 pid;
	__u32 len;
	char sql[200];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} queries SEC(".maps");

__u64 lost;

SEC("uprobe")
int BPF_KPROBE(exec_query, void *conn, const char *sql, unsigned long len)
{
	struct query *q;

	if (!len || len > 1 << 20)
		return 0;
	q = bpf_ringbuf_reserve(&queries, sizeof(*q), 0);
	if (!q) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	q->ts = bpf_ktime_get_ns();
	q->pid = bpf_get_current_pid_tgid() >> 32;
	if (len > sizeof(q->sql))
		len = sizeof(q->sql);
	q->len = len;
	/* pages may be swapped out, so fault them in */
	if (bpf_copy_from_user(q->sql, len, sql)) {
		bpf_ringbuf_discard(q, 0);
		return 0;
	}
	bpf_ringbuf_submit(q, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
