// A record of variable size is reserved.
#include "tools.h"
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } rb SEC(".maps");
SEC("tp/sched/sched_switch") int f(void *ctx)
{
	__u32 n = bpf_get_prandom_u32() & 63;
	char *e = bpf_ringbuf_reserve(&rb, n, 0);
	if (e) bpf_ringbuf_discard(e, 0);
	return 0;
}
