// A field is written that congestion control may not write.
#include "tools.h"
SEC("struct_ops/cong") void BPF_PROG(f, struct sock *sk) { sk->sk_priority = 3; }
SEC(".struct_ops") struct tcp_congestion_ops ops = { .cong_avoid = (void *)f, .name = "mine" };
