/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bpf_xdp_adjust_head, _tail and _meta by amounts from the packet, to every edge of the frame. */
#include "helpers.h"

char _license[] SEC("license") = "Dual MIT/GPL";

SEC("xdp") int resize(struct xdp_md *context)
{
	u8 *data = (u8 *)(long)context->data, *end = (u8 *)(long)context->data_end;
	s32 head, tail, meta;
	u8 bytes[8] = {};

	result(context->data_end - context->data);
	if (data + 50 > end)
		return XDP_ABORTED;
	head = (s32)*(u16 *)(data + 40) % 300 - 200;
	tail = (s32)*(u16 *)(data + 42) % 5000 - 1000;
	meta = (s32)*(u16 *)(data + 44) % 300 - 260;
	result(bpf_xdp_adjust_meta(context, meta));
	result(bpf_xdp_adjust_meta(context, meta & ~3));
	result(bpf_xdp_adjust_head(context, head));
	result(context->data_end - context->data);
	result(bpf_xdp_adjust_tail(context, tail));
	result(bpf_xdp_adjust_head(context, tail));
	result(bpf_xdp_adjust_meta(context, 4));
	result(context->data_end - context->data_meta);
	result(bpf_xdp_get_buff_len(context));
	result(bpf_xdp_load_bytes(context, head & 0xff, bytes, sizeof(bytes)));
	result(*(u64 *)bytes);
	result(bpf_xdp_store_bytes(context, (tail & 0xff) + 2, bytes, sizeof(bytes)));
	result(bpf_xdp_adjust_head(context, -216 + (meta & 3)));
	data = (u8 *)(long)context->data;
	end = (u8 *)(long)context->data_end;
	if (data + 1 <= end)
		data[0] = 0x5a;
	return XDP_PASS;
}
