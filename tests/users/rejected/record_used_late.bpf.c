// A record is written after it was submitted.
#include "tools.h"
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 65536); } rb SEC(".maps");
SEC("tracepoint/sched/sched_process_exec") int f(void *ctx)
{
	__u64 *e = bpf_ringbuf_reserve(&rb, 16, 0);
	if (!e) return 0;
	bpf_ringbuf_submit(e, 0);
	e[1] = 4;
	return 0;
}
