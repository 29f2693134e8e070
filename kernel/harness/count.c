// SPDX-License-Identifier: GPL-2.0
/* Init of a machine whose clock counts instructions (qemu -icount shift=0): how
 * many each operation executes, and its bytes of machine code, as native code
 * and as its proof sequence. Both are net of the same program without either.
 */
#include "programs.h"

#define RUNS 1600	/* of a program; its cost is that of twice as many, less that of these. All states equally often */
#define TRIES 5		/* the least is without the timer's interrupt */
#define SAMPLES 50	/* some registers have no native code */
/* The hook, sched_cls: a test run of an XDP program waits for RCU. */
#define HOOK (&types[1])

#ifdef __aarch64__
static u64 ticks(void)
{
	u64 now;

	asm volatile("isb; mrs %0, cntvct_el0" : "=r"(now) :: "memory");
	return now;
}

static double nanoseconds(u64 count)
{
	u64 hertz;

	asm volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
	return count * 1e9 / hertz;
}

static void instructions(u64 count)
{
	asm volatile("1: subs %0, %0, #1; b.ne 1b" : "+r"(count) :: "cc");
}
#else
static u64 ticks(void)
{
	u32 low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high) :: "memory");
	return (u64)high << 32 | low;
}

static double nanoseconds(u64 count)
{
	return count;
}

static void instructions(u64 count)
{
	asm volatile("1: dec %0; jnz 1b" : "+r"(count) :: "cc");
}
#endif

/* Fails unless a nanosecond is an instruction. */
static void calibrate(void)
{
	double least = 1e18;
	int i;

	for (i = 0; i < TRIES; i++) {
		u64 from = ticks();

		instructions(100000);
		double counted = nanoseconds(ticks() - from);

		least = counted < least ? counted : least;
	}
	printf("200000 instructions: %.0f counted\n", least);
	if (least < 199900 || least > 200100)
		fail("this machine's clock does not count instructions");
}

/* The least time of @repeat runs. */
static double timed(int fd, const u8 *in, u32 repeat)
{
	double least = 1e18;
	int i;

	for (i = 0; i < TRIES; i++) {
		u64 from = ticks();
		double took;

		if (test_run(fd, HOOK, in, NULL, repeat))
			fail("a run: %s", strerror(errno));
		took = nanoseconds(ticks() - from);
		least = took < least ? took : least;
	}
	return least;
}

struct cost {
	double instructions;
	u32 bytes;
};

/* The instructions of a run, the mean of all states: sequences with branches depend on them. */
static struct cost cost(int fd, const u8 *packet)
{
	struct cost cost = { .instructions = (timed(fd, packet, 2 * RUNS) - timed(fd, packet, RUNS)) / RUNS };

	has_code(fd, NULL, 0, &cost.bytes);
	return cost;
}

/* Where native code begins in an image; 0 if it has none. Sets its size. */
static u32 find(const struct kiln_operation *op, const struct sample *s, const u8 *image, u32 jited, int *size)
{
	u8 code[64];
	int number;

	for (number = 0; number < CODES; number++) {
		const u8 *at;

		*size = code_of(op, &s->rec, number, code);
		at = *size ? memmem(image, jited, code, *size) : NULL;
		if (at)
			return at - image;
	}
	return 0;
}

static void print_code(const u8 *code, u32 size)
{
	printf(" ");
	while (size--)
		printf("%02x", *code++);
}

/* Prints the machine code of a proof sequence and of the native code, if it is
 * sure that they are at one place: the same code is behind both.
 */
static void codes(const struct kiln_operation *op, const struct sample *s, int with, int without, int saved)
{
	static u8 left[IMAGE], right[IMAGE];
	u32 at, jited = machine_code(with, left);
	int size;

	machine_code(without, right);
	at = find(op, s, left, jited, &size);
	if (memcmp(left + at + size, right + at + size + saved, 8)) {
		fail("%s: native code is not where the proof sequence is", op->name);
		return;
	}
	/* The JIT emits nothing for the proof sequence of a prefetch. */
	if (size + saved <= 0)
		return;
	printf("code %s %d", op->name, s->rec.form);
	print_code(right + at, size + saved);
	print_code(left + at, size);
	printf("\n");
}

static double sums[4];
static int rows;

/* One form of an operation; false if these operands have no native code. */
static bool count(const struct kiln_operation *op, struct sample *s)
{
	u8 packet[INPUT];
	struct cost with, without, empty;
	struct prog p, none;
	int fds[3], i;
	bool found;

	build(&p, HOOK, s->proof, s->len, s->live);
	build(&none, HOOK, s->proof, 0, s->live);
	s->rec.insn_off = p.region;
	fds[0] = load_with(&p, HOOK, &s->rec);
	fds[1] = load(&p, HOOK, NULL, 0, 0);
	fds[2] = load(&none, HOOK, NULL, 0, 0);
	if (fds[0] < 0 || fds[1] < 0 || fds[2] < 0)
		fail("%s: %s %s", op->name, strerror(errno), verifier_log);
	static u8 image[IMAGE];
	found = find(op, s, image, machine_code(fds[0], image), &i);
	if (found) {
		fill(packet, HOOK);
		with = cost(fds[0], packet);
		without = cost(fds[1], packet);
		empty = cost(fds[2], packet);
		double row[] = { without.instructions - empty.instructions, with.instructions - empty.instructions,
				 (double)without.bytes - empty.bytes, (double)with.bytes - empty.bytes };

		codes(op, s, fds[0], fds[1], (int)without.bytes - (int)with.bytes);
		printf("%-28s %4d %4d %8.1f %8.1f %6.0f %6.0f\n", op->name, s->rec.form, s->len, row[0], row[1], row[2],
		       row[3]);
		for (i = 0; i < 4; i++)
			sums[i] += row[i];
		rows++;
	}
	for (i = 0; i < 3; i++)
		close(fds[i]);
	return found;
}

int main(void)
{
	int i, form, tries;

	start();
	make_map();
	if (insert())
		fail("kiln_ops.ko: %s", strerror(errno));
	write_text("/proc/sys/net/core/bpf_jit_enable", "1");
	calibrate();
	printf("operation                    form  BPF  without     with  bytes  native\n");
	for (i = 0; i < ARRAY_SIZE(kiln_operations); i++)
		for (form = 0; form < kiln_operations[i].form_count; form++)
			for (tries = 0; tries < SAMPLES && has_native(&kiln_operations[i]); tries++) {
				struct sample s;

				if (make_sample(&kiln_operations[i], form, 0, &s) && count(&kiln_operations[i], &s))
					break;
			}
	printf("%d forms: %.1f instructions without, %.1f with, %.0f bytes without, %.0f with\n", rows, sums[0], sums[1],
	       sums[2], sums[3]);
	if (!rows || sums[1] >= sums[0])
		fail("operations execute no fewer instructions");
	finish();
}
