// As many bytes as the UDP header says are copied from the packet; only the header is checked.
// line: copy[i] = payload[i];
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct copy {
	__u8 bytes[64];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct copy);
} copies SEC(".maps");

SEC("xdp")
int copy_payload(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct udphdr *udp = data + sizeof(struct ethhdr) + 20;
	__u8 *payload = (void *)(udp + 1);
	__u32 zero = 0;
	struct copy *value = bpf_map_lookup_elem(&copies, &zero);
	__u8 *copy;

	if (!value || (void *)(udp + 1) > data_end)
		return XDP_PASS;
	copy = value->bytes;
	for (int i = 0; i < 64; i++) {
		if (i >= bpf_ntohs(udp->len))
			break;
		copy[i] = payload[i];
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
