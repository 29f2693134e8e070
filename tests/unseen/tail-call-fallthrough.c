// Uninitialized: R0 after tail call (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

enum { PROG_V4, PROG_V6, PROG_ARP };

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 8);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} jmp SEC(".maps");

SEC("xdp")
int dispatch(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	__u32 slot;

	if ((void *)(eth + 1) > data_end)
		return XDP_DROP;

	switch (bpf_ntohs(eth->h_proto)) {
	case 0x0800:
		slot = PROG_V4;
		break;
	case 0x86dd:
		slot = PROG_V6;
		break;
	case 0x0806:
		slot = PROG_ARP;
		break;
	default:
		return XDP_PASS;
	}
	bpf_tail_call(ctx, &jmp, slot);
}

char LICENSE[] SEC("license") = "GPL";
