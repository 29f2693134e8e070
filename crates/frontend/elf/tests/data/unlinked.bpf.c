// One of two objects that are linked: a map, a variable and a function are defined in the other.

#define SEC(name) __attribute__((section(name)))

struct counts {
	int (*type)[2];
	int (*max_entries)[1];
	unsigned *key;
	unsigned long long *value;
};

struct counts own SEC(".maps");
extern struct counts other SEC(".maps");
extern unsigned long long variable SEC(".data");
extern int function(void);

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

SEC("xdp") int uses_own(void *ctx)
{
	unsigned key = 0;
	return bpf_map_lookup_elem(&own, &key) ? 2 : 1;
}

SEC("xdp") int uses_map(void *ctx)
{
	unsigned key = 0;
	return bpf_map_lookup_elem(&other, &key) ? 2 : 1;
}

SEC("xdp") int uses_variable(void *ctx) { return variable; }

SEC("xdp") int uses_function(void *ctx) { return function(); }

char LICENSE[] SEC("license") = "GPL";
