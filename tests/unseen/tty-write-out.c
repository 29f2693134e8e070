// Bounds: length to perf_event_output (kprobe).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define BUFSZ 512

struct tty_rec {
	__u64 ts;
	__u32 len;
	char buf[BUFSZ];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tty_rec);
} heap SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} pe SEC(".maps");

SEC("kprobe/n_tty_write")
int BPF_KPROBE(tty_snoop, void *tty, void *file, const char *buf, size_t count)
{
	struct tty_rec *r;
	__u32 k = 0, n;

	r = bpf_map_lookup_elem(&heap, &k);
	if (!r)
		return 0;

	n = count & (BUFSZ - 1);
	r->ts = bpf_ktime_get_ns();
	r->len = n;
	bpf_probe_read_user(r->buf, n, buf);

	bpf_perf_event_output(ctx, &pe, BPF_F_CURRENT_CPU, r,
			      offsetof(struct tty_rec, buf) + count);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
