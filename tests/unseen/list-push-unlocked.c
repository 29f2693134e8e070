// List changed without its lock (TC).
// Queue of samples in a linked list of the program's own objects.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define __contains(n, f) __attribute__((btf_decl_tag("contains:" #n ":" #f)))
#define private(name) SEC(".bss." #name) __attribute__((aligned(8)))

extern void *bpf_obj_new_impl(__u64 id, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *p, void *meta) __ksym;
extern int bpf_list_push_back_impl(struct bpf_list_head *h, struct bpf_list_node *n, void *meta, __u64 off) __ksym;
extern struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *h) __ksym;

struct datum {
	struct bpf_list_node node;
	__u32 len;
	__u32 mark;
};

struct line {
	struct bpf_spin_lock lock;
	struct bpf_list_head head __contains(datum, node);
	__u64 depth;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct line);
} queues SEC(".maps");

SEC("tc")
int enqueue(struct __sk_buff *skb)
{
	struct line *q;
	struct datum *s;
	__u32 zero = 0;

	q = bpf_map_lookup_elem(&queues, &zero);
	if (!q)
		return 0;
	s = bpf_obj_new_impl(bpf_core_type_id_local(struct datum), 0);
	if (!s)
		return 0;
	s->len = skb->len;
	s->mark = skb->mark;
	bpf_list_push_back_impl(&q->head, &s->node, 0, 0);
	bpf_spin_lock(&q->lock);
	q->depth++;
	bpf_spin_unlock(&q->lock);
	return 0;
}

char _license[] SEC("license") = "GPL";
