// Dynptr (tc).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#define TC_ACT_OK 0

extern int bpf_dynptr_from_skb(struct __sk_buff *skb, __u64 flags,
			       struct bpf_dynptr *ptr) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *p, __u32 off,
			      void *buf, __u32 sz) __ksym;
extern void *bpf_dynptr_slice_rdwr(const struct bpf_dynptr *p, __u32 off,
				   void *buf, __u32 sz) __ksym;

const volatile __u8 dscp = 46;

SEC("tc")
int mark_dscp(struct __sk_buff *skb)
{
	struct bpf_dynptr ptr;
	struct iphdr buf, *ip;
	__u32 csum;
	__u8 old;

	if (skb->protocol != bpf_htons(0x0800))
		return TC_ACT_OK;
	if (bpf_dynptr_from_skb(skb, 0, &ptr))
		return TC_ACT_OK;

	ip = bpf_dynptr_slice(&ptr, sizeof(struct ethhdr), &buf, sizeof(buf));
	if (!ip)
		return TC_ACT_OK;

	old = ip->tos;
	ip->tos = (dscp << 2) | (old & 3);
	csum = (__u16)~ip->check + (__u16)~bpf_htons(old) + bpf_htons(ip->tos);
	csum = (csum & 0xffff) + (csum >> 16);
	csum = (csum & 0xffff) + (csum >> 16);
	ip->check = ~csum;
	if (ip == &buf)
		bpf_dynptr_write(&ptr, sizeof(struct ethhdr), ip, sizeof(*ip), 0);
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
