// SPDX-License-Identifier: GPL-2.0
/* Init of a test machine: loads kiln_ops.ko, runs every operation against its
 * proof sequence, gives the kernel records that it must refuse, and ends.
 *
 * The program of a record saves its context, loads R0 to R9 from the packet,
 * runs the proof sequence and writes all registers that are not clobbered back
 * to the packet. It is loaded with the record and without.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;

#define BPF_OP(code) ((code) & 0xf0)
#define BPF_X 0x08
#define BPF_NEG 0x80

#include "operation.h"

#ifdef __aarch64__
#define ARCH KILN_AARCH64
#else
#define ARCH KILN_X86_64
#endif

#define ARRAY_SIZE(x) ((int)(sizeof(x) / sizeof(*(x))))
#define STATES 96	/* random states for each record */
#define HOSTILE 1000
#define PACKET 176	/* what a program reads and writes */
#define INPUT 192	/* some programs do not see the Ethernet header */

static int failures;
static u64 seed = 0x9e3779b97f4a7c15;

#define fail(...) do { failures++; printf("FAIL " __VA_ARGS__); printf("\n"); } while (0)

static u64 rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static long bpf(int cmd, union bpf_attr *attr)
{
	return syscall(__NR_bpf, cmd, attr, sizeof(*attr));
}

static char verifier_log[65536];

/* The hooks whose programs may write packets, and where their context has the packet. */
static const struct type {
	const char *name;
	u32 type, data, data_end, header;
} types[] = {
	{ "xdp", BPF_PROG_TYPE_XDP, 0, 4 },
	{ "sched_cls", BPF_PROG_TYPE_SCHED_CLS, 76, 80 },
	{ "sched_act", BPF_PROG_TYPE_SCHED_ACT, 76, 80 },
	{ "lwt_xmit", BPF_PROG_TYPE_LWT_XMIT, 76, 80, 14 },
	{ "sk_skb", BPF_PROG_TYPE_SK_SKB, 76, 80 },
};

struct prog {
	struct bpf_insn insns[128];
	int len, region;
};

#define INSN(c, d, s, o, i) \
	(p->insns[p->len++] = (struct bpf_insn){ .code = c, .dst_reg = d, .src_reg = s, .off = o, .imm = i })

/* R2 is the packet; leaves if it is short, to where `exits` says. */
static int open_packet(struct prog *p, const struct type *type)
{
	INSN(0x61, 2, 1, type->data, 0);
	INSN(0x61, 3, 1, type->data_end, 0);
	INSN(0xbf, 4, 2, 0, 0);
	INSN(0x07, 4, 0, 0, PACKET);
	INSN(0x2d, 4, 3, 0, 0);
	return p->len - 1;
}

static void build(struct prog *p, const struct type *type, const struct bpf_insn *proof, int len, u16 live)
{
	int r, first, second;

	p->len = 0;
	INSN(0x7b, 10, 1, -8, 0);
	first = open_packet(p, type);
	INSN(0xbf, 1, 2, 0, 0);
	for (r = 0; r < 10; r++)
		if (r != 1)
			INSN(0x79, r, 1, 8 * r, 0);
	INSN(0x79, 1, 1, 8, 0);
	p->region = p->len;
	memcpy(p->insns + p->len, proof, len * sizeof(*proof));
	p->len += len;
	for (r = 0; r < 10; r++)
		if (live >> r & 1)
			INSN(0x7b, 10, r, -16 - 8 * r, 0);
	INSN(0x79, 1, 10, -8, 0);
	second = open_packet(p, type);
	for (r = 0; r < 10; r++)
		if (live >> r & 1) {
			INSN(0x79, 3, 10, -16 - 8 * r, 0);
			INSN(0x7b, 2, 3, 88 + 8 * r, 0);
		}
	p->insns[first].off = p->len - first - 1;
	p->insns[second].off = p->len - second - 1;
	INSN(0xb7, 0, 0, 0, 0);
	INSN(0x95, 0, 0, 0, 0);
}

static int load(const struct prog *p, u32 type, const struct bpf_native_op_rec *recs, u32 count, u32 size)
{
	union bpf_attr attr = { 0 };

	attr.prog_type = type;
	attr.insns = (u64)(uintptr_t)p->insns;
	attr.insn_cnt = p->len;
	attr.license = (u64)(uintptr_t)"GPL";
	attr.log_buf = (u64)(uintptr_t)verifier_log;
	attr.log_size = sizeof(verifier_log);
	attr.log_level = 1;
	attr.native_ops = (u64)(uintptr_t)recs;
	attr.native_op_cnt = count;
	attr.native_op_rec_size = size;
	verifier_log[0] = 0;
	return bpf(BPF_PROG_LOAD, &attr);
}

