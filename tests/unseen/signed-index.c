// Signed index checked only from above (TC).
// Moves packets between priority bands as user space says.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#define BANDS 8

struct plan {
	int shift[BANDS];
	__u32 prio[BANDS];
	__u64 used[BANDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct plan);
} plans SEC(".maps");

SEC("tc")
int bands(struct __sk_buff *skb)
{
	struct plan *p;
	__u32 zero = 0, band;
	int to;

	p = bpf_map_lookup_elem(&plans, &zero);
	if (!p)
		return TC_ACT_OK;
	band = skb->priority;
	if (band >= BANDS)
		return TC_ACT_OK;
	to = p->shift[band];
	if (to >= BANDS)
		return TC_ACT_OK;
	asm volatile("" : "+r"(to));
	p->used[to] += skb->len;
	skb->priority = p->prio[band];
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
