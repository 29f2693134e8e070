// Key given by value instead of by pointer (sk_reuseport).
// QUIC: the connection id's first byte names the worker.
#include <linux/bpf.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_REUSEPORT_SOCKARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} workers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} shape SEC(".maps");

static __always_inline void note(__u32 k)
{
	__u64 *n = bpf_map_lookup_elem(&shape, &k);

	if (n)
		(*n)++;
}

SEC("sk_reuseport")
int quic(struct sk_reuseport_md *md)
{
	void *data = md->data, *end = md->data_end;
	__u8 *p = data + sizeof(struct udphdr);
	__u32 worker;

	if ((void *)(p + 7) > end)
		return SK_DROP;
	if (p[0] & 0x80) {
		note(0);
		worker = md->hash & 15;
	} else {
		note(1);
		worker = p[1] & 15;
	}
	if (bpf_sk_select_reuseport(md, &workers, (void *)(long)worker, 0))
		return SK_DROP;
	return SK_PASS;
}

char _license[] SEC("license") = "GPL";
