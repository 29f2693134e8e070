// Reference to a socket leaked on one path (TC).
// Lets only packets through that belong to a listening or open socket.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} strangers SEC(".maps");

SEC("tc")
int known_only(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct tcphdr *tcp = (void *)(ip + 1);
	struct bpf_sock_tuple t;
	struct bpf_sock *sk;
	int verdict = TC_ACT_OK;

	if ((void *)(tcp + 1) > end)
		return TC_ACT_OK;
	if (eth->h_proto != bpf_htons(ETH_P_IP) || ip->protocol != 6)
		return TC_ACT_OK;

	t.ipv4.saddr = ip->saddr;
	t.ipv4.daddr = ip->daddr;
	t.ipv4.sport = tcp->source;
	t.ipv4.dport = tcp->dest;
	sk = bpf_sk_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk) {
		__u64 now = bpf_ktime_get_ns();
		__u32 who = t.ipv4.saddr;

		bpf_map_update_elem(&strangers, &who, &now, BPF_ANY);
		return TC_ACT_SHOT;
	}
	if (sk->state == 10 && !tcp->syn)
		verdict = TC_ACT_SHOT;
	if (sk->mark == 0xdead)
		return TC_ACT_SHOT;
	bpf_sk_release(sk);
	return verdict;
}

char _license[] SEC("license") = "GPL";
