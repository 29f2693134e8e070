// Bounds: optval (cgroup/setsockopt).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define SOL_SOCKET 1
#define SO_SNDBUF 7
#define SO_RCVBUF 8

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} max_buf SEC(".maps");

/* keep container tenants from asking for silly socket buffers */
SEC("cgroup/setsockopt")
int cap_buffers(struct bpf_sockopt *ctx)
{
	__u32 zero = 0, *limit;
	int *val = ctx->optval;

	if (ctx->level != SOL_SOCKET)
		goto out;
	if (ctx->optname != SO_SNDBUF && ctx->optname != SO_RCVBUF)
		goto out;

	limit = bpf_map_lookup_elem(&max_buf, &zero);
	if (!limit)
		goto out;

	if (ctx->optlen < sizeof(*val))
		return 0;

	if (*val > (int)*limit)
		*val = *limit;
	return 1;
out:
	if (ctx->optlen > 4096)
		ctx->optlen = 0;
	return 1;
}

char _license[] SEC("license") = "GPL";
