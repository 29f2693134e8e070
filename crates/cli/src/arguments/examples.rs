//! What the help of each command ends with: examples that fit 80 columns. Commands in files of their own have theirs there.

pub const ALL: &str = "\
Examples:
  kiln check prog.o                        is it safe? why not?
  kiln optimize prog.o -o prog.opt.o       a smaller drop-in object
  kiln run prog.o --packet-file packet.bin what does it do with this packet?
  kiln doctor                              what is missing on this machine?";

pub const CHECK: &str = "\
Examples:
  kiln check prog.o
  kiln check prog.bpf.c               compiled first, with the project's flags
  kiln check build/ more/*.o -q       many at once: what is not accepted, and a
                                      count
  kiln check prog.o --with-kernel     with the running kernel's verdict (root)
  kiln check prog.o --btf /sys/kernel/btf/vmlinux
                                      as it would be relocated for this kernel
  kiln check prog.o --kernel 5.15,6.1
                                      does it load there? (also: all, running)
  kiln check prog.o --type handler=sched_cls
                                      if SEC(\"...\") does not tell the type
  kiln check prog.o --profile --flame-graph p.svg
                                      where the processed instructions went
  kiln check prog.o --format sarif > kiln.sarif
                                      annotations for code review
  kiln check build/ --baseline known.json
                                      only what is new fails (made with --format
                                      json)
  kiln check build/ --no-cache        again, whatever an earlier check decided
  kiln check prog.bpf.c --watch       again after each change
  kiln check prog.o --lint --deny unwritten-key
                                      warnings, too; one of them counts
  kiln explain possibly-null          more about the code of a rejection";

pub const OPTIMIZE: &str = "\
Examples:
  kiln optimize prog.o -o prog.opt.o
  kiln optimize build/ -o optimized/  all objects of a folder into another
  kiln optimize prog.o -o prog.o --budget 2
                                      in place: replaced whole or not at all
  kiln optimize prog.o -o out.o --kernel 5.15
                                      if it loads there before, it does after
  kiln optimize prog.o -o out.o --goal complexity
                                      if the kernel's verifier finds it too
                                      complex
  kiln optimize prog.o -o out.o --evidence proofs
                                      then: kiln verify-evidence proofs

Ctrl-C ends the search and writes the best so far; a second one gives up and
writes nothing.";

pub const SANDBOX: &str = "\
Examples:
  kiln sandbox prog.o -o prog.kiln.o  heap accesses guarded, loops cancellable
  kiln sandbox prog.o -o out.o --quantum 0.0001
                                      cancelled after 100 us in loops
  kiln sandbox prog.o -o out.o --target vm
                                      for kiln run only: faster there, no clock
                                      in the program
  kiln sandbox prog.o -o out.o --explain
                                      guards and cancellation points by source
                                      line";

pub const CC: &str = "\
Examples:
  kiln cc -c prog.bpf.c -o prog.o     clang, then sandbox and optimize
  make CLANG=\"kiln cc\"                in any Makefile
  KILN_QUANTUM=0.001 kiln cc -c prog.bpf.c -o prog.o

Environment: KILN_CLANG names clang (clang-19), KILN_QUANTUM the seconds until a
run is cancelled (0.01), KILN_OPTIMIZE the seconds for the optimizer (1; 0
leaves it out).";

pub const EVIDENCE: &str = "\
Examples:
  kiln verify-evidence proofs         with the first of cvc5, bitwuzla, z3
  kiln verify-evidence proofs --original prog.o --object out.o
  kiln verify-evidence proofs --format json

Exit code 1 when a rewrite is not proved, or the folder is not what kiln
optimize wrote.";

pub const LEARN: &str = "\
Examples:
  kiln learn objects/ -o my.rules     then: kiln optimize prog.o -o out.o
                                      --rules my.rules
  kiln learn more/*.o -o my.rules --budget 3600
                                      what the file has stays; new rules are
                                      added

Ctrl-C ends the search and writes what was learned; a second one gives up and
writes nothing.";

pub const LSP: &str = "\
An editor starts it, and shows what it says of sources with BPF programs:
clang's messages, rejections with their story, warnings of kiln check --lint,
what the verifier knows at a line, and a verdict for each program. The flags
come from the nearest compile_commands.json or kiln.toml, the kernels from
kiln.toml. docs/guide/editor.md has the settings of editors.";

pub const OPS: &str = "\
Examples:
  kiln ops                            the operations: proof sequences, native
                                      code, what proves them
  kiln ops prog.o                     where they are in an object
  kiln ops prog.o -o marked.o         the same object with its marks, in the
                                      section .kiln.ops";

pub const DUMP: &str = "\
Examples:
  kiln dump prog.o
  kiln dump prog.o -p ingress --facts
                                      what the verifier knows before each
                                      instruction
  kiln dump prog.o --native           the machine instructions that each
                                      instruction becomes
  kiln dump prog.o --format json      an object per instruction: slot, text,
                                      line, reference";

pub const QUERY: &str = "\
Examples:
  kiln query 'SELECT pid, name, max(latency_ns) FROM syscalls
      GROUP BY pid, name WINDOW 1 SECOND'
  kiln query 'SELECT name, count(*), p99(latency_ns) FROM syscalls
      GROUP BY name ORDER BY 2 DESC LIMIT 10' --duration 5s
  kiln query \"SELECT ts, comm, arg1 FROM syscalls WHERE name = 'openat'\" -- ls /
  kiln query 'SELECT * FROM tracepoint.sched.sched_process_exit LIMIT 5' \\
      --format ndjson
  kiln query 'EXPLAIN SELECT count(*) FROM page_faults'
                                      which splits there are, and what they cost
                                      to verify
  kiln query 'SELECT * FROM syscalls' --record calls.kev --duration 1s
  kiln query 'SELECT name, count(*) FROM syscalls GROUP BY name' \\
      --replay calls.kev              (no root)

Ctrl-C ends the query; what it knows by then is shown.";
