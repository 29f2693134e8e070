/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Dynptrs over memory, records and packets, and iterators over bits, with offsets and sizes from the packet. */
#include "helpers.h"

char _license[] SEC("license") = "Dual BSD/GPL";

struct bits {
	u64 opaque[2];
} __attribute__((aligned(8)));

extern int bpf_dynptr_from_skb(struct __sk_buff *skb, u64 flags, struct bpf_dynptr *to) __ksym;
extern int bpf_dynptr_from_skb_meta(struct __sk_buff *skb, u64 flags, struct bpf_dynptr *to) __ksym;
extern int bpf_dynptr_from_xdp(struct xdp_md *xdp, u64 flags, struct bpf_dynptr *to) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *from, u32 offset, void *buffer, u32 buffer__szk) __ksym;
extern void *bpf_dynptr_slice_rdwr(const struct bpf_dynptr *from, u32 offset, void *buffer, u32 buffer__szk) __ksym;
extern int bpf_dynptr_adjust(const struct bpf_dynptr *dynptr, u32 start, u32 end) __ksym;
extern _Bool bpf_dynptr_is_null(const struct bpf_dynptr *dynptr) __ksym;
extern _Bool bpf_dynptr_is_rdonly(const struct bpf_dynptr *dynptr) __ksym;
extern u32 bpf_dynptr_size(const struct bpf_dynptr *dynptr) __ksym;
extern int bpf_dynptr_clone(const struct bpf_dynptr *from, struct bpf_dynptr *to) __ksym;
extern int bpf_dynptr_copy(struct bpf_dynptr *to, u32 to_offset, struct bpf_dynptr *from, u32 from_offset,
			   u32 bytes) __ksym;
extern int bpf_dynptr_memset(struct bpf_dynptr *to, u32 offset, u32 bytes, u8 value) __ksym;
extern int bpf_iter_bits_new(struct bits *it, const u64 *words, u32 count) __ksym;
extern int *bpf_iter_bits_next(struct bits *it) __ksym;
extern void bpf_iter_bits_destroy(struct bits *it) __ksym;

#define BYTES 600

struct value {
	u8 bytes[BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct value);
} values SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

/* Offsets and sizes, most of them near what a dynptr holds. */
struct arguments {
	u16 a, b, c, d;
	u8 e, f, g, h;
};

static inline void describe(const struct bpf_dynptr *dynptr)
{
	result((u32)bpf_dynptr_size(dynptr));
	result(bpf_dynptr_is_null(dynptr));
	result(bpf_dynptr_is_rdonly(dynptr));
}

/* Everything that does not depend on where the bytes are. */
static inline void use(struct bpf_dynptr *dynptr, struct arguments *given)
{
	struct bpf_dynptr clone;
	u64 word = 0, buffer = 0x1122334455667788, *slice;

	describe(dynptr);
	result(bpf_dynptr_read(&word, sizeof(word), dynptr, given->a % 700, given->f % 4 == 3));
	result(word);
	result(bpf_dynptr_write(dynptr, given->b % 700, given, sizeof(*given), given->g % 8 == 7 ? given->h : 0));
	result(bpf_dynptr_read(&word, given->e & 7, dynptr, given->b % 700, 0));
	result(word);
	slice = bpf_dynptr_slice(dynptr, given->c % 700, &buffer, sizeof(buffer));
	result(slice ? *slice : 0xdead);
	slice = bpf_dynptr_slice(dynptr, given->d % 700, 0, sizeof(buffer));
	result(slice ? *slice : 0xdead);
	result((s32)bpf_dynptr_memset(dynptr, given->d % 700, given->a % 400, given->e));
	result((s32)bpf_dynptr_clone(dynptr, &clone));
	describe(&clone);
	result((s32)bpf_dynptr_adjust(&clone, given->c % 300, given->d % 700));
	describe(&clone);
	result(bpf_dynptr_read(&word, sizeof(word), &clone, given->e, 0));
	result(word);
	result((s32)bpf_dynptr_copy(&clone, given->f, dynptr, given->g, given->b % 400));
	result((s32)bpf_dynptr_adjust(&clone, given->e, given->f));
	describe(&clone);
	result((s32)bpf_dynptr_memset(&clone, 0, given->h, given->g));
}

