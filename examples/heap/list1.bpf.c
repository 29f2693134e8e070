/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A key-value store at XDP: the linked list of KFlex's Listing 1, with plain pointers and a plain loop.
 *
 * A request is a UDP datagram to port 4242 over IPv4: a kind (0 get, 1 set, 2 delete), a key and a value, 32 bits each in
 * network order. The reply is the same datagram sent back: the kind is 0 when the key was found and 1 when it was not, and
 * the value is the stored one. User space fills the list: it maps the heap and sets `head`.
 */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <kiln/heap.h>

struct elem {
	__u32 key;
	__u32 value;
	struct elem *next, *prev;
};

struct request {
	__u32 kind;
	__u32 key;
	__u32 value;
} __attribute__((packed));

kiln_heap(1 << 20);
struct elem *head;
struct elem *unlinked; /* deleted elements, for user space to use again */
kiln_spinlock_t lock;
__u64 served;

static __always_inline void unlink_element(struct elem *e)
{
	if (e->prev)
		e->prev->next = e->next;
	else
		head = e->next;
	if (e->next)
		e->next->prev = e->prev;
	e->next = unlinked;
	unlinked = e;
}

static __always_inline void reply(struct ethhdr *eth, struct iphdr *ip, struct udphdr *udp)
{
	unsigned char mac[ETH_ALEN];
	__u32 address = ip->saddr;
	__u16 port = udp->source;

	__builtin_memcpy(mac, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
	ip->saddr = ip->daddr;
	ip->daddr = address;
	udp->source = udp->dest;
	udp->dest = port;
	udp->check = 0;
}

SEC("xdp")
int list1(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);
	struct request *request = (void *)(udp + 1);

	if ((void *)(request + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	if (ip->protocol != IPPROTO_UDP || ip->ihl != 5 || udp->dest != bpf_htons(4242))
		return XDP_PASS;

	__u32 kind = bpf_ntohl(request->kind), key = bpf_ntohl(request->key);

	kiln_spin_lock(&lock);
	struct elem *e = head;
	while (e != 0) {
		if (e->key != key) {
			e = e->next;
			continue;
		}
		switch (kind) {
		case 0:
			request->value = bpf_htonl(e->value);
			break;
		case 1:
			e->value = bpf_ntohl(request->value);
			break;
		case 2:
			unlink_element(e);
			break;
		}
		break;
	}
	served++;
	kiln_spin_unlock(&lock);

	request->kind = bpf_htonl(e == 0);
	reply(eth, ip, udp);
	return XDP_TX;
}

char LICENSE[] SEC("license") = "GPL";
