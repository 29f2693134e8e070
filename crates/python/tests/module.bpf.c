/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Programs and maps of every kind that the Python module converts. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/ptrace.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

enum mode { OFF, ON = 5, AUTO };

struct inner {
	__s16 low;
	__u16 high;
};

struct everything {
	__s8 tiny;
	bool flag;
	enum mode mode;
	__s64 wide;
	unsigned int three : 3;
	int signed_five : 5;
	char name[8];
	__u8 mac[6];
	__u32 list[3];
	struct inner pairs[2];
	union {
		__u32 word;
		__u8 bytes[4];
	};
	void *pointer;
};

const volatile struct everything settings = { .tiny = -1, .name = "first", .list = { 1, 2, 3 } };
struct everything current;
__u64 random_numbers[2];
double not_for_bpf;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, struct inner);
	__type(value, struct everything);
} table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} per_cpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 2);
	__type(value, __u32);
} queue SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__uint(key_size, 4);
	__uint(value_size, 12);
} untyped SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__uint(value_size, 4);
} jumps SEC(".maps");

SEC("xdp") int pass(struct xdp_md *context)
{
	current = settings;
	return XDP_PASS;
}

SEC("xdp") int interface(struct xdp_md *context)
{
	return context->ingress_ifindex;
}

SEC("xdp") int jump(struct xdp_md *context)
{
	bpf_tail_call(context, &jumps, 1);
	return XDP_ABORTED;
}

SEC("xdp") int shorten(struct xdp_md *context)
{
	__u32 record = 7;

	bpf_perf_event_output(context, &events, BPF_F_CURRENT_CPU, &record, sizeof(record));
	bpf_xdp_adjust_tail(context, -4);
	return bpf_redirect(3, 0);
}

SEC("xdp") int draw(struct xdp_md *context)
{
	random_numbers[0] = bpf_get_prandom_u32();
	random_numbers[1] = bpf_ktime_get_ns();
	return XDP_PASS;
}

SEC("tc") int mark(struct __sk_buff *context)
{
	context->mark += 1;
	context->cb[1] = context->cb[0];
	return TC_ACT_OK;
}

SEC("raw_tp/sys_enter") int arguments(struct bpf_raw_tracepoint_args *context)
{
	return context->args[1] == 42;
}

static long spin(__u32 index, void *unused)
{
	return 0;
}

SEC("xdp") int long_loop(struct xdp_md *context)
{
	for (int i = 0; i < 8; i++)
		bpf_loop(1 << 18, spin, 0, 0);
	return XDP_PASS;
}

SEC("xdp") int unsafe_read(struct xdp_md *context)
{
	return *(__u8 *)(long)context->data;
}

SEC("kprobe/do_nothing") int signal(struct pt_regs *context)
{
	bpf_send_signal(9);
	return bpf_override_return(context, 1), 0;
}

char _license[] SEC("license") = "GPL";
