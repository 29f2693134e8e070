#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

extern void *bpf_obj_new_impl(__u64 local_type_id__k, void *meta) __ksym;
extern void bpf_obj_drop_impl(void *kptr, void *meta) __ksym;

struct pair {
	__u64 key;
	__u64 value;
};

SEC("syscall")
int make(void *ctx)
{
	struct pair *n = bpf_obj_new_impl(bpf_core_type_id_local(struct pair), 0);

	if (!n)
		return 1;
	n->key = 1;
	n->value = 2;
	bpf_obj_drop_impl(n, 0);
	return 0;
}

char _license[] SEC("license") = "GPL";
