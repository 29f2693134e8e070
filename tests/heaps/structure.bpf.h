/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program that carries out the order in a packet on one structure. */
#define STRUCTURE(name)                                                                            \
	struct kiln_##name *all_##name;                                                            \
	SEC("xdp")                                                                                 \
	int name(struct xdp_md *ctx)                                                               \
	{                                                                                          \
		void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;          \
		struct order order;                                                                \
                                                                                                   \
		if (data + sizeof(order) > end)                                                    \
			return XDP_ABORTED;                                                        \
		order = *(struct order *)data;                                                     \
		if (!all_##name && !(all_##name = create_##name()))                                \
			return XDP_DROP;                                                           \
		order.result = order.found = 0;                                                    \
		perform_##name(all_##name, &order);                                                \
		data = (void *)(long)ctx->data;                                                    \
		end = (void *)(long)ctx->data_end;                                                 \
		if (data + sizeof(order) > end)                                                    \
			return XDP_ABORTED;                                                        \
		*(struct order *)data = order;                                                     \
		return XDP_PASS;                                                                   \
	}
