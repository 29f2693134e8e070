// Helper not allowed for the type (lwt_in).
// Resets the DSCP of decapsulated packets.
#include <linux/bpf.h>
#include <linux/ip.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 512);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, 8);
	__uint(value_size, 4);
} classes SEC(".maps");

struct lpm {
	__u32 bits;
	__be32 ip;
};

SEC("lwt_in")
int dscp(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data;
	struct lpm key = { .bits = 32 };
	__u32 *cls;
	__u8 old, new;

	if ((void *)(ip + 1) > end || ip->version != 4)
		return BPF_OK;
	key.ip = ip->daddr;
	old = ip->tos;
	cls = bpf_map_lookup_elem(&classes, &key);
	if (!cls)
		return BPF_OK;
	new = (*cls & 0x3f) << 2 | (old & 3);
	if (new == old)
		return BPF_OK;
	if (bpf_skb_store_bytes(skb, 1, &new, 1, 0))
		return BPF_DROP;
	bpf_l3_csum_replace(skb, 10, bpf_htons(old), bpf_htons(new), 2);
	skb->priority = *cls >> 8;
	return BPF_OK;
}

char _license[] SEC("license") = "GPL";
