/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Each program carries out the order in a packet on one structure; see more_structures.h. */
#include "more_structures.h"
#include "structure.bpf.h"

kiln_heap(16 << 20);

STRUCTURE(bp)
STRUCTURE(clock)
STRUCTURE(wheel)
STRUCTURE(ring)
STRUCTURE(bloom)
STRUCTURE(cuckoo)

char LICENSE[] SEC("license") = "GPL";