static int load_with(const struct prog *p, u32 type, const struct bpf_native_op_rec *rec)
{
	return load(p, type, rec, 1, sizeof(*rec));
}

static int run(int fd, const u8 *in, u8 *out)
{
	union bpf_attr attr = { 0 };

	attr.test.prog_fd = fd;
	attr.test.data_in = (u64)(uintptr_t)in;
	attr.test.data_size_in = INPUT;
	attr.test.data_out = (u64)(uintptr_t)out;
	attr.test.data_size_out = INPUT;
	return bpf(BPF_PROG_TEST_RUN, &attr);
}

/* Whether a program's machine code has these bytes; its size. */
static bool has_code(int fd, const u8 *code, int size, u32 *jited)
{
	static u8 image[65536];
	struct bpf_prog_info info = { 0 };
	union bpf_attr attr = { 0 };

	info.jited_prog_insns = (u64)(uintptr_t)image;
	info.jited_prog_len = sizeof(image);
	attr.info.bpf_fd = fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (u64)(uintptr_t)&info;
	if (bpf(BPF_OBJ_GET_INFO_BY_FD, &attr))
		return false;
	*jited = info.jited_prog_len;
	return size && memmem(image, info.jited_prog_len, code, size);
}

static u64 value(void)
{
	static const u64 corners[] = {
		0, 1, 2, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000,
		0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
	};

	return rnd() & 1 ? rnd() : corners[rnd() % ARRAY_SIZE(corners)];
}

/* Runs both programs on the same packets. Returns how many it compared. */
static int compare(int with, int without, const struct type *type, const char *name)
{
	u8 in[INPUT], left[INPUT] = { 0 }, right[INPUT] = { 0 };
	int n, i;

	for (n = 0; n < STATES; n++) {
		memset(in, 0, sizeof(in));
		for (i = 0; i < 10; i++) {
			u64 v = value();

			memcpy(in + type->header + 8 * i, &v, 8);
		}
		if (run(with, in, left) || run(without, in, right)) {
			fail("%s: a run: %s", name, strerror(errno));
			return n;
		}
		if (memcmp(left, right, INPUT)) {
			fail("%s: native code and proof sequence differ", name);
			return n;
		}
	}
	return n;
}

/* Operands that a form allows; false if none was found. */
static bool sample(const struct kiln_operation *op, int form, s32 *o)
{
	int tries, i;

	for (tries = 0; tries < 200000; tries++) {
		memset(o, 0, KILN_OPERANDS * sizeof(*o));
		for (i = 0; i < op->operand_count; i++)
			o[i] = op->operands[i].kind == KILN_IMMEDIATE ?
				op->operands[i].min + (s32)(rnd() % (op->operands[i].max - op->operands[i].min + 1)) :
				(s32)(rnd() % 10);
		if (kiln_allowed(op, form, o))
			return true;
	}
	return false;
}

static int variants(const struct kiln_form *form)
{
	int i, count = 1;

	for (i = 0; i < form->length; i++)
		count *= form->code[i].choices;
	return count;
}

static u16 written(const struct bpf_insn *insns, int len)
{
	u16 mask = 0;

	while (len--)
		mask |= 1 << insns[len].dst_reg;
	return mask;
}

struct sample {
	struct bpf_native_op_rec rec;
	struct bpf_insn proof[16];
	int len;
	u16 live;
};

static bool make_sample(const struct kiln_operation *op, int form, int variant, struct sample *s)
{
	memset(s, 0, sizeof(*s));
	if (!sample(op, form, s->rec.operands))
		return false;
	s->rec.form = form;
	s->rec.variant = variant;
	strcpy(s->rec.name, op->name);
	s->len = kiln_proof(op, form, variant, s->rec.operands, s->proof, 16);
	s->live = 0x3ff & ~(written(s->proof, s->len) & ~kiln_results(op, s->rec.operands));
	return s->len > 0;
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail("%s: %s", path, strerror(errno));
	close(fd);
}

static bool usable[ARRAY_SIZE(types)];

