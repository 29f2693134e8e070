/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What programs see of kernel functions: exceptions, resilient locks. The packet's first byte says what a program does. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct bpf_res_spin_lock {
	__u32 val;
};

extern int bpf_res_spin_lock(struct bpf_res_spin_lock *lock) __ksym;
extern void bpf_res_spin_unlock(struct bpf_res_spin_lock *lock) __ksym;
extern void bpf_throw(__u64 cookie) __ksym;

struct value {
	struct bpf_res_spin_lock lock;
	__u32 count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct value);
} values SEC(".maps");

__u64 handled;

static __attribute__((noinline)) int first_byte(struct __sk_buff *ctx)
{
	__u8 byte = 0;

	bpf_skb_load_bytes(ctx, 0, &byte, 1);
	return byte;
}

__attribute__((noinline)) int handler(__u64 cookie)
{
	handled++;
	return cookie * 2;
}

static __attribute__((noinline)) int check(int byte)
{
	if (byte > 3)
		bpf_throw(byte);
	return byte;
}

SEC("tc")
__attribute__((btf_decl_tag("exception_callback:handler")))
int handles(struct __sk_buff *ctx)
{
	return check(first_byte(ctx)) + 100;
}

SEC("tc")
int leaves(struct __sk_buff *ctx)
{
	return check(first_byte(ctx)) + 100;
}

/* Takes two locks, which may be the same: then the second is refused. */
SEC("tc")
int locks(struct __sk_buff *ctx)
{
	__u32 key = 0, other = first_byte(ctx) & 1;
	struct value *one = bpf_map_lookup_elem(&values, &key), *two = bpf_map_lookup_elem(&values, &other);
	int result;

	if (!one || !two)
		return -1;
	result = bpf_res_spin_lock(&one->lock);
	if (result)
		return result;
	result = bpf_res_spin_lock(&two->lock);
	if (!result) {
		two->count++;
		bpf_res_spin_unlock(&two->lock);
	}
	bpf_res_spin_unlock(&one->lock);
	return result;
}

char LICENSE[] SEC("license") = "GPL";
