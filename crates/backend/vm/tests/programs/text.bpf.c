/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Formatting and parsing of text, from the packet's bytes. */
#include "helpers.h"

char _license[] SEC("license") = "Dual BSD/GPL";

char text[96];
const char alphabet[64] = "0123456789abcdefx -+0x00  7f9\t8ZX-12ffFF09x0 19a-0000x7777777777";

#define PRINT(format, ...)                                                                                            \
	do {                                                                                                          \
		static const char fmt[] = format;                                                                     \
		u64 values[] = { __VA_ARGS__ };                                                                       \
		long length = bpf_snprintf(text, sizeof(text), fmt, values, sizeof(values));                          \
		result(length);                                                                                       \
		for (u32 at = 0; at < sizeof(text); at++)                                                             \
			sum = sum * 131 + text[at];                                                                   \
		result(sum);                                                                                          \
	} while (0)

SEC("xdp") int text_helpers(struct xdp_md *context)
{
	u8 *data = (u8 *)(long)context->data;
	char word[24] = {};
	u64 sum = 0, one, two, unsigned_number = 1;
	s64 number = 1;
	long base;

	if (data + 64 > (u8 *)(long)context->data_end)
		return XDP_ABORTED;
	one = *(u64 *)(data + 40);
	two = *(u64 *)(data + 48) >> (data[60] % 64);
	PRINT("%d %u %x %X", one, one, one, two);
	PRINT("%lld|%llu|%llx", two, two, one);
	PRINT("%08x %-8d| %8d %+d % d", one, two, two, two, two);
	PRINT("%c%% %5u %02x%ld %li", (one & 0x3f) + 0x20, two, one, one, two);
	PRINT("%s|%pI4 %pi4", (u64)(long)alphabet, (u64)(long)alphabet, (u64)(long)alphabet);
	PRINT("%pI6 %s", (u64)(long)alphabet, 0);
	result(bpf_snprintf(text, one % 8, "%llu", &two, 8));
	result(text[0]);

	for (int at = 0; at < 23; at++)
		word[at] = alphabet[data[40 + at] % 64];
	base = (data[61] & 3) == 0 ? 10 : (data[61] & 3) == 1 ? 16 : (data[61] & 3) == 2 ? 0 : data[61] % 20;
	result(bpf_strtol(word, sizeof(word), base, &number));
	result(number);
	result(bpf_strtoul(word, (data[62] & 15) + 1, base, &unsigned_number));
	result(unsigned_number);
	result(bpf_strncmp(word, 3, "0x0"));
	result(bpf_strncmp(word, sizeof(word), "0"));
	return XDP_PASS;
}
