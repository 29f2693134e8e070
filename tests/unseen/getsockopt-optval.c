// Option value not checked against its end (cgroup/getsockopt).
// Lies about the congestion control: applications see "reno".
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SOL_TCP 6
#define TCP_CONGESTION 13

struct seen {
	__u64 asked;
	__u32 last_len;
	__u32 last_err;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct seen);
} stats SEC(".maps");

SEC("cgroup/getsockopt")
int fake_cc(struct bpf_sockopt *ctx)
{
	char *val = ctx->optval;
	char *end = ctx->optval_end;
	__u32 zero = 0;
	struct seen *s;

	if (ctx->level != SOL_TCP || ctx->optname != TCP_CONGESTION)
		return 1;
	s = bpf_map_lookup_elem(&stats, &zero);
	if (s) {
		s->asked++;
		s->last_len = ctx->optlen;
		s->last_err = ctx->retval;
	}
	if (ctx->optlen < 5)
		return 1;
	val[0] = 'r';
	val[1] = 'e';
	val[2] = 'n';
	val[3] = 'o';
	val[4] = 0;
	if (val + 6 <= end)
		val[5] = 0;
	ctx->optlen = 5;
	return 1;
}

char _license[] SEC("license") = "GPL";
