// Graph collection / lock (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#define TC_ACT_OK 0
#define __contains(name, node) __attribute__((btf_decl_tag("contains:" #name ":" #node)))
#define private(name) SEC(".data." #name) __hidden __attribute__((aligned(8)))

struct job {
	__u64 stamp;
	__u32 hash;
	__u32 len;
	struct bpf_list_node node;
};

private(A) struct bpf_spin_lock lock;
private(A) struct bpf_list_head jobs __contains(job, node);

extern void *bpf_obj_new_impl(__u64 id, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *p, void *meta) __ksym;
extern int bpf_list_push_back_impl(struct bpf_list_head *head,
				   struct bpf_list_node *node, void *meta,
				   __u64 off) __ksym;
extern struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head) __ksym;

__u32 queued;

SEC("tc")
int enqueue_job(struct __sk_buff *skb)
{
	struct job *j;

	j = bpf_obj_new_impl(bpf_core_type_id_local(struct job), NULL);
	if (!j)
		return TC_ACT_OK;
	j->stamp = bpf_ktime_get_ns();
	j->hash = skb->hash;
	j->len = skb->len;

	bpf_list_push_back_impl(&jobs, &j->node, NULL, 0);
	__sync_fetch_and_add(&queued, 1);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
