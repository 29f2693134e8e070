/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Loops that hold what landing pads must release. A run ends by itself after `rounds` rounds of each loop and returns 7;
 * tests cancel it at each point. Everything here also runs to its end, so that a leak would show in later runs.
 */
#include <kiln/heap.h>

struct bpf_res_spin_lock {
	__u32 val;
};

/* struct bpf_iter_num, which older headers lack. */
struct numbers {
	__u64 opaque[1];
} __attribute__((aligned(8)));
extern int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __ksym;
extern void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __ksym;
extern int bpf_res_spin_lock_irqsave(struct bpf_res_spin_lock *lock, unsigned long *flags) __ksym;
extern void bpf_res_spin_unlock_irqrestore(struct bpf_res_spin_lock *lock, unsigned long *flags) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern void bpf_preempt_disable(void) __ksym;
extern void bpf_preempt_enable(void) __ksym;
extern void bpf_local_irq_save(unsigned long *flags) __ksym;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym;
extern int bpf_iter_num_new(struct numbers *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct numbers *it) __ksym;
extern void bpf_iter_num_destroy(struct numbers *it) __ksym;

struct spin_value {
	struct bpf_spin_lock lock;
	__u32 padding;
	__u64 count;
};

struct resilient_value {
	struct bpf_res_spin_lock lock;
	__u32 padding;
	__u64 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct spin_value);
} spins SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct resilient_value);
} resilients SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

kiln_heap(1 << 20);

/* The next links of a ring of nodes in the heap: walking it ends after `rounds` steps. */
struct node {
	struct node *next;
	__u64 value;
};
struct node *head;
__u64 rounds;
struct bpf_sock_tuple tuple;

enum { ENDED = 7, FAILED = 8 };

/* A loop that the verifier cannot follow to its end. */
#define WALK(sum)                                                                                  \
	do {                                                                                       \
		struct node *node = head;                                                          \
                                                                                                   \
		for (__u64 left = rounds; node && left; left--) {                                  \
			sum += node->value;                                                        \
			node = node->next;                                                         \
		}                                                                                  \
	} while (0)

KILN_FUNCTION __u64 walk_in_callee(__u64 sum)
{
	WALK(sum);
	return sum;
}

static __always_inline struct bpf_sock *look_up(void *ctx)
{
	struct bpf_sock_tuple own = {};

	own.ipv4 = tuple.ipv4;
	return bpf_sk_lookup_tcp(ctx, &own, sizeof(own.ipv4), BPF_F_CURRENT_NETNS, 0);
}

SEC("tc")
int socket(struct __sk_buff *ctx)
{
	struct bpf_sock *sk = look_up(ctx);
	__u64 sum = 0;

	if (!sk)
		return FAILED;
	WALK(sum);
	sum += sk->family;
	bpf_sk_release(sk);
	return sum == ~0ull ? FAILED : ENDED;
}

SEC("tc")
int socket_in_caller(struct __sk_buff *ctx)
{
	struct bpf_sock *sk = look_up(ctx);
	__u64 sum;

	if (!sk)
		return FAILED;
	sum = walk_in_callee(3) + sk->family;
	bpf_sk_release(sk);
	return sum == ~0ull ? FAILED : ENDED;
}

SEC("tc")
int record(struct __sk_buff *ctx)
{
	__u64 *record = bpf_ringbuf_reserve(&events, 512, 0), sum = 0;

	if (!record)
		return FAILED;
	WALK(sum);
	*record = sum;
	bpf_ringbuf_discard(record, 0);
	return ENDED;
}

SEC("tc")
int dynptr(struct __sk_buff *ctx)
{
	struct bpf_dynptr dynptr;
	__u64 sum = 0;

	if (bpf_ringbuf_reserve_dynptr(&events, 512, 0, &dynptr)) {
		bpf_ringbuf_discard_dynptr(&dynptr, 0);
		return FAILED;
	}
	WALK(sum);
	bpf_dynptr_write(&dynptr, 0, &sum, sizeof(sum), 0);
	bpf_ringbuf_discard_dynptr(&dynptr, 0);
	return ENDED;
}

