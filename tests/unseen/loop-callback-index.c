// Callback's counter used as an index without a bound (XDP).
// Histogram of payload bytes, by bpf_loop.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#define CELLS 64

struct grid {
	__u32 cell[CELLS];
	__u32 total;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct grid);
} grids SEC(".maps");

struct state {
	struct xdp_md *ctx;
	struct grid *g;
	__u32 pos;
	__u32 odd;
};

static long step(__u32 i, void *arg)
{
	struct state *s = arg;
	void *data = (void *)(long)s->ctx->data;
	void *end = (void *)(long)s->ctx->data_end;
	__u8 *b = data + sizeof(struct ethhdr) + (i & 0x3ff);

	if ((void *)(b + 1) > end)
		return 1;
	if (*b & 1)
		s->odd++;
	s->pos += *b >> 2;
	s->g->cell[s->pos]++;
	return 0;
}

SEC("xdp")
int histogram(struct xdp_md *ctx)
{
	struct state s = { .ctx = ctx };
	__u32 zero = 0;

	s.g = bpf_map_lookup_elem(&grids, &zero);
	if (!s.g)
		return XDP_PASS;
	bpf_loop(512, step, &s, 0);
	s.g->total += s.odd;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
