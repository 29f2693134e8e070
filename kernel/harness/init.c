// SPDX-License-Identifier: GPL-2.0
/* Init of a test machine: loads kiln_ops.ko, runs every operation against its
 * proof sequence, gives the kernel records that it must refuse, and ends.
 *
 * The program of a record saves its context, loads R0 to R9 and some bytes of
 * its stack from the packet, runs the proof sequence and writes all registers
 * that are not clobbered, and these bytes, back to the packet. It is loaded with
 * the record and without.
 */
#include "steps.h"

#define BPF_OP(code) ((code) & 0xf0)
#define BPF_X 0x08
#define BPF_NEG 0x80

#include "operation.h"

#ifdef __aarch64__
#define ARCH KILN_AARCH64
#else
#define ARCH KILN_X86_64
#endif

#define STATES 96	/* random states for each record */
#define HOSTILE 1000
#define MEMORY 32	/* bytes on the stack that operations access */
#define PACKET 208	/* what a program reads and writes */
#define INPUT 224	/* some programs do not see the Ethernet header */

static u64 seed = 0x9e3779b97f4a7c15;

static u64 rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
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
	struct bpf_insn insns[160];
	int len, region, first;
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

/* Where operations access the stack, and the register that points to the packet
 * for those that access the packet.
 */
#define STACK_MEMORY (-136)
#define PACKET_BASE 1

static void build_at(struct prog *p, const struct type *type, const struct bpf_insn *proof, int len, u16 live,
		     bool in_packet)
{
	int r, first, second;

	p->len = 0;
	INSN(0x7b, 10, 1, -8, 0);
	first = open_packet(p, type);
	INSN(0xbf, 1, 2, 0, 0);
	for (r = 0; r < MEMORY; r += 8) {
		INSN(0x79, 3, 1, 8 + r, 0);
		INSN(0x7b, 10, 3, STACK_MEMORY + r, 0);
	}
	for (r = 0; r < 10; r++)
		if (r != PACKET_BASE)
			INSN(0x79, r, 1, 8 * r, 0);
	if (!in_packet)
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
	for (r = 0; r < MEMORY; r += 8) {
		INSN(0x79, 3, 10, STACK_MEMORY + r, 0);
		INSN(0x7b, 2, 3, 168 + r, 0);
	}
	p->first = first;
	p->insns[first].off = p->len - first - 1;
	p->insns[second].off = p->len - second - 1;
	INSN(0xb7, 0, 0, 0, 0);
	INSN(0x95, 0, 0, 0, 0);
}

