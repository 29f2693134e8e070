// Helper length (uprobe).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
struct tls_chunk {
	__u64 ts;
	__u32 pid;
	__u32 len;
	__u8 data[1024];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tls_chunk);
} chunk_heap SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} chunks SEC(".maps");

SEC("uprobe")
int BPF_KPROBE(ssl_write, void *ssl, const void *buf, int num)
{
	struct tls_chunk *c;
	__u32 zero = 0, copy;

	if (num <= 0)
		return 0;
	c = bpf_map_lookup_elem(&chunk_heap, &zero);
	if (!c)
		return 0;

	c->ts = bpf_ktime_get_ns();
	c->pid = bpf_get_current_pid_tgid() >> 32;
	c->len = num;
	copy = num;
	if (copy > sizeof(c->data))
		copy = sizeof(c->data);
	if (bpf_probe_read_user(c->data, copy, buf))
		return 0;

	bpf_perf_event_output(ctx, &chunks, BPF_F_CURRENT_CPU, c,
			      offsetof(struct tls_chunk, data) + num);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
