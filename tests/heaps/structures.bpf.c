/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Each program carries out the order in a packet on one structure; see structures.h. */
#include "structures.h"
#include "structure.bpf.h"

kiln_heap(16 << 20);

STRUCTURE(hash)
STRUCTURE(list)
STRUCTURE(tree)
STRUCTURE(skip)
STRUCTURE(countmin)
STRUCTURE(count)

char LICENSE[] SEC("license") = "GPL";