/* The same, and writes through addresses. */
static inline void use_in_place(struct bpf_dynptr *dynptr, struct arguments *given)
{
	u64 buffer = 0x1122334455667788, *slice;
	u32 *data;

	use(dynptr, given);
	slice = bpf_dynptr_slice_rdwr(dynptr, given->d % 700, &buffer, sizeof(buffer));
	if (slice)
		*slice += given->h;
	result(slice ? *slice : 0xdead);
	result(buffer);
	data = bpf_dynptr_data(dynptr, given->e, sizeof(*data));
	if (data)
		*data += given->g;
	result(data ? *data : 0xdead);
}

static inline struct value *value(u32 key)
{
	return bpf_map_lookup_elem(&values, &key);
}

static inline int arguments(struct xdp_md *context, struct arguments *given)
{
	u64 length = bpf_xdp_get_buff_len(context);

	return bpf_xdp_load_bytes(context, length >= 40 ? length - 20 : 0, given, sizeof(*given));
}

/* Not inlined: the verifier would follow every combination of what the parts found. */
static __attribute__((noinline)) int memory(struct arguments *given)
{
	struct bpf_dynptr one, other;
	struct value *first = value(0), *second = value(1);
	u32 bytes = given->c & 511;

	if (!first || !second)
		return 1;
	result(bpf_dynptr_from_mem(first, bytes, given->h == 7, &one));
	result(bpf_dynptr_from_mem(second, BYTES, 0, &other));
	use_in_place(&one, given);
	result((s32)bpf_dynptr_copy(&other, given->e, &one, given->f, given->a % 700));
	result((s32)bpf_dynptr_copy(&one, given->a % 700, &other, given->b % 700, given->d % 300));
	return 0;
}

SEC("xdp") int of_memory(struct xdp_md *context)
{
	struct arguments given = {};

	result(arguments(context, &given));
	return memory(&given) ? XDP_ABORTED : XDP_PASS;
}

SEC("xdp") int of_records(struct xdp_md *context)
{
	struct arguments given = {};
	struct bpf_dynptr record;

	result(arguments(context, &given));
	result(bpf_ringbuf_reserve_dynptr(&ring, given.h == 3 ? 1 << 24 : given.a % 6000, given.g == 9, &record));
	bpf_dynptr_memset(&record, 0, bpf_dynptr_size(&record), 0);
	use_in_place(&record, &given);
	if (given.e & 1)
		bpf_ringbuf_submit_dynptr(&record, 0);
	else
		bpf_ringbuf_discard_dynptr(&record, 0);
	result(bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA));
	result(bpf_ringbuf_query(&ring, BPF_RB_PROD_POS));
	return XDP_PASS;
}

SEC("xdp") int of_frames(struct xdp_md *context)
{
	struct arguments given = {};
	struct bpf_dynptr frame, other;
	struct value *memory = value(0);

	if (!memory)
		return XDP_ABORTED;
	result(arguments(context, &given));
	result((s32)bpf_dynptr_from_xdp(context, given.h == 5, &frame));
	use_in_place(&frame, &given);
	bpf_dynptr_from_mem(memory, BYTES, 0, &other);
	result((s32)bpf_dynptr_copy(&other, given.e, &frame, given.f, given.g));
	result((s32)bpf_dynptr_copy(&frame, given.a % 200, &other, given.b % 200, given.g));
	/* The dynptr keeps its size. */
	result(bpf_xdp_adjust_tail(context, -(given.c % 200)));
	result(bpf_xdp_adjust_head(context, given.d % 30));
	use_in_place(&frame, &given);
	result((s32)bpf_dynptr_copy(&other, given.e, &frame, given.f, given.a % 500));
	result((s32)bpf_dynptr_copy(&frame, given.a % 200, &other, given.b % 200, given.g));
	result((s32)bpf_dynptr_copy(&frame, given.a % 300, &frame, given.b % 300, given.d % 600));
	return XDP_PASS;
}

static inline int buffer_arguments(struct __sk_buff *skb, struct arguments *given)
{
	return bpf_skb_load_bytes(skb, skb->len >= 40 ? skb->len - 20 : 0, given, sizeof(*given));
}

