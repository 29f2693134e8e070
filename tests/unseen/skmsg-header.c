// Message bytes beyond the checked ones (sk_msg).
// Routes framed messages between sockets by the frame's channel.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct frame {
	__be16 magic;
	__be16 channel;
	__be32 length;
	__u8 flags;
	__u8 hops;
} __attribute__((packed));

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} channels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u64);
} bytes SEC(".maps");

SEC("sk_msg")
int switchboard(struct sk_msg_md *msg)
{
	void *data = msg->data;
	void *end = msg->data_end;
	struct frame *f = data;
	__u32 ch;
	__u64 *n;

	if (data + 8 > end)
		return SK_PASS;
	if (f->magic != bpf_htons(0xfeed))
		return SK_DROP;
	ch = bpf_ntohs(f->channel) & 255;
	bpf_msg_apply_bytes(msg, bpf_ntohl(f->length) + sizeof(*f));
	n = bpf_map_lookup_elem(&bytes, &ch);
	if (n)
		*n += bpf_ntohl(f->length);
	if (f->hops > 8)
		return SK_DROP;
	return bpf_msg_redirect_map(msg, &channels, ch, BPF_F_INGRESS);
}

char _license[] SEC("license") = "GPL";
