// A return forgets a record of a ring buffer.
#include "tools.h"
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 65536); } rb SEC(".maps");
SEC("tracepoint/sched/sched_process_exec") int f(void *ctx)
{
	__u64 *e = bpf_ringbuf_reserve(&rb, 16, 0);
	if (!e) return 0;
	e[0] = bpf_ktime_get_ns();
	if (e[0] & 1) return 0;
	bpf_ringbuf_submit(e, 0);
	return 0;
}
