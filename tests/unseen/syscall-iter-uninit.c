// Iterator destroyed twice.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

SEC("syscall")
int squares(void *ctx)
{
	struct bpf_iter_num it;
	int *v, sum = 0;

	bpf_iter_num_new(&it, 0, 10);
	while ((v = bpf_iter_num_next(&it)))
		sum += *v * *v;
	bpf_iter_num_destroy(&it);
	bpf_iter_num_destroy(&it);
	return sum;
}

char _license[] SEC("license") = "GPL";