SEC("tc")
int iterator(struct __sk_buff *ctx)
{
	struct numbers it;
	__u64 sum = 0;

	bpf_iter_num_new(&it, 0, 3);
	while (bpf_iter_num_next(&it))
		WALK(sum);
	bpf_iter_num_destroy(&it);
	return sum == ~0ull ? FAILED : ENDED;
}

SEC("tc")
int spin_lock(struct __sk_buff *ctx)
{
	__u32 key = 0;
	struct spin_value *value = bpf_map_lookup_elem(&spins, &key);
	__u64 sum = 0;

	if (!value)
		return FAILED;
	bpf_spin_lock(&value->lock);
	WALK(sum);
	value->count += sum;
	bpf_spin_unlock(&value->lock);
	return ENDED;
}

SEC("tc")
int resilient_locks(struct __sk_buff *ctx)
{
	__u32 key = 0;
	struct resilient_value *first = bpf_map_lookup_elem(&resilients, &key), *second;
	__u64 sum = 0;

	key = 1;
	second = bpf_map_lookup_elem(&resilients, &key);
	if (!first || !second)
		return FAILED;
	if (bpf_res_spin_lock(&first->lock))
		return FAILED;
	if (bpf_res_spin_lock(&second->lock)) {
		bpf_res_spin_unlock(&first->lock);
		return FAILED;
	}
	WALK(sum);
	first->count += sum;
	bpf_res_spin_unlock(&second->lock);
	bpf_res_spin_unlock(&first->lock);
	return ENDED;
}

SEC("tc")
int resilient_lock_irqsave(struct __sk_buff *ctx)
{
	__u32 key = 0;
	struct resilient_value *value = bpf_map_lookup_elem(&resilients, &key);
	unsigned long flags;
	__u64 sum = 0;

	if (!value || bpf_res_spin_lock_irqsave(&value->lock, &flags))
		return FAILED;
	WALK(sum);
	value->count += sum;
	bpf_res_spin_unlock_irqrestore(&value->lock, &flags);
	return ENDED;
}

SEC("tc")
int rcu(struct __sk_buff *ctx)
{
	__u64 sum = 0;

	bpf_rcu_read_lock();
	WALK(sum);
	bpf_rcu_read_unlock();
	return sum == ~0ull ? FAILED : ENDED;
}

SEC("tc")
int preemption(struct __sk_buff *ctx)
{
	__u64 sum = 0;

	bpf_preempt_disable();
	bpf_preempt_disable();
	WALK(sum);
	bpf_preempt_enable();
	bpf_preempt_enable();
	return sum == ~0ull ? FAILED : ENDED;
}

SEC("tc")
int interrupts(struct __sk_buff *ctx)
{
	unsigned long flags;
	__u64 sum = 0;

	bpf_local_irq_save(&flags);
	WALK(sum);
	bpf_local_irq_restore(&flags);
	return sum == ~0ull ? FAILED : ENDED;
}

/* Everything at once, with a loop after each step, and one in a callee. */
SEC("tc")
int several(struct __sk_buff *ctx)
{
	__u32 key = 0;
	struct resilient_value *value = bpf_map_lookup_elem(&resilients, &key);
	struct bpf_sock *sk;
	__u64 *record, sum = 0;
	int result = FAILED;

	if (!value)
		return FAILED;
	sk = look_up(ctx);
	if (!sk)
		return FAILED;
	WALK(sum);
	record = bpf_ringbuf_reserve(&events, 512, 0);
	if (record) {
		WALK(sum);
		bpf_rcu_read_lock();
		WALK(sum);
		bpf_preempt_disable();
		sum += walk_in_callee(1);
		if (!bpf_res_spin_lock(&value->lock)) {
			WALK(sum);
			sum += walk_in_callee(2);
			value->count += sum;
			result = ENDED;
			bpf_res_spin_unlock(&value->lock);
		}
		bpf_preempt_enable();
		WALK(sum);
		bpf_rcu_read_unlock();
		WALK(sum);
		*record = sum;
		bpf_ringbuf_discard(record, 0);
	}
	WALK(sum);
	bpf_sk_release(sk);
	return result;
}

char LICENSE[] SEC("license") = "GPL";
