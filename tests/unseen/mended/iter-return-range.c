#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

SEC("iter/bpf_map")
int dump_map(struct bpf_iter__bpf_map *ctx)
{
	struct bpf_map *map = ctx->map;

	if (!map)
		return 0;
	bpf_seq_write(ctx->meta->seq, &map->id, sizeof(map->id));
	return 0;
}

char _license[] SEC("license") = "GPL";
