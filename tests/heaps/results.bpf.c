/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Loops in functions of which the kernel takes certain results only: what a landing pad returns is one of them. */
#include <kiln/heap.h>

kiln_heap(1 << 20);

struct node {
	struct node *next;
	__u64 value;
};
struct node *head;
__u64 sum;

struct timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct timer);
} timers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_USER_RINGBUF);
	__uint(max_entries, 4096);
} requests SEC(".maps");

#define WALK() for (struct node *node = head; node; node = node->next) sum += node->value

static int rings(void *map, __u32 *key, struct timer *timer)
{
	WALK();
	return 0;
}

static long visit(void *map, __u32 *key, struct timer *timer, void *data)
{
	WALK();
	return 0;
}

static long drain(struct bpf_dynptr *record, void *data)
{
	WALK();
	return 0;
}

SEC("tc") int timer(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct timer *found = bpf_map_lookup_elem(&timers, &zero);

	if (!found)
		return 0;
	bpf_timer_init(&found->timer, &timers, 1);
	bpf_timer_set_callback(&found->timer, rings);
	bpf_timer_start(&found->timer, 0, 0);
	return 0;
}

SEC("tc") int elements(struct __sk_buff *skb)
{
	bpf_for_each_map_elem(&timers, visit, 0, 0);
	return 0;
}

SEC("tc") int requested(struct __sk_buff *skb)
{
	bpf_user_ringbuf_drain(&requests, drain, 0, 0);
	return 0;
}

/* Hooks that take certain results. */
#define HOOK(name, section, context)                                                               \
	SEC(section) int name(struct context *ctx)                                                 \
	{                                                                                          \
		WALK();                                                                            \
		return 1;                                                                          \
	}
HOOK(ingress, "cgroup_skb/ingress", __sk_buff)
HOOK(egress, "cgroup_skb/egress", __sk_buff)
HOOK(bind4, "cgroup/bind4", bpf_sock_addr)
HOOK(connect6, "cgroup/connect6", bpf_sock_addr)
HOOK(recvmsg4, "cgroup/recvmsg4", bpf_sock_addr)
HOOK(peername, "cgroup/getpeername4", bpf_sock_addr)
HOOK(created, "cgroup/sock_create", bpf_sock)
HOOK(device, "cgroup/dev", bpf_cgroup_dev_ctx)
HOOK(sysctl, "cgroup/sysctl", bpf_sysctl)
HOOK(getsockopt, "cgroup/getsockopt", bpf_sockopt)
HOOK(operations, "sockops", bpf_sock_ops)
HOOK(lookup, "sk_lookup", bpf_sk_lookup)

/* Tracing: 0 only, where the kernel asks for it. */
SEC("tp_btf/sched_switch") int switched(__u64 *ctx)
{
	WALK();
	return 0;
}

SEC("raw_tp/sched_switch") int raw(__u64 *ctx)
{
	WALK();
	return 0;
}

SEC("tracepoint/sched/sched_switch") int classic(__u64 *ctx)
{
	WALK();
	return 0;
}

SEC("lsm/file_open") int opened(__u64 *ctx)
{
	WALK();
	return 0;
}

SEC("lsm_cgroup/socket_bind") int bound(__u64 *ctx)
{
	WALK();
	return 1;
}

SEC("iter/task") int tasks(__u64 *ctx)
{
	WALK();
	return 0;
}

SEC("fentry/bpf_fentry_test1") int entered(__u64 *ctx)
{
	WALK();
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