static void build(struct prog *p, const struct type *type, const struct bpf_insn *proof, int len, u16 live)
{
	build_at(p, type, proof, len, live, false);
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

static u64 value(void)
{
	static const u64 corners[] = {
		0, 1, 2, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000,
		0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
	};

	return rnd() & 1 ? rnd() : corners[rnd() % ARRAY_SIZE(corners)];
}

/* The first template that accesses memory, or none. */
static const struct kiln_template *access_of(const struct kiln_form *form)
{
	int i;

	for (i = 0; i < form->length; i++)
		if (form->code[i].bytes)
			return &form->code[i];
	return NULL;
}

static s32 any(const struct kiln_operand *operand)
{
	u64 range = (u64)((s64)operand->max - operand->min) + 1;

	switch (operand->kind) {
	case KILN_IMMEDIATE:
		return operand->min == INT32_MIN && rnd() & 1 ? (s32)value() : (s32)(operand->min + (s64)(rnd() % range));
	case KILN_COMPARISON:
		return rnd() % 16;
	default:
		return rnd() % 10;
	}
}

/* Puts an access of @bytes into the stack's or the packet's memory; false if
 * another operand is the register with its address.
 */
static bool place(const struct kiln_operation *op, const struct kiln_template *access, bool in_packet, s32 *o)
{
	int base = (access->codes[0] & 7) == 1 ? access->src : access->dst;
	int i;

	/* A stack slot is aligned; a pair has its second half behind the first. */
	o[access->off.operand] = in_packet ? (s32)(rnd() % 80) : STACK_MEMORY + (s32)(rnd() % 3) * 8;
	o[base] = in_packet ? PACKET_BASE : BPF_REG_10;
	for (i = 0; i < op->operand_count; i++)
		if (i != base && op->operands[i].kind != KILN_IMMEDIATE && o[i] == o[base])
			return false;
	return true;
}

/* Operands that a form allows; false if none was found. */
static bool sample(const struct kiln_operation *op, int form, bool in_packet, s32 *o)
{
	const struct kiln_template *access = access_of(&op->forms[form]);
	int tries, i;

	for (tries = 0; tries < 200000; tries++) {
		memset(o, 0, KILN_OPERANDS * sizeof(*o));
		for (i = 0; i < op->operand_count; i++)
			o[i] = any(&op->operands[i]);
		if (access && !place(op, access, in_packet, o))
			continue;
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

	while (len--) {
		u8 class = insns[len].code & 7;

		/* Not stores and branches. */
		if (class == 1 || class == 4 || class == 7)
			mask |= 1 << insns[len].dst_reg;
	}
	return mask;
}

struct sample {
	struct bpf_native_op_rec rec;
	struct bpf_insn proof[16];
	int len;
	u16 live;
};

static bool make_sample_at(const struct kiln_operation *op, int form, int variant, bool in_packet, struct sample *s)
{
	memset(s, 0, sizeof(*s));
	if (!sample(op, form, in_packet, s->rec.operands))
		return false;
	s->rec.form = form;
	s->rec.variant = variant;
	strcpy(s->rec.name, op->name);
	s->len = kiln_proof(op, form, variant, s->rec.operands, s->proof, 16);
	s->live = 0x3ff & ~(written(s->proof, s->len) & ~kiln_results(op, s->rec.operands));
	if (in_packet)
		s->live &= ~(1 << PACKET_BASE);
	return s->len > 0;
}

static bool make_sample(const struct kiln_operation *op, int form, int variant, struct sample *s)
{
	return make_sample_at(op, form, variant, false, s);
}

static bool has_native(const struct kiln_operation *op)
{
	int i;

	for (i = 0; i < op->native_count; i++)
		if (op->native[i].arch == ARCH)
			return true;
	return false;
}

static bool usable[ARRAY_SIZE(types)];

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

struct counts {
	int loads, native, runs, saved;
};

/* One record in a program of one type, against the same program without it. */
static void record(const struct kiln_operation *op, struct sample *s, const struct type *type, bool in_packet,
		   bool expect_native, struct counts *sum)
{
	struct prog p;
	u32 with_len, without_len, ignored;
	u8 code[64];
	int with, without, size, features;

	build_at(&p, type, s->proof, s->len, s->live, in_packet);
	s->rec.insn_off = p.region;
	with = load_with(&p, type->type, &s->rec);
	without = load_with(&p, type->type, NULL);
	without = without < 0 ? load(&p, type->type, NULL, 0, 0) : without;
	if (with < 0 || without < 0) {
		fail("%s form %d in %s: %s %s", op->name, s->rec.form, type->name, strerror(errno), verifier_log);
		return;
	}
	sum->loads++;
	has_code(without, NULL, 0, &without_len);
	for (features = 0; features < 8; features++) {
		size = kiln_emit(op, ARCH, features, s->rec.operands, code);
		/* The proof sequence may have the same few bytes. */
		if (!expect_native && size < 4)
			continue;
		if (has_code(with, code, size, &with_len) && (expect_native || !has_code(without, code, size, &ignored))) {
			sum->native++;
			sum->saved += (int)without_len - (int)with_len;
			break;
		}
	}
	sum->runs += compare(with, without, type, op->name);
	close(with);
	close(without);
}

/* One operation in all forms and hook types, on the stack and in the packet. */
static void operation(const struct kiln_operation *op, bool expect_native)
{
	struct counts sum = { 0 };
	int form, variant, t, place;

	for (form = 0; form < op->form_count; form++)
		for (variant = 0; variant < variants(&op->forms[form]); variant++)
			for (t = 0; t < ARRAY_SIZE(types); t++)
				for (place = 0; place < (access_of(&op->forms[form]) ? 2 : 1); place++) {
					struct sample s;

					if (usable[t] && make_sample_at(op, form, variant, place, &s))
						record(op, &s, &types[t], place, expect_native, &sum);
				}
	if (expect_native && !sum.native && has_native(op))
		fail("%s: no native code", op->name);
	if (!expect_native && sum.native)
		fail("%s: native code where there is none", op->name);
	printf("%-24s %4d programs, %4d native, %6d states, %5d bytes saved\n", op->name, sum.loads, sum.native,
	       sum.runs, sum.saved);
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
		p.insns[p.first].off++;
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

int main(void)
{
	struct prog p;
	int t, fd;

	start();
	if (insert())
		fail("kiln_ops.ko: %s", strerror(errno));
	write_text("/proc/sys/net/core/bpf_jit_enable", "1");
	for (t = 0; t < ARRAY_SIZE(types); t++) {
		build(&p, &types[t], NULL, 0, 0x3ff);
		fd = load(&p, types[t].type, NULL, 0, 0);
		u8 in[INPUT], out[INPUT];
		memset(in, 0x5a, sizeof(in));
		memset(in + types[t].header + 80, 0, PACKET - 80);
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
	write_text("/proc/sys/net/core/bpf_jit_enable", "1");
	finish();
}
