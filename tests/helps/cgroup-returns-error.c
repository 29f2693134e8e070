// The program returns an error number where the hook wants 0 or 1.
// line: return -1;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup/sock_create")
int no_raw(struct bpf_sock *sk)
{
	if (sk->type == 3)
		return -1;
	return 1;
}

char _license[] SEC("license") = "GPL";
