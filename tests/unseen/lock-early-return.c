// Return with a lock held (XDP).
// Tracks sequence numbers of a telemetry stream.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct stream {
	struct bpf_spin_lock lock;
	__u32 next;
	__u64 lost, late, seen;
};

struct beat {
	__be32 id;
	__be32 seq;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct stream);
} streams SEC(".maps");

SEC("xdp")
int track(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct beat *b = (void *)(udp + 1);
	struct stream *s;
	__u32 seq, id;

	if ((void *)(b + 1) > end || udp->dest != bpf_htons(9999))
		return XDP_PASS;
	id = bpf_ntohl(b->id);
	seq = bpf_ntohl(b->seq);
	s = bpf_map_lookup_elem(&streams, &id);
	if (!s)
		return XDP_PASS;
	bpf_spin_lock(&s->lock);
	s->seen++;
	if (seq < s->next) {
		s->late++;
		return XDP_DROP;
	}
	s->lost += seq - s->next;
	s->next = seq + 1;
	bpf_spin_unlock(&s->lock);
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
