#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("sockops")
int tune(struct bpf_sock_ops *skops)
{
	switch (skops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		skops->reply = 0;
		break;
	case BPF_SOCK_OPS_RWND_INIT:
		skops->reply = 40;
		break;
	}
	return 1;
}

char _license[] SEC("license") = "GPL";
