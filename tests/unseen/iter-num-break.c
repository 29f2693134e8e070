// Open-coded iterator not destroyed (XDP).
// Looks for a free backend, by an open-coded iterator.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;

struct backend {
	__u32 ifindex;
	__u32 load;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct backend);
} backends SEC(".maps");

const volatile __u32 limit = 100;

SEC("xdp")
int choose(struct xdp_md *ctx)
{
	__u32 start = bpf_get_prandom_u32() % 512;
	struct backend *b;
	struct bpf_iter_num it;
	__u32 pick = 0;
	int *i;

	bpf_iter_num_new(&it, start, start + 64);
	while ((i = bpf_iter_num_next(&it))) {
		__u32 key = *i;

		b = bpf_map_lookup_elem(&backends, &key);
		if (!b)
			continue;
		if (b->load < limit) {
			__sync_fetch_and_add(&b->load, 1);
			pick = b->ifindex;
			return bpf_redirect(pick, 0);
		}
	}
	bpf_iter_num_destroy(&it);
	if (!pick)
		return XDP_PASS;
	return bpf_redirect(pick, 0);
}

char _license[] SEC("license") = "GPL";
