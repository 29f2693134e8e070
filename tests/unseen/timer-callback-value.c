// Timer callback returns what it must not (TC).
// Expires idle flows by a timer in the map value.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct flow {
	struct bpf_timer timer;
	__u64 bytes, last;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

#define IDLE 30000000000ull

static int expire(void *map, __u32 *key, struct flow *f)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - f->last < IDLE) {
		bpf_timer_start(&f->timer, IDLE, 0);
		return 1;
	}
	bpf_map_delete_elem(map, key);
	return 0;
}

SEC("tc")
int account(struct __sk_buff *skb)
{
	struct flow init = {}, *f;
	__u32 key;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return TC_ACT_OK;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + 12, &key, 4))
		return TC_ACT_OK;
	f = bpf_map_lookup_elem(&flows, &key);
	if (!f) {
		bpf_map_update_elem(&flows, &key, &init, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&flows, &key);
		if (!f)
			return TC_ACT_OK;
		if (bpf_timer_init(&f->timer, &flows, 1) == 0) {
			bpf_timer_set_callback(&f->timer, expire);
			bpf_timer_start(&f->timer, IDLE, 0);
		}
	}
	f->bytes += skb->len;
	f->last = bpf_ktime_get_ns();
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
