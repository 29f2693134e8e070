// Direct packet access where it is not allowed (socket filter).
// Passes only ARP replies and gratuitous ARP to a monitor.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct arp_ip4 {
	struct {
		__be16 ar_hrd, ar_pro;
		__u8 ar_hln, ar_pln;
		__be16 ar_op;
	} h;
	__u8 sha[6];
	__u8 spa[4];
	__u8 tha[6];
	__u8 tpa[4];
} __attribute__((packed));

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} neighbours SEC(".maps");

SEC("socket")
int arp_watch(struct __sk_buff *skb)
{
	struct arp_ip4 a;
	__u64 now = bpf_ktime_get_ns();
	__u32 who, whom;

	if (skb->protocol != bpf_htons(ETH_P_ARP))
		return 0;
	void *data = (void *)(long)skb->data;
	if (data + ETH_HLEN + sizeof(a) > (void *)(long)skb->data_end)
		return 0;
	__builtin_memcpy(&a, data + ETH_HLEN, sizeof(a));
	if (a.h.ar_hrd != bpf_htons(1) || a.h.ar_pro != bpf_htons(ETH_P_IP))
		return 0;
	__builtin_memcpy(&who, a.spa, 4);
	__builtin_memcpy(&whom, a.tpa, 4);
	bpf_map_update_elem(&neighbours, &who, &now, BPF_ANY);
	if (a.h.ar_op == bpf_htons(2) || who == whom)
		return skb->len;
	return 0;
}

char _license[] SEC("license") = "GPL";
