// Global function (sk_reuseport).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
struct quic_hdr {
	__u8 flags;
	__u8 ver[4];
	__u8 dcid_len;
	__u8 dcid[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_REUSEPORT_SOCKARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} workers SEC(".maps");

__noinline int worker_of(struct quic_hdr *h)
{
	if (!(h->flags & 0x80))
		return h->ver[0] & 15;
	if (h->dcid_len < 8)
		return -1;
	return (h->dcid[0] ^ h->dcid[7]) & 15;
}

SEC("sk_reuseport")
int quic_steer(struct sk_reuseport_md *md)
{
	struct quic_hdr h = {};
	__u32 key;
	int w;

	if (md->ip_protocol != IPPROTO_UDP)
		return SK_PASS;
	if (bpf_skb_load_bytes(md, sizeof(struct udphdr), &h, sizeof(h)) < 0)
		return SK_PASS;

	w = worker_of(&h);
	if (w < 0)
		return SK_PASS;
	key = w;
	if (bpf_sk_select_reuseport(md, &workers, &key, 0) == 0)
		return SK_PASS;
	return md->hash ? SK_PASS : SK_DROP;
}

char LICENSE[] SEC("license") = "GPL";
