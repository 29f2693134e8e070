// Packet-like bounds (cgroup/setsockopt).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#define SOL_TCP 6
#define TCP_CONGESTION_ 13

__u64 rejected;

SEC("cgroup/setsockopt")
int pick_cc(struct bpf_sockopt *ctx)
{
	__u8 *optval = ctx->optval;
	__u8 *end = ctx->optval_end;
	int len = ctx->optlen;

	if (ctx->level != SOL_TCP || ctx->optname != TCP_CONGESTION_)
		return 1;

	/* "bbr" is reserved for the batch class */
	if (len < 3)
		return 1;
	if (optval[0] == 'b' && optval[1] == 'b' && optval[2] == 'r') {
		if (bpf_get_current_uid_gid() & 0xffffffff) {
			__sync_fetch_and_add(&rejected, 1);
			return 0;
		}
	}
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
