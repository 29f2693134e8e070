/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A rate limit for each sender: so many UDP packets in a period, others are dropped and told of. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum verdict { PASSED, DROPPED };

struct sender {
	__u64 period_start_ns;
	__u32 packets;
	enum verdict last;
};

struct drop {
	__be32 source;
	__u32 packets;
};

const volatile __u32 limit = 100;
const volatile __u64 period_ns = 1000000000;
__u64 drops;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __be32);
	__type(value, struct sender);
} senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 64);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct { __u32 bits; __u8 address[4]; });
	__type(value, __u8);
} trusted SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} dropped SEC(".maps");

static int over(__be32 source)
{
	__u64 now = bpf_ktime_get_ns();
	struct sender fresh = { .period_start_ns = now };
	struct sender *sender = bpf_map_lookup_elem(&senders, &source);

	if (!sender) {
		bpf_map_update_elem(&senders, &source, &fresh, BPF_ANY);
		sender = bpf_map_lookup_elem(&senders, &source);
		if (!sender)
			return 0;
	}
	if (now - sender->period_start_ns >= period_ns) {
		sender->period_start_ns = now;
		sender->packets = 0;
	}
	sender->packets++;
	sender->last = sender->packets > limit ? DROPPED : PASSED;
	return sender->last == DROPPED ? sender->packets : 0;
}

SEC("xdp") int limit_senders(struct xdp_md *context)
{
	void *data = (void *)(long)context->data, *end = (void *)(long)context->data_end;
	struct ethhdr *ethernet = data;
	struct iphdr *ip = data + sizeof(*ethernet);

	if ((void *)(ip + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != IPPROTO_UDP)
		return XDP_PASS;

	struct { __u32 bits; __u8 address[4]; } key = { .bits = 32 };
	__builtin_memcpy(key.address, &ip->saddr, sizeof(key.address));
	if (bpf_map_lookup_elem(&trusted, &key))
		return XDP_PASS;

	__u32 packets = over(ip->saddr);
	if (!packets)
		return XDP_PASS;

	struct drop record = { .source = ip->saddr, .packets = packets };
	__sync_fetch_and_add(&drops, 1);
	bpf_ringbuf_output(&dropped, &record, sizeof(record), 0);
	bpf_printk("dropped packet %d", packets);
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual MIT/GPL";