/* One operation in all forms and hook types. */
static void operation(const struct kiln_operation *op, bool expect_native)
{
	int form, variant, t, runs = 0, loads = 0, native = 0, saved = 0;

	for (form = 0; form < op->form_count; form++)
		for (variant = 0; variant < variants(&op->forms[form]); variant++)
			for (t = 0; t < ARRAY_SIZE(types); t++) {
				struct sample s;
				struct prog p;
				u32 with_len, without_len;
				u8 code[64];
				int with, without, size, features;

				if (!usable[t] || !make_sample(op, form, variant, &s))
					continue;
				build(&p, &types[t], s.proof, s.len, s.live);
				s.rec.insn_off = p.region;
				with = load_with(&p, types[t].type, &s.rec);
				without = load_with(&p, types[t].type, NULL);
				without = without < 0 ? load(&p, types[t].type, NULL, 0, 0) : without;
				if (with < 0 || without < 0) {
					fail("%s form %d in %s: %s %s", op->name, form, types[t].name,
					     strerror(errno), verifier_log);
					continue;
				}
				loads++;
				has_code(without, NULL, 0, &without_len);
				for (features = 0; features < 4; features++) {
					size = kiln_emit(op, ARCH, features, s.rec.operands, code);
					/* Two or three bytes may be anywhere. */
					if (!expect_native && size < 4)
						continue;
					if (has_code(with, code, size, &with_len)) {
						native++;
						saved += (int)without_len - (int)with_len;
						break;
					}
				}
				runs += compare(with, without, &types[t], op->name);
				close(with);
				close(without);
			}
	if (expect_native && !native)
		fail("%s: no native code", op->name);
	if (!expect_native && native)
		fail("%s: native code where there is none", op->name);
	printf("%-24s %4d programs, %4d native, %6d states, %5d bytes saved\n", op->name, loads, native, runs, saved);
}

static void operations(bool expect_native)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(kiln_operations); i++)
		operation(&kiln_operations[i], expect_native);
}

/* Records that must be refused, each for its own reason. */
static void refusals(void)
{
	const struct kiln_operation *op = &kiln_operations[1];
	struct bpf_native_op_rec two[2];
	struct sample s;
	struct prog p;
	int fd, t, at;

	if (!make_sample(op, 2, 0, &s))
		fail("no sample");
	build(&p, &types[0], s.proof, s.len, s.live);
	s.rec.insn_off = p.region;
#define REFUSED(what, call, error) do { \
	fd = call; \
	if (fd >= 0 || errno != (error)) \
		fail("%s: %s, not %s", what, fd < 0 ? strerror(errno) : "loaded", strerror(error)); \
	if (fd >= 0) \
		close(fd); \
} while (0)
	REFUSED("record size", load(&p, 6, &s.rec, 1, sizeof(s.rec) - 4), EINVAL);
	REFUSED("record count", load(&p, 6, &s.rec, 1000, sizeof(s.rec)), EINVAL);
	REFUSED("bad pointer", load(&p, 6, (void *)8, 1, sizeof(s.rec)), EFAULT);
	two[0] = two[1] = s.rec;
	REFUSED("the same twice", load(&p, 6, two, 2, sizeof(s.rec)), EINVAL);
	two[0].insn_off++;
	REFUSED("elsewhere", load_with(&p, 6, two), EINVAL);
	two[0].insn_off = 0xffffffff;
	REFUSED("outside", load_with(&p, 6, two), EINVAL);
	two[0] = s.rec;
	memset(two[0].name, 'x', sizeof(two[0].name));
	REFUSED("endless name", load_with(&p, 6, two), EINVAL);
	strcpy(two[0].name, "no_such_operation");
	REFUSED("unknown name", load_with(&p, 6, two), ENOENT);
	/* The temporary is read after the region: the program alone loads, with the record it does not. */
	build(&p, &types[0], s.proof, s.len, 0x3ff);
	s.rec.insn_off = p.region;
	fd = load(&p, 6, NULL, 0, 0);
	if (fd < 0)
		fail("reading a temporary without a record: %s", strerror(errno));
	close(fd);
	REFUSED("temporary read", load_with(&p, 6, &s.rec), EACCES);
	/* A jump into the middle, from before it. */
	for (t = 1; t < s.len; t++) {
		build(&p, &types[0], s.proof, s.len, s.live);
		at = p.region;
		memmove(p.insns + at + 1, p.insns + at, (p.len - at) * sizeof(*p.insns));
		p.len++;
		p.insns[at] = (struct bpf_insn){ .code = 0x15, .dst_reg = 0, .off = t, .imm = 7 };
		p.insns[5].off++;
		s.rec.insn_off = at + 1;
		REFUSED("jump inside", load_with(&p, 6, &s.rec), EINVAL);
	}
}

