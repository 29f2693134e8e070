// Pointer arithmetic: on pkt_end (xdp).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} tx_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u32);
} fdb SEC(".maps");

static __always_inline __u64 mac_key(const unsigned char *m)
{
	return ((__u64)m[0] << 40) | ((__u64)m[1] << 32) | ((__u64)m[2] << 24) |
	       ((__u64)m[3] << 16) | ((__u64)m[4] << 8) | m[5];
}

SEC("xdp")
int l2_switch(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	__u32 in = ctx->ingress_ifindex, *port;
	__u64 key;

	if (data > data_end - sizeof(*eth))
		return XDP_DROP;

	key = mac_key(eth->h_source);
	bpf_map_update_elem(&fdb, &key, &in, BPF_ANY);

	key = mac_key(eth->h_dest);
	port = bpf_map_lookup_elem(&fdb, &key);
	if (!port || *port == in)
		return XDP_PASS;
	return bpf_redirect_map(&tx_ports, *port, XDP_PASS);
}

char _license[] SEC("license") = "GPL";
