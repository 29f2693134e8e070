// Jump tables as clang 22 and newer write them, by hand: clang 19 has no `gotox`.
#define SEC(name) __attribute__((section(name), used))
#define TABLE ".pushsection .jumptables,\"\",@progbits;"
#define GOTOX_R1 ".8byte 0x10d;"

__attribute__((naked, noinline, used)) static int before(void)
{
	asm volatile("first: r0 = 7; exit;");
}

__attribute__((naked, noinline, used)) static int in_function(int which)
{
	asm volatile(TABLE
		     "small: .quad below - first; .quad above - first;"
		     ".size small, 16; .global small; .popsection;"
		     "r1 &= 1; r1 <<= 3; r2 = small ll; r2 += r1; r1 = *(u64 *)(r2 + 0);" GOTOX_R1
		     "above: r0 = 5; exit;"
		     "below: r0 = 6; exit;");
}

SEC("xdp") __attribute__((naked)) int pick(void *ctx)
{
	asm volatile(TABLE
		     "large: .quad zero - pick; .quad one - pick; .quad zero - pick;"
		     ".size large, 24; .global large; .popsection;"
		     "r2 = *(u32 *)(r1 + 16); if r2 > 2 goto other; r2 <<= 3; r1 = large ll; r1 += r2;"
		     "r1 = *(u64 *)(r1 + 0);" GOTOX_R1
		     "zero: r0 = 1; exit;"
		     "one: r0 = 2; exit;"
		     "other: r1 = 3; call in_function; exit;");
}

char _license[] SEC("license") = "GPL";
