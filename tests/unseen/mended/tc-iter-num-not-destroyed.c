#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

SEC("tc")
int sum_up(struct __sk_buff *skb)
{
	struct bpf_iter_num it;
	int *v, sum = 0;

	bpf_iter_num_new(&it, 0, skb->len);
	while ((v = bpf_iter_num_next(&it))) {
		sum += *v;
		if (sum > 100)
			break;
	}
	bpf_iter_num_destroy(&it);
	return 0;
}

char _license[] SEC("license") = "GPL";
