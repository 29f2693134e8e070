/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The operations that are measured, on `all` with a `random` number; `sum` is what they found. */
#ifndef EACH_H
#define EACH_H

#if !defined(DELETE)
#define EACH_DELETE(DO)
#elif defined(DELETES_ONLY)
#define EACH_DELETE(DO) DO(delete, random = next(random); DELETE(all, KEY(random)))
#else
#define EACH_DELETE(DO)                                                                            \
	DO(delete, random = next(random); DELETE(all, KEY(random)); UPDATE(all, KEY(random), random))
#endif

/* `nothing` is what the loop takes, and two readings of the clock. */
#define EACH(DO)                                                                                   \
	DO(lookup, random = next(random); sum += LOOKUP(all, KEY(random)))                         \
	DO(update, random = next(random); UPDATE(all, KEY(random), random))                        \
	EACH_DELETE(DO)                                                                            \
	DO(nothing, random = next(random); sum += KEY(random))

#endif
