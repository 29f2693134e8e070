/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the generator's programs and its process share. */
#ifndef GENERATOR_H
#define GENERATOR_H

#define TEXT_AT 50
#define KEY_AT (TEXT_AT + 4)
#define SAMPLES (1 << 16)
/* "get kNNNNNNN\r\n" with all headers; of a `set` what an answer overwrites. */
#define HEAD_BYTES 64

struct shared {
	__u64 head[HEAD_BYTES / 8];
	__u64 next;
	__u64 is_set;
	__u64 answers, wrong;
	__u64 keys[SAMPLES];
};

#endif
