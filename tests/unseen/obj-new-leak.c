// Object of the program's own leaked (TC).
// Keeps the latest large packet's record in a map by a kptr.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

extern void *bpf_obj_new_impl(__u64 id, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *p, void *meta) __ksym;

struct rec_ {
	__u64 when;
	__u32 len;
	__u32 ifindex;
};

struct slot_ {
	struct rec_ __attribute__((btf_type_tag("kptr"))) *latest;
	__u64 swaps;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slot_);
} slots SEC(".maps");

SEC("tc")
int keep(struct __sk_buff *skb)
{
	struct rec_ *r, *old;
	struct slot_ *s;
	__u32 zero = 0;

	s = bpf_map_lookup_elem(&slots, &zero);
	if (!s || skb->len < 1000)
		return 0;
	r = bpf_obj_new_impl(bpf_core_type_id_local(struct rec_), 0);
	if (!r)
		return 0;
	r->len = skb->len;
	r->ifindex = skb->ifindex;
	r->when = bpf_ktime_get_ns();
	if (r->len > 9000) {
		r->len = 9000;
		return 0;
	}
	old = bpf_kptr_xchg(&s->latest, r);
	s->swaps++;
	if (old)
		bpf_obj_drop_impl(old, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
