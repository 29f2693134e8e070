// Write to a read-only buffer (iter/bpf_map_elem).
// Halves every counter of a map while it is dumped.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct flow {
	__u32 saddr, daddr;
	__u16 sport, dport;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct flow);
	__type(value, __u64);
} flows SEC(".maps");

static __u64 rows;

SEC("iter/bpf_map_elem")
int decay(struct bpf_iter__bpf_map_elem *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct flow *f = ctx->key;
	__u64 *n = ctx->value;
	static const char fmt[] = "%x:%u %llu\n";
	static const char end[] = "%llu rows\n";
	__u64 args[3];

	if (!f || !n) {
		args[0] = rows;
		bpf_seq_printf(seq, end, sizeof(end), args, 8);
		return 0;
	}
	rows++;
	args[0] = f->saddr;
	args[1] = f->sport;
	args[2] = *n;
	bpf_seq_printf(seq, fmt, sizeof(fmt), args, sizeof(args));
	*n /= 2;
	if (*n == 0)
		f->sport = 0;
	return 0;
}

char _license[] SEC("license") = "GPL";
