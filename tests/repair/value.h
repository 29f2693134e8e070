// What the programs of this folder share: a map of one value of 256 bytes.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct value {
	unsigned char bytes[256];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct value);
} values SEC(".maps");