SEC("tc") int of_buffers(struct __sk_buff *skb)
{
	struct arguments given = {};
	struct bpf_dynptr bytes, other;
	struct value *memory = value(0);
	u64 word = 0, *slice;

	if (!memory)
		return TC_ACT_SHOT;
	result(buffer_arguments(skb, &given));
	result((s32)bpf_dynptr_from_skb(skb, given.h == 5, &bytes));
	use_in_place(&bytes, &given);
	bpf_dynptr_from_mem(memory, BYTES, 0, &other);
	result((s32)bpf_dynptr_copy(&other, given.e, &bytes, given.f, given.g));
	result((s32)bpf_dynptr_copy(&bytes, given.a % 200, &other, given.b % 200, given.g));
	/* The dynptr keeps its size. Without a buffer, Linux 6.18 gives addresses behind the end now, and the VM none. */
	result(bpf_skb_change_tail(skb, skb->len - given.c % 40, 0));
	describe(&bytes);
	result(bpf_dynptr_read(&word, sizeof(word), &bytes, given.e, 0));
	result(word);
	result(bpf_dynptr_write(&bytes, given.f, &given, sizeof(given), given.g % 8 == 7 ? given.h : 0));
	slice = bpf_dynptr_slice_rdwr(&bytes, given.g, &word, sizeof(word));
	if (slice)
		*slice += given.h;
	result(slice ? *slice : 0xdead);
	result((s32)bpf_dynptr_from_skb_meta(skb, given.h == 6, &bytes));
	use_in_place(&bytes, &given);
	return TC_ACT_OK;
}

/* Of programs that may not write to packets. */
SEC("cgroup_skb/egress") int read_only(struct __sk_buff *skb)
{
	struct arguments given = {};
	struct bpf_dynptr bytes, other;
	struct value *memory = value(0);

	if (!memory)
		return 0;
	result(buffer_arguments(skb, &given));
	result((s32)bpf_dynptr_from_skb(skb, given.h == 5, &bytes));
	use(&bytes, &given);
	bpf_dynptr_from_mem(memory, BYTES, 0, &other);
	result((s32)bpf_dynptr_copy(&other, given.e, &bytes, given.f, given.g));
	result((s32)bpf_dynptr_copy(&bytes, given.a % 200, &other, given.b % 200, given.g));
	result((s32)bpf_dynptr_copy(&bytes, given.a % 200, &bytes, given.b % 200, given.g));
	return 1;
}

SEC("socket") int filter(struct __sk_buff *skb)
{
	struct arguments given = {};
	struct bpf_dynptr bytes;

	result(buffer_arguments(skb, &given));
	result((s32)bpf_dynptr_from_skb(skb, 0, &bytes));
	use(&bytes, &given);
	return 1;
}

static __attribute__((noinline)) void iterate(const u64 *words, u32 count)
{
	struct bits it;
	int *bit;

	result((s32)bpf_iter_bits_new(&it, words, count));
	while ((bit = bpf_iter_bits_next(&it)))
		result(*bit);
	result(!bpf_iter_bits_next(&it));
	bpf_iter_bits_destroy(&it);
}

SEC("xdp") int bits(struct xdp_md *context)
{
	struct arguments given = {};
	struct value *first = value(0);
	struct bpf_dynptr memory;
	u64 words[3] = { 0, 0, 0 };

	if (!first)
		return XDP_ABORTED;
	result(arguments(context, &given));
	bpf_dynptr_from_mem(first, BYTES, 0, &memory);
	bpf_dynptr_memset(&memory, 0, BYTES, 0);
	bpf_dynptr_write(&memory, given.a % 500, &given, sizeof(given), 0);
	words[0] = given.e & 1 ? given.a : 0;
	words[1] = given.e & 2 ? (u64)given.b << (given.g & 63) : 0;
	words[2] = given.e & 4 ? (u64)given.c << (given.f & 63) : 0;
	iterate(words, 1);
	iterate(words, 3);
	iterate(words, 0);
	iterate(0, 1);
	iterate((u64 *)first, given.h % 4 == 3 ? 512 : given.c % 76);
	return XDP_PASS;
}
