(** The rows of the operation table. Written by `BLESS=1 cargo test -p kiln-isa --test rocq`. *)

From Coq Require Import ZArith List.
From Kiln Require Import Bpf.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

(** Rotates the lower half of s to the left by k bits. *)
Definition rotate_left_32_allowed (d : reg) (s : reg) (t : reg) (k : Z) : Prop := 1 <= k <= 31.
Definition rotate_left_32_forms (d : reg) (s : reg) (t : reg) (k : Z) : list (Prop * list template) :=
  [ (d = s /\ d <> t,
     [TAlu [Mov] [W64; W32] t (Reg s);
      TAlu [Rsh] [W32] t (Imm (32 - k));
      TAlu [Lsh] [W32] d (Imm k);
      TAlu [Or; Xor; Add] [W32] d (Reg t)]);
    (d = s /\ d <> t,
     [TAlu [Mov] [W64; W32] t (Reg s);
      TAlu [Lsh] [W32] t (Imm k);
      TAlu [Rsh] [W32] d (Imm (32 - k));
      TAlu [Or; Xor; Add] [W32] d (Reg t)]);
    (d <> t /\ s <> t /\ d <> s,
     [TAlu [Mov] [W64; W32] t (Reg s);
      TAlu [Rsh] [W32] t (Imm (32 - k));
      TAlu [Mov] [W64; W32] d (Reg s);
      TAlu [Lsh] [W32] d (Imm k);
      TAlu [Or; Xor; Add] [W32] d (Reg t)]);
    (d <> t /\ s <> t /\ d <> s,
     [TAlu [Mov] [W64; W32] t (Reg s);
      TAlu [Lsh] [W32] t (Imm k);
      TAlu [Mov] [W64; W32] d (Reg s);
      TAlu [Rsh] [W32] d (Imm (32 - k));
      TAlu [Or; Xor; Add] [W32] d (Reg t)]);
    (s = t /\ d <> t,
     [TAlu [Mov] [W64; W32] d (Reg t);
      TAlu [Rsh] [W32] d (Imm (32 - k));
      TAlu [Lsh] [W32] t (Imm k);
      TAlu [Or; Xor; Add] [W32] d (Reg t)]);
    (s = t /\ d <> t,
     [TAlu [Mov] [W64; W32] d (Reg t);
      TAlu [Lsh] [W32] d (Imm k);
      TAlu [Rsh] [W32] t (Imm (32 - k));
      TAlu [Or; Xor; Add] [W32] d (Reg t)]) ].
Definition rotate_left_32_x86 (d : reg) (s : reg) (t : reg) (k : Z) : list (Prop * list X86.insn) :=
  [ (d = s, [X86.Rol W32 d k]);
    (True, [X86.Rorx W32 d s (32 - k)]);
    (d <> s, [X86.Mov W32 d s; X86.Rol W32 d k]) ].
Definition rotate_left_32_a64 (d : reg) (s : reg) (t : reg) (k : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Extr W32 d s s (32 - k)]) ].

(** Rotates s to the left by k bits. *)
Definition rotate_left_64_allowed (d : reg) (s : reg) (t : reg) (k : Z) : Prop := 1 <= k <= 63.
Definition rotate_left_64_forms (d : reg) (s : reg) (t : reg) (k : Z) : list (Prop * list template) :=
  [ (d = s /\ d <> t,
     [TAlu [Mov] [W64] t (Reg s);
      TAlu [Rsh] [W64] t (Imm (64 - k));
      TAlu [Lsh] [W64] d (Imm k);
      TAlu [Or; Xor; Add] [W64] d (Reg t)]);
    (d = s /\ d <> t,
     [TAlu [Mov] [W64] t (Reg s);
      TAlu [Lsh] [W64] t (Imm k);
      TAlu [Rsh] [W64] d (Imm (64 - k));
      TAlu [Or; Xor; Add] [W64] d (Reg t)]);
    (d <> t /\ s <> t /\ d <> s,
     [TAlu [Mov] [W64] t (Reg s);
      TAlu [Rsh] [W64] t (Imm (64 - k));
      TAlu [Mov] [W64] d (Reg s);
      TAlu [Lsh] [W64] d (Imm k);
      TAlu [Or; Xor; Add] [W64] d (Reg t)]);
    (d <> t /\ s <> t /\ d <> s,
     [TAlu [Mov] [W64] t (Reg s);
      TAlu [Lsh] [W64] t (Imm k);
      TAlu [Mov] [W64] d (Reg s);
      TAlu [Rsh] [W64] d (Imm (64 - k));
      TAlu [Or; Xor; Add] [W64] d (Reg t)]);
    (s = t /\ d <> t,
     [TAlu [Mov] [W64] d (Reg t);
      TAlu [Rsh] [W64] d (Imm (64 - k));
      TAlu [Lsh] [W64] t (Imm k);
      TAlu [Or; Xor; Add] [W64] d (Reg t)]);
    (s = t /\ d <> t,
     [TAlu [Mov] [W64] d (Reg t);
      TAlu [Lsh] [W64] d (Imm k);
      TAlu [Rsh] [W64] t (Imm (64 - k));
      TAlu [Or; Xor; Add] [W64] d (Reg t)]) ].
Definition rotate_left_64_x86 (d : reg) (s : reg) (t : reg) (k : Z) : list (Prop * list X86.insn) :=
  [ (d = s, [X86.Rol W64 d k]);
    (True, [X86.Rorx W64 d s (64 - k)]);
    (d <> s, [X86.Mov W64 d s; X86.Rol W64 d k]) ].
