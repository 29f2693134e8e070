// Variables of which each processor has its own.
typedef unsigned long long u64;

u64 begun __attribute__((section(".percpu"))) = 7;
u64 seen __attribute__((section(".percpu")));

__attribute__((section("xdp"), used)) int counts(void *ctx)
{
	seen += begun;
	return 2;
}

char _license[] __attribute__((section("license"))) = "GPL";
