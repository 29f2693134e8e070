// Bounds: length to helper (signed) (kprobe).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define MAX_DATA 4096

struct ev {
	__u32 tgid;
	int len;
	char data[MAX_DATA];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ev);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

SEC("kprobe/SSL_write")
int BPF_KPROBE(ssl_write, void *ssl, const void *buf, int num)
{
	__u32 zero = 0;
	struct ev *e;
	int len;

	e = bpf_map_lookup_elem(&scratch, &zero);
	if (!e)
		return 0;
	e->tgid = bpf_get_current_pid_tgid() >> 32;
	e->len = num;

	len = num;
	if (len > MAX_DATA)
		len = MAX_DATA;
	if (bpf_probe_read_user(e->data, len, buf))
		return 0;
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, e, sizeof(*e));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
