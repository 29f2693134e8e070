// Result of a wrong size given to a helper (cgroup/sysctl).
// Keeps somaxconn within limits inside a cgroup.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const char wanted[] = "net/core/somaxconn";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

static __always_inline void hit(__u32 k)
{
	__u64 *n = bpf_map_lookup_elem(&hits, &k);

	if (n)
		*n += 1;
}

SEC("cgroup/sysctl")
int guard(struct bpf_sysctl *ctx)
{
	char name[32] = {}, text[16] = {};
	int value = 0;
	int n;

	if (!ctx->write)
		return 1;
	n = bpf_sysctl_get_name(ctx, name, sizeof(name), 0);
	if (n != sizeof(wanted) - 1)
		return 1;
	for (int i = 0; i < sizeof(wanted); i++)
		if (name[i] != wanted[i])
			return 1;
	n = bpf_sysctl_get_new_value(ctx, text, sizeof(text));
	if (n <= 0)
		return 0;
	if (bpf_strtol(text, sizeof(text), 0, (long *)&value) < 0)
		return 0;
	if (value < 16 || value > 65535) {
		hit(0);
		return 0;
	}
	hit(1);
	return 1;
}

char _license[] SEC("license") = "GPL";
