// SPDX-License-Identifier: GPL-2.0
/* Times machine code that a kernel of the test machine emitted, on this
 * processor (x86-64): a prediction, as the rest of a program is not there.
 * Reads lines "NAME FORM PROOF NATIVE", the codes in hexadecimal, and prints
 * nanoseconds of each. Registers and stack are as the kernel's JIT has them.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define COPIES 64	/* of the code in a loop */
#define LOOPS 1000
#define ROUNDS 51	/* both codes in turn; the least counts, as the machine may be busy */

typedef void code_fn(uint64_t loops, void *stack, const uint64_t *registers);

static const uint8_t enter[] = {
	0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57,	/* push rbx, rbp, r12 to r15 */
	0x49, 0x89, 0xfc,		/* mov r12, rdi: the loops */
	0x48, 0x89, 0xf5,		/* mov rbp, rsi: R10 */
	0x48, 0x8b, 0x02,		/* mov rax, [rdx]: R0, and so on; R3 is rdx */
	0x48, 0x8b, 0x7a, 0x08, 0x48, 0x8b, 0x72, 0x10, 0x48, 0x8b, 0x4a, 0x20, 0x4c, 0x8b, 0x42, 0x28,
	0x48, 0x8b, 0x5a, 0x30, 0x4c, 0x8b, 0x6a, 0x38, 0x4c, 0x8b, 0x72, 0x40, 0x4c, 0x8b, 0x7a, 0x48,
	0x48, 0x8b, 0x52, 0x18,
};
static const uint8_t leave[] = {
	0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3,
};

static int bytes(const char *hex, uint8_t *code)
{
	int size = 0;

	while (size < 256 && sscanf(hex + 2 * size, "%2hhx", &code[size]) == 1)
		size++;
	return size;
}

/* Writes a function that runs the code in a loop. */
static code_fn *looped(const char *hex, uint8_t *at)
{
	uint8_t *begin = at, *loop, code[256];
	int i, size = bytes(hex, code);
	int32_t back;

	at = mempcpy(at, enter, sizeof(enter));
	loop = at;
	for (i = 0; i < COPIES; i++)
		at = mempcpy(at, code, size);
	at = mempcpy(at, "\x49\xff\xcc\x0f\x85", 5);	/* dec r12; jnz loop */
	back = loop - (at + 4);
	at = mempcpy(at, &back, 4);
	memcpy(at, leave, sizeof(leave));
	return (code_fn *)begin;
}

static double timed(code_fn *run)
{
	static uint8_t stack[1024] __attribute__((aligned(64)));
	static const uint64_t registers[10] = {
		0x9e3779b97f4a7c15, 2, 0x8000, 40, 0xffffffff, 5, 0x123456789abcdef, 7, 0x80000000, 9,
	};
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	run(LOOPS, stack + 512, registers);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec)) / LOOPS / COPIES;
}

int main(void)
{
	uint8_t *room = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[64], proof[513], native[513];
	double logarithms = 0;
	int form, rows = 0, slower = 0;

	if (room == MAP_FAILED)
		return 1;
	while (scanf("%63s %d %512s %512s", name, &form, proof, native) == 4) {
		double least[2] = { 1e18, 1e18 };
		code_fn *codes[] = { looped(proof, room), looped(native, room + 32768) };
		int i;

		for (i = 0; i < 2 * ROUNDS; i++) {
			double took = timed(codes[i & 1]);

			least[i & 1] = fmin(least[i & 1], took);
		}
		printf("%-28s %4d %6.2f ns %6.2f ns  %.2f\n", name, form, least[0], least[1], least[0] / least[1]);
		logarithms += log(least[0] / least[1]);
		slower += least[1] > 1.05 * least[0];
		rows++;
	}
	printf("%d forms: native code is %.2f times as fast (geomean); %d are slower by more than 5 %%\n", rows,
	       exp(logarithms / rows), slower);
	return 0;
}
