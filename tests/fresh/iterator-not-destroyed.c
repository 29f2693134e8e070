// The iterator is left by a return and not destroyed.
// line: }
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

__u32 blocked[16];

SEC("xdp")
int search(struct xdp_md *ctx)
{
	struct bpf_iter_num it;
	int *i;

	bpf_iter_num_new(&it, 0, 16);
	while ((i = bpf_iter_num_next(&it))) {
		if (blocked[*i & 15] == ctx->ingress_ifindex)
			return XDP_DROP;
	}
	bpf_iter_num_destroy(&it);
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
