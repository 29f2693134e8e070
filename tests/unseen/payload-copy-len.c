// Packet bounds (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define SNAP 64

struct snapshot {
	__u64 ts;
	__u32 len;
	__u8 bytes[SNAP];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct snapshot);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} out SEC(".maps");

SEC("xdp")
int snap_payload(struct xdp_md *ctx)
{
	__u8 *data_end = (void *)(long)ctx->data_end;
	__u8 *data = (void *)(long)ctx->data;
	struct snapshot *s;
	__u32 zero = 0, len, i;

	if (data + 42 > data_end)
		return XDP_PASS;
	if (data[23] != IPPROTO_UDP)
		return XDP_PASS;

	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return XDP_PASS;

	len = data_end - (data + 42);
	if (len > SNAP)
		len = SNAP;

	s->ts = bpf_ktime_get_ns();
	s->len = len;
	for (i = 0; i < SNAP; i++) {
		if (i >= len)
			break;
		s->bytes[i] = data[42 + i];
	}

	bpf_ringbuf_output(&out, s, sizeof(*s), 0);
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
