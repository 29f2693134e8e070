// Variable length not bounded below (TC).
// Copies the first payload bytes of HTTP requests to user space.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define SNAP 128

struct event {
	__u32 saddr, daddr;
	__u32 len;
	__u8 bytes[SNAP];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} events SEC(".maps");

SEC("tc")
int sniff(struct __sk_buff *skb)
{
	struct iphdr ip;
	struct tcphdr tcp;
	__u32 off = sizeof(struct ethhdr);
	struct event *e;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	if (bpf_skb_load_bytes(skb, off, &ip, sizeof(ip)))
		return TC_ACT_OK;
	off += ip.ihl * 4;
	if (ip.protocol != 6 || bpf_skb_load_bytes(skb, off, &tcp, sizeof(tcp)))
		return TC_ACT_OK;
	if (tcp.dest != bpf_htons(80))
		return TC_ACT_OK;
	off += tcp.doff * 4;

	__u32 left = skb->len - off;
	if (left > SNAP)
		left = SNAP;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e)
		return TC_ACT_OK;
	e->saddr = ip.saddr;
	e->daddr = ip.daddr;
	e->len = left;
	if (bpf_skb_load_bytes(skb, off, e->bytes, left)) {
		bpf_ringbuf_discard(e, 0);
		return TC_ACT_OK;
	}
	bpf_ringbuf_submit(e, 0);
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
