/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What socket buffer helpers do to packets, with arguments from the packet. */
#include "helpers.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static inline void fields(struct __sk_buff *skb)
{
	result(skb->len);
	result(skb->pkt_type);
	result(skb->mark);
	result(skb->queue_mapping);
	result(skb->protocol);
	result(skb->vlan_present);
	result(skb->vlan_tci);
	result(skb->vlan_proto);
	result(skb->priority);
	result(skb->ingress_ifindex);
	result(skb->ifindex);
	result(skb->tc_index);
	result(skb->cb[2]);
	result(skb->hash);
	result(skb->napi_id);
	result(skb->gso_segs);
	result(skb->gso_size);
}

struct arguments {
	u16 a, b, c, d;
	u32 e, f;
};

static inline int arguments(struct __sk_buff *skb, struct arguments *given)
{
	return bpf_skb_load_bytes(skb, skb->len >= 70 ? skb->len - 20 : 0, given, sizeof(*given));
}

SEC("tc") int bytes(struct __sk_buff *skb)
{
	struct arguments given = {};
	u64 read = 0;

	fields(skb);
	result(arguments(skb, &given));
	result(bpf_skb_load_bytes(skb, given.a % 300, &read, 8));
	result(read);
	result(bpf_skb_load_bytes_relative(skb, given.b % 64, &read, 6, BPF_HDR_START_MAC));
	result(read);
	result(bpf_skb_load_bytes_relative(skb, given.b % 64, &read, 6, BPF_HDR_START_NET));
	result(read);
	result(bpf_skb_store_bytes(skb, given.c % 300, &given, sizeof(given), given.d % 6));
	result(bpf_skb_pull_data(skb, given.e % 400));
	skb->mark = given.e;
	skb->priority = given.f;
	skb->cb[2] = given.a;
	skb->tc_index = given.d;
	skb->queue_mapping = given.d & 0x7fff;
	fields(skb);
	return TC_ACT_OK;
}

SEC("tc") int checksums(struct __sk_buff *skb)
{
	struct arguments given = {};
	u8 *data, *end;

	arguments(skb, &given);
	result(bpf_l3_csum_replace(skb, 24, given.a, given.b, 2));
	result(bpf_l3_csum_replace(skb, given.c % 128, given.e, given.f, 4));
	result(bpf_l3_csum_replace(skb, 24, 0, given.f, 0));
	result(bpf_l3_csum_replace(skb, 24, 1, given.f, given.d % 8));
	result(bpf_l4_csum_replace(skb, given.c % 100, given.e, given.f, 4 | BPF_F_PSEUDO_HDR));
	result(bpf_l4_csum_replace(skb, 50, given.a, given.b, 2 | BPF_F_MARK_MANGLED_0));
	result(bpf_l4_csum_replace(skb, 40, 0, given.e, BPF_F_MARK_ENFORCE | BPF_F_MARK_MANGLED_0));
	result(bpf_l4_csum_replace(skb, 40, 0, given.e, given.d));
	result(bpf_csum_diff((void *)&given, 16, 0, 0, given.e));
	result(bpf_csum_diff(0, 0, (void *)&given, 12, given.f));
	result(bpf_csum_diff((void *)&given, 8, (void *)&given.e, 8, given.a));
	result(bpf_csum_diff(0, 0, 0, 0, given.e));
	result(bpf_csum_update(skb, given.e));
	result(bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY));
	result(bpf_csum_level(skb, given.d % 5));
	result(bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY));
	result(bpf_skb_ecn_set_ce(skb));
	data = (u8 *)(long)skb->data;
	end = (u8 *)(long)skb->data_end;
	result(end - data);
	return TC_ACT_OK;
}

