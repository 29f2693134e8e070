// Walks frames that the map links. The work of a turn is explored before its end, so that branches of all turns wait.
// repair: v3 repaired-proved
#include "value.h"

SEC("xdp")
int frames(struct xdp_md *ctx)
{
	__u32 frame = 1, zero = 0;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 1500; i++) {
		if (frame) {
			struct value *value = bpf_map_lookup_elem(&values, &frame);

			if (!value) {
				value = bpf_map_lookup_elem(&values, &zero);
				if (!value)
					return XDP_ABORTED;
			}
			if (value->bytes[0] == 7)
				value->bytes[1]++;
			if (value->bytes[2] > 9)
				value->bytes[3]++;
			if (value->bytes[4] & 1)
				value->bytes[5]++;
			frame = value->bytes[6];
		}
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
