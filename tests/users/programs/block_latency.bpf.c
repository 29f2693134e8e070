// Latency of block requests. The tracepoint's arguments changed with Linux 5.11.
#include "tools.h"

extern int LINUX_KERNEL_VERSION __kconfig;
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 10240); __type(key, struct request *); __type(value, __u64); } begun SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, BUCKETS); __type(key, __u32); __type(value, __u64); } latencies SEC(".maps");

static __always_inline int issue(struct request *request)
{
	__u64 now = bpf_ktime_get_ns();

	bpf_map_update_elem(&begun, &request, &now, 0);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int issued(__u64 *ctx)
{
	if (LINUX_KERNEL_VERSION < KERNEL_VERSION(5, 11, 0))
		return issue((void *)ctx[1]);
	return issue((void *)ctx[0]);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(completed, struct request *request, int error, unsigned int bytes)
{
	__u64 *since = bpf_map_lookup_elem(&begun, &request), *count;
	__u32 at;

	if (!since)
		return 0;
	at = bucket((bpf_ktime_get_ns() - *since) / 1000);
	count = bpf_map_lookup_elem(&latencies, &at);
	if (count)
		__sync_fetch_and_add(count, 1);
	bpf_map_delete_elem(&begun, &request);
	return 0;
}
