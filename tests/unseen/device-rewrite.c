// Context field not writable (cgroup/dev).
// Devices a container may use; a whole major counts as minor 0xffff.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct dev {
	__u32 major;
	__u32 minor;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct dev);
	__type(value, __u32);
} allowed SEC(".maps");

static __always_inline int permits(__u32 *mask, __u32 access)
{
	return mask && (*mask & access) == access;
}

SEC("cgroup/dev")
int devices(struct bpf_cgroup_dev_ctx *ctx)
{
	__u32 access = ctx->access_type >> 16;
	__u32 type = ctx->access_type & 0xffff;
	struct dev d = { ctx->major, ctx->minor };

	if (type != BPF_DEVCG_DEV_CHAR)
		return 0;
	if (access & BPF_DEVCG_ACC_MKNOD)
		return 0;
	if (permits(bpf_map_lookup_elem(&allowed, &d), access))
		return 1;
	ctx->minor = 0xffff;
	d.minor = *(volatile __u32 *)&ctx->minor;
	if (permits(bpf_map_lookup_elem(&allowed, &d), access))
		return 1;
	if (ctx->major == 1 && (ctx->minor == 3 || ctx->minor == 5))
		return 1;
	return 0;
}

char _license[] SEC("license") = "GPL";
