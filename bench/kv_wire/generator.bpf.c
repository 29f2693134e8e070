/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests that are made in the kernel, and answers that are counted there: `generate` writes one over a frame and sends it out of the
 * interface, `count` at the same interface drops the answers. `pass` is for clients with sockets: a veth drops what a program at its
 * other end sends back unless it has a program, too.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "generator.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct shared);
	__uint(max_entries, 1);
} shared_memory SEC(".maps");

static __always_inline struct shared *shared(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shared_memory, &zero);
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	void *packet = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct shared *own = shared();

	if (!own || packet + HEAD_BYTES > end)
		return XDP_ABORTED;
	/* A frame comes back with the answer in it. */
	for (int word = 0; word < HEAD_BYTES / 8; word++)
		((__u64 *)packet)[word] = own->head[word];
	*(__u64 *)(packet + KEY_AT) = own->keys[own->next++ & (SAMPLES - 1)];
	return XDP_TX;
}

SEC("xdp")
int count(struct xdp_md *ctx)
{
	void *packet = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct shared *own = shared();

	if (!own || packet + TEXT_AT + 5 > end || *(__u16 *)(packet + 12) != bpf_htons(0x0800) || *(__u8 *)(packet + 23) != 17)
		return XDP_PASS;
	/* "VALUE" or "STORED" */
	if (*(__u8 *)(packet + TEXT_AT) == (own->is_set ? 'S' : 'V') && *(__u8 *)(packet + TEXT_AT + 1) == (own->is_set ? 'T' : 'A'))
		own->answers++;
	else
		own->wrong++;
	return XDP_DROP;
}

SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
