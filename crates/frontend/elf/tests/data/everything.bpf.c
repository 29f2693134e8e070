// SPDX-License-Identifier: Apache-2.0 OR MIT
// One of everything that an object can hold, for tests/constructs.rs.

typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name)))
#define __uint(name, val) int(*name)[val]
#define __ulong(name, val) enum { name##_value = val } name
#define __type(name, val) typeof(val) *name
#define __array(name, val) typeof(val) *name[]
#define __noinline __attribute__((noinline))
#define CORE __attribute__((preserve_access_index))

static void *(*const map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const tail_call)(void *ctx, void *map, u32 index) = (void *)12;
static long (*const for_each_map_elem)(void *map, void *callback, void *ctx, u64 flags) = (void *)164;

struct xdp_md {
	u32 data, data_end, data_meta, ingress_ifindex;
};

struct value {
	u64 packets;
	u32 last;
};

struct {
	__uint(type, 1);
	__uint(max_entries, 16);
	__uint(map_flags, 1);
	__type(key, u32);
	__type(value, struct value);
} counters SEC(".maps");

struct inner {
	__uint(type, 2);
	__uint(max_entries, 4);
	__uint(key_size, 4);
	__uint(value_size, 8);
} inner_map SEC(".maps");

struct {
	__uint(type, 12);
	__uint(max_entries, 3);
	__type(key, u32);
	__array(values, struct inner);
} outer SEC(".maps") = { .values = { [1] = &inner_map } };

struct {
	__uint(type, 30);
	__uint(max_entries, 8);
	__ulong(map_extra, 5);
	__uint(pinning, 1);
	__type(value, u32);
} bloom SEC(".maps");

int tail(struct xdp_md *ctx);

struct {
	__uint(type, 3);
	__uint(max_entries, 2);
	__uint(key_size, 4);
	__array(values, int(void *));
} jumps SEC(".maps") = { .values = { [1] = (void *)&tail } };

extern int CONFIG_HZ SEC(".kconfig") __attribute__((weak));
extern _Bool CONFIG_BPF_SYSCALL SEC(".kconfig") __attribute__((weak));
extern const void missing_symbol SEC(".ksyms") __attribute__((weak));
extern void missing_function(void) SEC(".ksyms") __attribute__((weak));

const volatile u32 limit = 7;
const volatile u32 step = 3;
u32 seen = 5;
u64 total;
static volatile u32 custom SEC(".data.custom") = 9;

struct task_struct {
	int pid;
	struct task_struct *parent;
} CORE;

static __noinline long callback(void *map, u32 *key, struct value *value, u64 *sum)
{
	*sum += value->packets;
	return 0;
}

static __noinline u32 local_function(u32 x)
{
	return x * limit + custom;
}

__noinline u32 global_function(u32 x)
{
	return local_function(x) + step;
}

__attribute__((weak)) __noinline u32 weak_function(u32 x)
{
	return x + 1;
}

SEC("xdp") int first(struct xdp_md *ctx)
{
	u32 key = 1;
	struct value *value = map_lookup_elem(&counters, &key);
	u64 sum = 0;

	if (value)
		value->packets++;
	for_each_map_elem(&counters, callback, &sum, 0);
	total += sum + global_function(seen) + weak_function(CONFIG_HZ) + CONFIG_BPF_SYSCALL;
	if (&missing_symbol)
		total++;
	if (missing_function)
		missing_function();
	tail_call(ctx, &jumps, 1);
	return map_lookup_elem(&outer, &key) ? 2 : 1;
}

SEC("xdp") int tail(struct xdp_md *ctx)
{
	u32 key = 0;

	return map_lookup_elem(&counters, &key) ? local_function(2) & 1 : 2;
}

SEC("?raw_tracepoint/sched_switch") int optional(struct { struct task_struct *prev; } *ctx)
{
	struct task_struct *task = ctx->prev;

	u32 size = __builtin_preserve_field_info(task->parent, 2), offset = __builtin_preserve_field_info(task->pid, 0);

	asm volatile("" ::: "memory");
	return size + offset + __builtin_preserve_field_info(task->pid, 0);
}

SEC("license") char license_text[] = "GPL";
SEC("version") u32 version_code = 0x60102;