SEC("tc") int resize(struct __sk_buff *skb)
{
	struct arguments given = {};
	u32 start = 0;

	arguments(skb, &given);
	switch (given.a % 8) {
	case 0:
		result(bpf_skb_change_head(skb, given.b % 600, 0));
		break;
	case 1:
		result(bpf_skb_change_tail(skb, given.b % 700, 0));
		break;
	case 2:
		result(bpf_skb_change_proto(skb, bpf_htons(given.b & 1 ? 0x86dd : 0x0800), 0));
		break;
	case 3:
		result(bpf_skb_adjust_room(skb, (s32)(given.b % 200) - 100, BPF_ADJ_ROOM_NET, 0));
		break;
	case 4:
		result(bpf_skb_adjust_room(skb, (s32)(given.b % 200) - 100, BPF_ADJ_ROOM_MAC, 0));
		break;
	case 5:
		result(bpf_skb_adjust_room(skb, given.b % 100, BPF_ADJ_ROOM_MAC, given.c & 0x1fe));
		break;
	case 6:
		result(bpf_skb_adjust_room(skb, -(s32)(given.b % 60), BPF_ADJ_ROOM_MAC, given.c & 0x1a1));
		break;
	case 7:
		result(bpf_skb_adjust_room(skb, 50, BPF_ADJ_ROOM_MAC,
					   BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
						   BPF_F_ADJ_ROOM_ENCAP_L2_ETH | BPF_F_ADJ_ROOM_ENCAP_L2(14)));
		break;
	}
	fields(skb);
	result(bpf_skb_load_bytes_relative(skb, 0, &start, 4, BPF_HDR_START_NET));
	result(start);
	result(bpf_skb_change_type(skb, given.c % 6));
	result(bpf_skb_change_tail(skb, given.d % 400, given.e % 7 == 0));
	fields(skb);
	return TC_ACT_OK;
}

SEC("tc") int tags(struct __sk_buff *skb)
{
	struct arguments given = {};

	arguments(skb, &given);
	if (given.a & 1)
		result(bpf_skb_vlan_push(skb, bpf_htons(given.a & 2 ? 0x88a8 : 0x8100), given.b));
	fields(skb);
	if (given.a & 4)
		result(bpf_skb_vlan_push(skb, bpf_htons(given.a & 8 ? 0x8100 : 0x1234), given.c));
	fields(skb);
	if (given.a & 16)
		result(bpf_skb_vlan_pop(skb));
	fields(skb);
	result(bpf_skb_vlan_pop(skb));
	fields(skb);
	return TC_ACT_OK;
}

SEC("tc") int destinations(struct __sk_buff *skb)
{
	struct arguments given = {};
	struct bpf_fib_lookup route = { .family = 2, .ifindex = 1 };
	u32 mtu = 0;

	arguments(skb, &given);
	result(bpf_redirect(1, given.a & 3));
	result(bpf_redirect_peer(1, given.a & 3));
	result(bpf_redirect_neigh(1, 0, 0, given.a & 3));
	result(bpf_redirect_neigh(1, (void *)&given, given.b % 16, 0));
	result(bpf_clone_redirect(skb, 77, 0));
	result(bpf_clone_redirect(skb, 1, 8));
	result(bpf_check_mtu(skb, given.c % 2, &mtu, (s32)given.d - 3000, 0));
	result(mtu);
	result(bpf_check_mtu(skb, 55, &mtu, 0, given.d % 3));
	result(bpf_check_mtu(skb, 0, &mtu, 70000, given.d % 3));
	route.ifindex = given.a % 4 == 0 ? 1 : 99;
	route.family = given.b % 4 == 0 ? 10 : given.b % 4 == 1 ? 3 : 2;
	result(bpf_fib_lookup(skb, &route, given.c % 8 == 0 ? 32 : sizeof(route), given.d % 70));
	result(bpf_get_cgroup_classid(skb));
	result(bpf_get_route_realm(skb));
	result(bpf_skb_load_bytes(skb, -1, &mtu, 4));
	return TC_ACT_OK;
}

SEC("socket") int filter(struct __sk_buff *skb)
{
	struct arguments given = {};

	fields(skb);
	arguments(skb, &given);
	result(given.e);
	result(bpf_skb_load_bytes_relative(skb, given.b % 64, &given, 6, BPF_HDR_START_MAC));
	result(given.e + given.a);
	return skb->len;
}

SEC("cgroup_skb/ingress") int cgroup(struct __sk_buff *skb)
{
	u8 *data = (u8 *)(long)skb->data, *end = (u8 *)(long)skb->data_end;
	struct bpf_sock *sk = skb->sk;

	fields(skb);
	result(skb->family);
	result(skb->remote_ip4);
	result(skb->local_ip4);
	result(skb->remote_port);
	result(skb->local_port);
	if (data + 20 <= end)
		result(data[9]);
	if (!sk)
		return 0;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 0;
	result(sk->family);
	result(sk->type);
	result(sk->protocol);
	result(sk->state);
	result(sk->src_ip4);
	result(sk->dst_ip4);
	result(sk->bound_dev_if);
	result(sk->rx_queue_mapping);
	return 1;
}