Definition rotate_left_64_a64 (d : reg) (s : reg) (t : reg) (k : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Extr W64 d s s (64 - k)]) ].

(** Rotates the lower half of s to the left by n bits, modulo 32. *)
Definition rotate_register_32_allowed (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : Prop := True.
Definition rotate_register_32_forms (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : list (Prop * list template) :=
  [ (d <> s /\ d <> n /\ d <> t /\ d <> u /\ s <> u /\ n <> t /\ n <> u /\ t <> u /\ s = t,
     [TAlu [Mov] [W64; W32] u (Imm (32));
      TAlu [Sub] [W64; W32] u (Reg n);
      TAlu [Mov] [W64; W32] d (Reg s);
      TAlu [Lsh] [W32] d (Reg n);
      TAlu [Rsh] [W32] t (Reg u);
      TAlu [Or] [W32] d (Reg t)]);
    (d <> s /\ d <> n /\ d <> t /\ d <> u /\ s <> u /\ n <> t /\ n <> u /\ t <> u /\ s = t,
     [TAlu [Mov] [W64; W32] u (Reg n);
      TNeg [W64; W32] u;
      TAlu [Mov] [W64; W32] d (Reg s);
      TAlu [Lsh] [W32] d (Reg n);
      TAlu [Rsh] [W32] t (Reg u);
      TAlu [Or] [W32] d (Reg t)]);
    (d <> s /\ d <> n /\ d <> t /\ d <> u /\ s <> u /\ n <> t /\ n <> u /\ t <> u /\ s = t,
     [TAlu [Mov] [W64; W32] u (Reg n);
      TNeg [W64; W32] u;
      TAlu [And] [W64; W32] u (Imm (31));
      TAlu [Mov] [W64; W32] d (Reg s);
      TAlu [Lsh] [W32] d (Reg n);
      TAlu [Rsh] [W32] t (Reg u);
      TAlu [Or] [W32] d (Reg t)]) ].
Definition rotate_register_32_x86 (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : list (Prop * list X86.insn) :=
  [ (n = Bpf 4 /\ d <> Bpf 4 /\ d <> s, [X86.Mov W32 d s; X86.Rolcl W32 d (Bpf 4)]);
    (n <> Bpf 4 /\ d <> Bpf 4 /\ s <> Bpf 4 /\ d <> s /\ d <> n, [X86.Mov W64 (Scratch 0) (Bpf 4); X86.Mov W32 (Bpf 4) n; X86.Mov W32 d s; X86.Rolcl W32 d (Bpf 4); X86.Mov W64 (Bpf 4) (Scratch 0)]) ].
Definition rotate_register_32_a64 (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Neg W32 (Scratch 0) n; A64.Rorv W32 d s (Scratch 0)]) ].

(** Rotates s to the left by n bits, modulo 64. *)
Definition rotate_register_64_allowed (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : Prop := True.
Definition rotate_register_64_forms (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : list (Prop * list template) :=
  [ (d <> s /\ d <> n /\ d <> t /\ d <> u /\ s <> u /\ n <> t /\ n <> u /\ t <> u /\ s = t,
     [TAlu [Mov] [W64; W32] u (Imm (64));
      TAlu [Sub] [W64; W32] u (Reg n);
      TAlu [Mov] [W64] d (Reg s);
      TAlu [Lsh] [W64] d (Reg n);
      TAlu [Rsh] [W64] t (Reg u);
      TAlu [Or] [W64] d (Reg t)]);
    (d <> s /\ d <> n /\ d <> t /\ d <> u /\ s <> u /\ n <> t /\ n <> u /\ t <> u /\ s = t,
     [TAlu [Mov] [W64; W32] u (Reg n);
      TNeg [W64; W32] u;
      TAlu [Mov] [W64] d (Reg s);
      TAlu [Lsh] [W64] d (Reg n);
      TAlu [Rsh] [W64] t (Reg u);
      TAlu [Or] [W64] d (Reg t)]);
    (d <> s /\ d <> n /\ d <> t /\ d <> u /\ s <> u /\ n <> t /\ n <> u /\ t <> u /\ s = t,
     [TAlu [Mov] [W64; W32] u (Reg n);
      TNeg [W64; W32] u;
      TAlu [And] [W64; W32] u (Imm (63));
      TAlu [Mov] [W64] d (Reg s);
      TAlu [Lsh] [W64] d (Reg n);
      TAlu [Rsh] [W64] t (Reg u);
      TAlu [Or] [W64] d (Reg t)]) ].
Definition rotate_register_64_x86 (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : list (Prop * list X86.insn) :=
  [ (n = Bpf 4 /\ d <> Bpf 4 /\ d <> s, [X86.Mov W64 d s; X86.Rolcl W64 d (Bpf 4)]);
    (n <> Bpf 4 /\ d <> Bpf 4 /\ s <> Bpf 4 /\ d <> s /\ d <> n, [X86.Mov W64 (Scratch 0) (Bpf 4); X86.Mov W32 (Bpf 4) n; X86.Mov W64 d s; X86.Rolcl W64 d (Bpf 4); X86.Mov W64 (Bpf 4) (Scratch 0)]) ].
Definition rotate_register_64_a64 (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Neg W32 (Scratch 0) n; A64.Rorv W64 d s (Scratch 0)]) ].
