// Pointer to a finished frame's stack (TC).
// Formats a key in a helper and looks it up.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct key {
	__u32 ifindex;
	__u32 vlan;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, struct key);
	__type(value, __u64);
} seen SEC(".maps");

static __noinline struct key *make_key(struct __sk_buff *skb)
{
	struct key k, *kp = &k;

	kp->ifindex = skb->ingress_ifindex;
	kp->vlan = skb->vlan_present ? skb->vlan_tci & 0xfff : 0;
	asm volatile("" : "+r"(kp) :: "memory");
	return kp;
}

SEC("tc")
int count(struct __sk_buff *skb)
{
	__u64 one = 1, *n;
	struct key *k;

	k = make_key(skb);
	n = bpf_map_lookup_elem(&seen, k);
	if (n) {
		*n += skb->len;
		return TC_ACT_OK;
	}
	if (skb->len < 64)
		return TC_ACT_SHOT;
	bpf_map_update_elem(&seen, k, &one, BPF_ANY);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
