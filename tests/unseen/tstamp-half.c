// Context field read with the wrong width (TC).
// Spreads packets over two classes by the low bits of their departure time.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct stat {
	__u64 early, late, bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct stat);
} stats SEC(".maps");

SEC("tc")
int edt_class(struct __sk_buff *skb)
{
	__u32 cls = skb->queue_mapping & 3;
	struct stat *s;

	s = bpf_map_lookup_elem(&stats, &cls);
	if (!s)
		return TC_ACT_OK;

	s->bytes += skb->len;
	if (skb->gso_segs > 1)
		s->bytes += (skb->gso_segs - 1) * 54;

	__u32 when = *(volatile __u32 *)&skb->tstamp;
	if (when & (1u << 20)) {
		s->late++;
		skb->priority = 0x10002;
	} else {
		s->early++;
		skb->priority = 0x10001;
	}
	skb->tc_classid = skb->priority;
	return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
