/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Blocks in an array: number n is its element n - 1. Included by kiln/pool/maps.h.
 *
 *	free blocks of this CPU -> spare blocks -> blocks never used before -> free blocks of other CPUs -> none
 *
 * A CPU's free blocks have a lock, because another CPU may take one, and because one program may interrupt another.
 */
#ifndef KILN_POOL_ARRAY_H
#define KILN_POOL_ARRAY_H

/* Free blocks that a CPU keeps; the others are spare. A power of two. */
#define KILN_POOL_CACHE 128u

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct kiln_pool_block);
	__uint(max_entries, KILN_POOL_COUNT);
} kiln_pool_blocks SEC(".maps");

struct kiln_pool_cpu {
	struct bpf_spin_lock lock;
	__u32 count;
	__u64 versions; /* how many this CPU has given out */
	__u32 free[KILN_POOL_CACHE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct kiln_pool_cpu);
	__uint(max_entries, KILN_POOL_CPUS);
} kiln_pool_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(value_size, sizeof(__u32));
	__uint(max_entries, KILN_POOL_COUNT);
} kiln_pool_spare SEC(".maps");

struct kiln_pool_fresh {
	struct bpf_spin_lock lock;
	__u32 used; /* how many blocks were ever used */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct kiln_pool_fresh);
	__uint(max_entries, 1);
} kiln_pool_fresh SEC(".maps");

/* Functions that the verifier looks at once, not once for each call: global ones, with numbers as arguments. */
#define KILN_POOL_GLOBAL __attribute__((noinline, weak))

static __always_inline struct kiln_pool_block *kiln_pool_block(__u32 number)
{
	__u32 index = number - 1;

	return bpf_map_lookup_elem(&kiln_pool_blocks, &index);
}

/* A free block, wherever there is one; 0 when there is none. */
KILN_POOL_GLOBAL __u32 kiln_pool_find_free(void)
{
	__u32 zero = 0, number = 0;
	struct kiln_pool_fresh *fresh;

	if (!bpf_map_pop_elem(&kiln_pool_spare, &number))
		return number;
	number = 0;
	fresh = bpf_map_lookup_elem(&kiln_pool_fresh, &zero);
	if (!fresh)
		return 0;
	bpf_spin_lock(&fresh->lock);
	if (fresh->used < KILN_POOL_COUNT)
		number = ++fresh->used;
	bpf_spin_unlock(&fresh->lock);
	for (__u32 at = 0; !number && at < KILN_POOL_CPUS; at++) {
		__u32 slot = at;
		struct kiln_pool_cpu *cpu = bpf_map_lookup_elem(&kiln_pool_cpus, &slot);

		if (!cpu)
			break;
		bpf_spin_lock(&cpu->lock);
		if (cpu->count)
			number = cpu->free[--cpu->count & (KILN_POOL_CACHE - 1)];
		bpf_spin_unlock(&cpu->lock);
	}
	return number;
}

static __always_inline struct kiln_pool_cpu *kiln_pool_this_cpu(__u32 *slot)
{
	*slot = bpf_get_smp_processor_id() & (KILN_POOL_CPUS - 1);
	return bpf_map_lookup_elem(&kiln_pool_cpus, slot);
}

KILN_POOL_GLOBAL int kiln_pool_give_block(__u32 number)
{
	__u32 slot, kept = 0;
	struct kiln_pool_cpu *cpu = kiln_pool_this_cpu(&slot);

	if (!cpu)
		return 0;
	bpf_spin_lock(&cpu->lock);
	if (cpu->count < KILN_POOL_CACHE) {
		cpu->free[cpu->count++ & (KILN_POOL_CACHE - 1)] = number;
		kept = 1;
	}
	bpf_spin_unlock(&cpu->lock);
	if (!kept)
		bpf_map_push_elem(&kiln_pool_spare, &number, 0);
	return 0;
}

/* Free blocks as the blocks `from` to `to` of a list; a version for its object, or 0: there are not enough. */
KILN_FUNCTION __u64 kiln_pool_take(struct kiln_pool_list *list, __u32 from, __u32 to)
{
	__u32 slot, kept;
	struct kiln_pool_cpu *cpu = kiln_pool_this_cpu(&slot);
	__u64 version, missing = 0;

	if (!cpu)
		return 0;
	bpf_spin_lock(&cpu->lock);
	version = ++cpu->versions << 10 | slot;
	kept = cpu->count;
#pragma unroll
	for (__u32 at = 0; at < KILN_POOL_LIST; at++) {
		/* Without branches: the verifier would follow each combination of them. */
		__u32 takes = kiln_pool_below(at, to) * (1 - kiln_pool_below(at, from)) * kiln_pool_below(0, kept);

		list->block[at] = cpu->free[(kept - 1) & (KILN_POOL_CACHE - 1)] * takes;
		kept -= takes;
	}
	cpu->count = kept;
	bpf_spin_unlock(&cpu->lock);
	for (__u32 at = 0; at < KILN_POOL_LIST; at++) {
		__u64 wanted = kiln_pool_below(at, to) * (1 - kiln_pool_below(at, from));
		__u32 number = kiln_pool_apart(list->block[at]);

		if (wanted > number) {
			number = kiln_pool_apart(kiln_pool_find_free());
			list->block[at] = number;
			missing += 1 - kiln_pool_below(0, number);
		}
	}
	if (missing) {
		kiln_pool_give(list);
		return 0;
	}
	return version;
}

KILN_FUNCTION int kiln_pool_fill_block(__u32 number, const void *from, const void *end)
{
	struct kiln_pool_block *block = kiln_pool_block(number);

	return block && kiln_pool_copy_chunk(block->words, from, from, end) ? 0 : -ENOSPC;
}

KILN_POOL_GLOBAL int kiln_pool_clear_block(__u32 number)
{
	struct kiln_pool_block *block = kiln_pool_block(number);

	if (!block)
		return -ENOMEM;
	kiln_pool_clear_from(block, 0);
	return 0;
}

/* Less than a block, and zeros after it. */
KILN_FUNCTION int kiln_pool_fill_rest(__u32 number, const void *from, const void *end, __u32 bytes)
{
	struct kiln_pool_block *block = kiln_pool_block(number);

	if (!block)
		return -ENOMEM;
	kiln_pool_clear_from(block, 0);
	return kiln_pool_copy_rest(block->words, from, from, end, bytes) ? 0 : -ENOSPC;
}

#endif
