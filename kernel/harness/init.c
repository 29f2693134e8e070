// SPDX-License-Identifier: GPL-2.0
/* Init of a test machine: loads kiln_ops.ko, runs every operation against its
 * proof sequence, gives the kernel records that it must refuse, and ends.
 */
#include "programs.h"

#define STATES 96	/* random states for each record */
#define HOSTILE 1000
#define RELOADS 50	/* of the module, while programs are loaded and run */
#define WORKERS 3

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

struct work {
	volatile bool stop;
	volatile int loads, absent, other;
};

static u64 microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

/* Loads a program with a record, runs it against the one without, frees it, until it is told to stop. */
static void worker(struct work *work, struct sample *s, const struct prog *p)
{
	int before = failures, without = load(p, BPF_PROG_TYPE_XDP, NULL, 0, 0);

	seed += getpid();
	while (!work->stop) {
		u64 from = microseconds();
		int with = load_with(p, BPF_PROG_TYPE_XDP, &s->rec);

		if (with < 0) {
			__sync_fetch_and_add(errno == ENOENT ? &work->absent : &work->other, 1);
			continue;
		}
		compare(with, without, &types[0], "under load");
		close(with);
		__sync_fetch_and_add(&work->loads, 1);
		/* So that the module is free now and then, however fast the machine is. */
		usleep(rnd() % (5 * (microseconds() - from) + 20000));
	}
	_exit(failures != before);
}

/* Unloads and loads the module while programs that want it are loaded, run and freed. */
static void reload_under_load(void)
{
	struct work *work = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sample s;
	struct prog p;
	int i, tries, status;

	if (!make_sample(&kiln_operations[1], 2, 0, &s))
		fail("no sample");
	build(&p, &types[0], s.proof, s.len, s.live);
	s.rec.insn_off = p.region;
	for (i = 0; i < WORKERS; i++)
		if (!fork())
			worker(work, &s, &p);
	for (i = 0; i < RELOADS; i++) {
		for (tries = 0; drop() && tries < 20000; tries++)
			usleep(500);
		if (tries == 20000) {
			fail("under load the module stays: %s", strerror(errno));
			break;
		}
		if (insert())
			fail("under load the module does not come back: %s", strerror(errno));
		usleep(5000);
	}
	work->stop = true;
	while (wait(&status) > 0)
		if (status)
			fail("a worker ended with status %d", status);
	if (work->other || !work->loads || !work->absent)
		fail("under load: %d loads failed otherwise", work->other);
	printf("module unloaded and loaded %d times, meanwhile %d programs loaded, %d refused as it was away\n", i,
	       work->loads, work->absent);
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
	reload_under_load();
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