/* Random damage: refused, or the program still does what its instructions say. */
static void hostile(void)
{
	int i, refused = 0, accepted = 0;

	for (i = 0; i < HOSTILE; i++) {
		const struct kiln_operation *op = &kiln_operations[rnd() % ARRAY_SIZE(kiln_operations)];
		struct sample s;
		struct prog p;
		int with, without, n;
		u8 *bytes = (u8 *)&s.rec;

		if (!make_sample(op, rnd() % op->form_count, 0, &s))
			continue;
		build(&p, &types[0], s.proof, s.len, s.live);
		s.rec.insn_off = p.region;
		for (n = 1 + rnd() % 3; n; n--)
			bytes[rnd() % sizeof(s.rec)] ^= 1 << rnd() % 8;
		if (!(rnd() & 3))
			s.rec.operands[rnd() % KILN_OPERANDS] = rnd();
		if (!(rnd() & 7))
			s.rec.form = rnd();
		if (!(rnd() & 3))
			p.insns[p.region + rnd() % s.len].imm ^= 1 << rnd() % 6;
		with = load_with(&p, BPF_PROG_TYPE_XDP, &s.rec);
		if (with < 0) {
			refused++;
			continue;
		}
		accepted++;
		without = load(&p, BPF_PROG_TYPE_XDP, NULL, 0, 0);
		compare(with, without, &types[0], "hostile");
		close(without);
		close(with);
	}
	printf("hostile records: %d refused, %d accepted and right\n", refused, accepted);
}

static int insert(void)
{
	int fd = open("/kiln_ops.ko", O_RDONLY);
	int err = syscall(__NR_finit_module, fd, "", 0);

	close(fd);
	return err;
}

static int drop(void)
{
	return syscall(__NR_delete_module, "kiln_ops", O_NONBLOCK);
}

/* A program holds the module; without it a record is refused. */
static void modules(void)
{
	struct sample s;
	struct prog p;
	int fd, i;

	if (!make_sample(&kiln_operations[1], 2, 0, &s))
		fail("no sample");
	build(&p, &types[0], s.proof, s.len, s.live);
	s.rec.insn_off = p.region;
	for (i = 0; i < 20; i++) {
		fd = load_with(&p, 6, &s.rec);
		if (fd < 0)
			fail("after a reload: %s", strerror(errno));
		if (!drop() || errno != EWOULDBLOCK)
			fail("the module went while a program uses it");
		close(fd);
		/* Programs are freed later. */
		int tries = 0;
		while (drop() && ++tries < 200)
			usleep(10000);
		if (tries == 200)
			fail("the module stays: %s", strerror(errno));
		fd = load_with(&p, 6, &s.rec);
		if (fd >= 0 || errno != ENOENT)
			fail("loaded without the module");
		if (insert())
			fail("the module does not come back: %s", strerror(errno));
	}
	printf("module unloaded and loaded %d times\n", i);
}

static void kernel_log(void)
{
	static char text[1 << 20];
	int size = klogctl(3, text, sizeof(text) - 1);

	if (size < 0 || strstr(text, "WARNING:") || strstr(text, "BUG:") || strstr(text, "Oops"))
		fail("the kernel's log has a warning:\n%s", text);
}

int main(void)
{
	struct prog p;
	int t, fd;

	mkdir("/proc", 0755);
	mkdir("/dev", 0755);
	mount("none", "/proc", "proc", 0, NULL);
	mount("none", "/dev", "devtmpfs", 0, NULL);
	fd = open("/dev/console", O_RDWR);
	dup2(fd, 0);
	dup2(fd, 1);
	dup2(fd, 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (insert())
		fail("kiln_ops.ko: %s", strerror(errno));
	write_text("/proc/sys/net/core/bpf_jit_enable", "1");
	for (t = 0; t < ARRAY_SIZE(types); t++) {
		build(&p, &types[t], NULL, 0, 0x3ff);
		fd = load(&p, types[t].type, NULL, 0, 0);
		u8 in[INPUT], out[INPUT];
		memset(in, 0x5a, sizeof(in));
		memset(in + types[t].header + 80, 0, 110 - 14);
		/* Only if what it wrote is seen. */
		usable[t] = fd >= 0 && !run(fd, in, out) && !memcmp(out, out + 88, 80);
		if (fd >= 0)
			close(fd);
		printf("%s: %s\n", types[t].name, usable[t] ? "tested" : "cannot be run here");
	}
	printf("native code:\n");
	operations(true);
	refusals();
	hostile();
	modules();
	printf("constants blinded:\n");
	write_text("/proc/sys/net/core/bpf_jit_harden", "2");
	operations(false);
	write_text("/proc/sys/net/core/bpf_jit_harden", "0");
	printf("interpreted:\n");
	write_text("/proc/sys/net/core/bpf_jit_enable", "0");
	operations(false);
	kernel_log();
	printf("end of test: %d failures\n", failures);
	sync();
	reboot(RB_AUTOBOOT);
	return 0;
}
