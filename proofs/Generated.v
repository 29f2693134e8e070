(** The rows of the operation table. Written by `BLESS=1 cargo test -p kiln-isa --test rocq`. *)

From Coq Require Import ZArith List.
From Kiln Require Import Bpf Agreement.
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
Definition rotate_left_32_x86_statement : Prop :=
  forall (d : Z) (s : Z) (t : Z) (k : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  rotate_left_32_allowed (Bpf d) (Bpf s) (Bpf t) k ->
  In (cond, form) (rotate_left_32_forms (Bpf d) (Bpf s) (Bpf t) k) -> cond -> instances form code ->
  In (cond', native) (rotate_left_32_x86 (Bpf d) (Bpf s) (Bpf t) k) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition rotate_left_32_a64 (d : reg) (s : reg) (t : reg) (k : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Extr W32 d s s (32 - k)]) ].
Definition rotate_left_32_a64_statement : Prop :=
  forall (d : Z) (s : Z) (t : Z) (k : Z) cond form code cond' native (st : regs), well_formed st ->
  rotate_left_32_allowed (Bpf d) (Bpf s) (Bpf t) k ->
  In (cond, form) (rotate_left_32_forms (Bpf d) (Bpf s) (Bpf t) k) -> cond -> instances form code ->
  In (cond', native) (rotate_left_32_a64 (Bpf d) (Bpf s) (Bpf t) k) -> cond' ->
  agrees [Bpf d] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

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
Definition rotate_left_64_x86_statement : Prop :=
  forall (d : Z) (s : Z) (t : Z) (k : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  rotate_left_64_allowed (Bpf d) (Bpf s) (Bpf t) k ->
  In (cond, form) (rotate_left_64_forms (Bpf d) (Bpf s) (Bpf t) k) -> cond -> instances form code ->
  In (cond', native) (rotate_left_64_x86 (Bpf d) (Bpf s) (Bpf t) k) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition rotate_left_64_a64 (d : reg) (s : reg) (t : reg) (k : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Extr W64 d s s (64 - k)]) ].
Definition rotate_left_64_a64_statement : Prop :=
  forall (d : Z) (s : Z) (t : Z) (k : Z) cond form code cond' native (st : regs), well_formed st ->
  rotate_left_64_allowed (Bpf d) (Bpf s) (Bpf t) k ->
  In (cond, form) (rotate_left_64_forms (Bpf d) (Bpf s) (Bpf t) k) -> cond -> instances form code ->
  In (cond', native) (rotate_left_64_a64 (Bpf d) (Bpf s) (Bpf t) k) -> cond' ->
  agrees [Bpf d] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

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
Definition rotate_register_32_x86_statement : Prop :=
  forall (d : Z) (s : Z) (n : Z) (t : Z) (u : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  rotate_register_32_allowed (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u) ->
  In (cond, form) (rotate_register_32_forms (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond -> instances form code ->
  In (cond', native) (rotate_register_32_x86 (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond' ->
  agrees [Bpf d] [Bpf t; Bpf u] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition rotate_register_32_a64 (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Neg W32 (Scratch 0) n; A64.Rorv W32 d s (Scratch 0)]) ].
Definition rotate_register_32_a64_statement : Prop :=
  forall (d : Z) (s : Z) (n : Z) (t : Z) (u : Z) cond form code cond' native (st : regs), well_formed st ->
  rotate_register_32_allowed (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u) ->
  In (cond, form) (rotate_register_32_forms (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond -> instances form code ->
  In (cond', native) (rotate_register_32_a64 (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond' ->
  agrees [Bpf d] [Bpf t; Bpf u] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

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
Definition rotate_register_64_x86_statement : Prop :=
  forall (d : Z) (s : Z) (n : Z) (t : Z) (u : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  rotate_register_64_allowed (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u) ->
  In (cond, form) (rotate_register_64_forms (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond -> instances form code ->
  In (cond', native) (rotate_register_64_x86 (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond' ->
  agrees [Bpf d] [Bpf t; Bpf u] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition rotate_register_64_a64 (d : reg) (s : reg) (n : reg) (t : reg) (u : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Neg W32 (Scratch 0) n; A64.Rorv W64 d s (Scratch 0)]) ].
Definition rotate_register_64_a64_statement : Prop :=
  forall (d : Z) (s : Z) (n : Z) (t : Z) (u : Z) cond form code cond' native (st : regs), well_formed st ->
  rotate_register_64_allowed (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u) ->
  In (cond, form) (rotate_register_64_forms (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond -> instances form code ->
  In (cond', native) (rotate_register_64_a64 (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond' ->
  agrees [Bpf d] [Bpf t; Bpf u] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** The bits of the lower half of m that are not in s. *)
Definition and_not_32_allowed (d : reg) (s : reg) (m : reg) (t : reg) : Prop := True.
Definition and_not_32_forms (d : reg) (s : reg) (m : reg) (t : reg) : list (Prop * list template) :=
  [ (d <> s /\ d <> m /\ d = t,
     [TAlu [Mov] [W64; W32] d (Reg s);
      TAlu [Xor] [W32] d (Imm (-1));
      TAlu [And] [W32] d (Reg m)]);
    (d = s /\ d <> m /\ d = t,
     [TAlu [Xor] [W32] d (Imm (-1));
      TAlu [And] [W32] d (Reg m)]);
    (d = m /\ d <> t /\ s <> t,
     [TAlu [Mov] [W64; W32] t (Reg s);
      TAlu [Xor] [W32] t (Imm (-1));
      TAlu [And] [W32] d (Reg t)]);
    (d = m /\ s = t /\ d <> t,
     [TAlu [Xor] [W32] t (Imm (-1));
      TAlu [And] [W32] d (Reg t)]) ].
Definition and_not_32_x86 (d : reg) (s : reg) (m : reg) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Andn W32 d s m]) ].
Definition and_not_32_x86_statement : Prop :=
  forall (d : Z) (s : Z) (m : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  and_not_32_allowed (Bpf d) (Bpf s) (Bpf m) (Bpf t) ->
  In (cond, form) (and_not_32_forms (Bpf d) (Bpf s) (Bpf m) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (and_not_32_x86 (Bpf d) (Bpf s) (Bpf m) (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition and_not_32_a64 (d : reg) (s : reg) (m : reg) (t : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Bic W32 d m s]) ].
Definition and_not_32_a64_statement : Prop :=
  forall (d : Z) (s : Z) (m : Z) (t : Z) cond form code cond' native (st : regs), well_formed st ->
  and_not_32_allowed (Bpf d) (Bpf s) (Bpf m) (Bpf t) ->
  In (cond, form) (and_not_32_forms (Bpf d) (Bpf s) (Bpf m) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (and_not_32_a64 (Bpf d) (Bpf s) (Bpf m) (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** The bits of m that are not in s. *)
Definition and_not_64_allowed (d : reg) (s : reg) (m : reg) (t : reg) : Prop := True.
Definition and_not_64_forms (d : reg) (s : reg) (m : reg) (t : reg) : list (Prop * list template) :=
  [ (d <> s /\ d <> m /\ d = t,
     [TAlu [Mov] [W64] d (Reg s);
      TAlu [Xor] [W64] d (Imm (-1));
      TAlu [And] [W64] d (Reg m)]);
    (d = s /\ d <> m /\ d = t,
     [TAlu [Xor] [W64] d (Imm (-1));
      TAlu [And] [W64] d (Reg m)]);
    (d = m /\ d <> t /\ s <> t,
     [TAlu [Mov] [W64] t (Reg s);
      TAlu [Xor] [W64] t (Imm (-1));
      TAlu [And] [W64] d (Reg t)]);
    (d = m /\ s = t /\ d <> t,
     [TAlu [Xor] [W64] t (Imm (-1));
      TAlu [And] [W64] d (Reg t)]) ].
Definition and_not_64_x86 (d : reg) (s : reg) (m : reg) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Andn W64 d s m]) ].
Definition and_not_64_x86_statement : Prop :=
  forall (d : Z) (s : Z) (m : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  and_not_64_allowed (Bpf d) (Bpf s) (Bpf m) (Bpf t) ->
  In (cond, form) (and_not_64_forms (Bpf d) (Bpf s) (Bpf m) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (and_not_64_x86 (Bpf d) (Bpf s) (Bpf m) (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition and_not_64_a64 (d : reg) (s : reg) (m : reg) (t : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Bic W64 d m s]) ].
Definition and_not_64_a64_statement : Prop :=
  forall (d : Z) (s : Z) (m : Z) (t : Z) cond form code cond' native (st : regs), well_formed st ->
  and_not_64_allowed (Bpf d) (Bpf s) (Bpf m) (Bpf t) ->
  In (cond, form) (and_not_64_forms (Bpf d) (Bpf s) (Bpf m) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (and_not_64_a64 (Bpf d) (Bpf s) (Bpf m) (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** The lowest 8 bits of s, with their sign. *)
Definition sign_extend_8_allowed (d : reg) (s : reg) : Prop := True.
Definition sign_extend_8_forms (d : reg) (s : reg) : list (Prop * list template) :=
  [ (d <> s,
     [TAlu [Mov] [W64] d (Reg s);
      TAlu [Lsh] [W64] d (Imm (56));
      TAlu [Arsh] [W64] d (Imm (56))]);
    (d = s,
     [TAlu [Lsh] [W64] d (Imm (56));
      TAlu [Arsh] [W64] d (Imm (56))]) ].
Definition sign_extend_8_x86 (d : reg) (s : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movsxb W64 d s]) ].
Definition sign_extend_8_x86_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  sign_extend_8_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_8_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_8_x86 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition sign_extend_8_a64 (d : reg) (s : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Sxtb W64 d s]) ].
Definition sign_extend_8_a64_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : regs), well_formed st ->
  sign_extend_8_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_8_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_8_a64 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** The lowest 16 bits of s, with their sign. *)
Definition sign_extend_16_allowed (d : reg) (s : reg) : Prop := True.
Definition sign_extend_16_forms (d : reg) (s : reg) : list (Prop * list template) :=
  [ (d <> s,
     [TAlu [Mov] [W64] d (Reg s);
      TAlu [Lsh] [W64] d (Imm (48));
      TAlu [Arsh] [W64] d (Imm (48))]);
    (d = s,
     [TAlu [Lsh] [W64] d (Imm (48));
      TAlu [Arsh] [W64] d (Imm (48))]) ].
Definition sign_extend_16_x86 (d : reg) (s : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movsxw W64 d s]) ].
Definition sign_extend_16_x86_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  sign_extend_16_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_16_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_16_x86 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition sign_extend_16_a64 (d : reg) (s : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Sxth W64 d s]) ].
Definition sign_extend_16_a64_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : regs), well_formed st ->
  sign_extend_16_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_16_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_16_a64 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** The lower half of s, with its sign. *)
Definition sign_extend_32_allowed (d : reg) (s : reg) : Prop := True.
Definition sign_extend_32_forms (d : reg) (s : reg) : list (Prop * list template) :=
  [ (d <> s,
     [TAlu [Mov] [W64] d (Reg s);
      TAlu [Lsh] [W64] d (Imm (32));
      TAlu [Arsh] [W64] d (Imm (32))]);
    (d = s,
     [TAlu [Lsh] [W64] d (Imm (32));
      TAlu [Arsh] [W64] d (Imm (32))]) ].
Definition sign_extend_32_x86 (d : reg) (s : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movsxd W64 d s]) ].
Definition sign_extend_32_x86_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  sign_extend_32_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_32_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_32_x86 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition sign_extend_32_a64 (d : reg) (s : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Sxtw W64 d s]) ].
Definition sign_extend_32_a64_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : regs), well_formed st ->
  sign_extend_32_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_32_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_32_a64 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** The lowest 8 bits of s, with their sign, as 32 bits. *)
Definition sign_extend_8_to_32_allowed (d : reg) (s : reg) : Prop := True.
Definition sign_extend_8_to_32_forms (d : reg) (s : reg) : list (Prop * list template) :=
  [ (d <> s,
     [TAlu [Mov] [W64; W32] d (Reg s);
      TAlu [Lsh] [W32] d (Imm (24));
      TAlu [Arsh] [W32] d (Imm (24))]);
    (d = s,
     [TAlu [Lsh] [W32] d (Imm (24));
      TAlu [Arsh] [W32] d (Imm (24))]) ].
Definition sign_extend_8_to_32_x86 (d : reg) (s : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movsxb W32 d s]) ].
Definition sign_extend_8_to_32_x86_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  sign_extend_8_to_32_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_8_to_32_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_8_to_32_x86 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition sign_extend_8_to_32_a64 (d : reg) (s : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Sxtb W32 d s]) ].
Definition sign_extend_8_to_32_a64_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : regs), well_formed st ->
  sign_extend_8_to_32_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_8_to_32_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_8_to_32_a64 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** The lowest 16 bits of s, with their sign, as 32 bits. *)
Definition sign_extend_16_to_32_allowed (d : reg) (s : reg) : Prop := True.
Definition sign_extend_16_to_32_forms (d : reg) (s : reg) : list (Prop * list template) :=
  [ (d <> s,
     [TAlu [Mov] [W64; W32] d (Reg s);
      TAlu [Lsh] [W32] d (Imm (16));
      TAlu [Arsh] [W32] d (Imm (16))]);
    (d = s,
     [TAlu [Lsh] [W32] d (Imm (16));
      TAlu [Arsh] [W32] d (Imm (16))]) ].
Definition sign_extend_16_to_32_x86 (d : reg) (s : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movsxw W32 d s]) ].
Definition sign_extend_16_to_32_x86_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  sign_extend_16_to_32_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_16_to_32_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_16_to_32_x86 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition sign_extend_16_to_32_a64 (d : reg) (s : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Sxth W32 d s]) ].
Definition sign_extend_16_to_32_a64_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : regs), well_formed st ->
  sign_extend_16_to_32_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (sign_extend_16_to_32_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (sign_extend_16_to_32_a64 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** The lower half of s. *)
Definition zero_extend_32_allowed (d : reg) (s : reg) : Prop := True.
Definition zero_extend_32_forms (d : reg) (s : reg) : list (Prop * list template) :=
  [ (d <> s,
     [TAlu [Mov] [W64] d (Reg s);
      TAlu [Lsh] [W64] d (Imm (32));
      TAlu [Rsh] [W64] d (Imm (32))]);
    (d = s,
     [TAlu [Lsh] [W64] d (Imm (32));
      TAlu [Rsh] [W64] d (Imm (32))]) ].
Definition zero_extend_32_x86 (d : reg) (s : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Mov W32 d s]) ].
Definition zero_extend_32_x86_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  zero_extend_32_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (zero_extend_32_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (zero_extend_32_x86 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition zero_extend_32_a64 (d : reg) (s : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Mov W32 d s]) ].
Definition zero_extend_32_a64_statement : Prop :=
  forall (d : Z) (s : Z) cond form code cond' native (st : regs), well_formed st ->
  zero_extend_32_allowed (Bpf d) (Bpf s) ->
  In (cond, form) (zero_extend_32_forms (Bpf d) (Bpf s)) -> cond -> instances form code ->
  In (cond', native) (zero_extend_32_a64 (Bpf d) (Bpf s)) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Adds b and i times two to the power of n. *)
Definition address_scaled_allowed (d : reg) (b : reg) (i : reg) (t : reg) (n : Z) : Prop := 1 <= n <= 3.
Definition address_scaled_forms (d : reg) (b : reg) (i : reg) (t : reg) (n : Z) : list (Prop * list template) :=
  [ (d = b /\ d <> t /\ i <> t,
     [TAlu [Mov] [W64] t (Reg i);
      TAlu [Lsh] [W64] t (Imm n);
      TAlu [Add] [W64] d (Reg t)]);
    (d = b /\ i = t /\ d <> t,
     [TAlu [Lsh] [W64] t (Imm n);
      TAlu [Add] [W64] d (Reg t)]);
    (d <> b /\ d <> i /\ d = t,
     [TAlu [Mov] [W64] d (Reg i);
      TAlu [Lsh] [W64] d (Imm n);
      TAlu [Add] [W64] d (Reg b)]);
    (d <> b /\ d = i /\ d = t,
     [TAlu [Lsh] [W64] d (Imm n);
      TAlu [Add] [W64] d (Reg b)]) ].
Definition address_scaled_x86 (d : reg) (b : reg) (i : reg) (t : reg) (n : Z) : list (Prop * list X86.insn) :=
  [ (True, [X86.Lea W64 d b i n]) ].
Definition address_scaled_x86_statement : Prop :=
  forall (d : Z) (b : Z) (i : Z) (t : Z) (n : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  address_scaled_allowed (Bpf d) (Bpf b) (Bpf i) (Bpf t) n ->
  In (cond, form) (address_scaled_forms (Bpf d) (Bpf b) (Bpf i) (Bpf t) n) -> cond -> instances form code ->
  In (cond', native) (address_scaled_x86 (Bpf d) (Bpf b) (Bpf i) (Bpf t) n) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition address_scaled_a64 (d : reg) (b : reg) (i : reg) (t : reg) (n : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Addlsl W64 d b i n]) ].
Definition address_scaled_a64_statement : Prop :=
  forall (d : Z) (b : Z) (i : Z) (t : Z) (n : Z) cond form code cond' native (st : regs), well_formed st ->
  address_scaled_allowed (Bpf d) (Bpf b) (Bpf i) (Bpf t) n ->
  In (cond, form) (address_scaled_forms (Bpf d) (Bpf b) (Bpf i) (Bpf t) n) -> cond -> instances form code ->
  In (cond', native) (address_scaled_a64 (Bpf d) (Bpf b) (Bpf i) (Bpf t) n) -> cond' ->
  agrees [Bpf d] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Loads 2 bytes in reverse order. *)
Definition load_swapped_16_allowed (d : reg) (b : reg) (o : Z) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767.
Definition load_swapped_16_forms (d : reg) (b : reg) (o : Z) : list (Prop * list template) :=
  [ (True,
     [TLoad 2%nat d b o;
      TSwap 2%nat d]) ].
Definition load_swapped_16_x86 (d : reg) (b : reg) (o : Z) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movzxw W32 d b o; X86.Rolw W32 d (8)]) ].
Definition load_swapped_16_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  load_swapped_16_allowed (Bpf d) (Bpf b) o ->
  In (cond, form) (load_swapped_16_forms (Bpf d) (Bpf b) o) -> cond -> instances form code ->
  In (cond', native) (load_swapped_16_x86 (Bpf d) (Bpf b) o) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition load_swapped_16_a64 (d : reg) (b : reg) (o : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Ldrh W32 d b o; A64.Reverse16 W32 d d]) ].
Definition load_swapped_16_a64_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) cond form code cond' native (st : regs), well_formed st ->
  load_swapped_16_allowed (Bpf d) (Bpf b) o ->
  In (cond, form) (load_swapped_16_forms (Bpf d) (Bpf b) o) -> cond -> instances form code ->
  In (cond', native) (load_swapped_16_a64 (Bpf d) (Bpf b) o) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Loads 4 bytes in reverse order. *)
Definition load_swapped_32_allowed (d : reg) (b : reg) (o : Z) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767.
Definition load_swapped_32_forms (d : reg) (b : reg) (o : Z) : list (Prop * list template) :=
  [ (True,
     [TLoad 4%nat d b o;
      TSwap 4%nat d]) ].
Definition load_swapped_32_x86 (d : reg) (b : reg) (o : Z) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movbe W32 d b o]) ].
Definition load_swapped_32_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  load_swapped_32_allowed (Bpf d) (Bpf b) o ->
  In (cond, form) (load_swapped_32_forms (Bpf d) (Bpf b) o) -> cond -> instances form code ->
  In (cond', native) (load_swapped_32_x86 (Bpf d) (Bpf b) o) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition load_swapped_32_a64 (d : reg) (b : reg) (o : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Ldr W32 d b o; A64.Rev W32 d d]) ].
Definition load_swapped_32_a64_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) cond form code cond' native (st : regs), well_formed st ->
  load_swapped_32_allowed (Bpf d) (Bpf b) o ->
  In (cond, form) (load_swapped_32_forms (Bpf d) (Bpf b) o) -> cond -> instances form code ->
  In (cond', native) (load_swapped_32_a64 (Bpf d) (Bpf b) o) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Loads 8 bytes in reverse order. *)
Definition load_swapped_64_allowed (d : reg) (b : reg) (o : Z) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767.
Definition load_swapped_64_forms (d : reg) (b : reg) (o : Z) : list (Prop * list template) :=
  [ (True,
     [TLoad 8%nat d b o;
      TSwap 8%nat d]) ].
Definition load_swapped_64_x86 (d : reg) (b : reg) (o : Z) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movbe W64 d b o]) ].
Definition load_swapped_64_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  load_swapped_64_allowed (Bpf d) (Bpf b) o ->
  In (cond, form) (load_swapped_64_forms (Bpf d) (Bpf b) o) -> cond -> instances form code ->
  In (cond', native) (load_swapped_64_x86 (Bpf d) (Bpf b) o) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition load_swapped_64_a64 (d : reg) (b : reg) (o : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Ldr W64 d b o; A64.Rev W64 d d]) ].
Definition load_swapped_64_a64_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) cond form code cond' native (st : regs), well_formed st ->
  load_swapped_64_allowed (Bpf d) (Bpf b) o ->
  In (cond, form) (load_swapped_64_forms (Bpf d) (Bpf b) o) -> cond -> instances form code ->
  In (cond', native) (load_swapped_64_a64 (Bpf d) (Bpf b) o) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Stores the lowest 2 bytes of s in reverse order. *)
Definition store_swapped_16_allowed (b : reg) (o : Z) (s : reg) (t : reg) : Prop := is_register b /\ -32768 <= o <= 32767 /\ is_register s /\ is_register t.
Definition store_swapped_16_forms (b : reg) (o : Z) (s : reg) (t : reg) : list (Prop * list template) :=
  [ (s <> t /\ b <> t,
     [TAlu [Mov] [W64; W32] t (Reg s);
      TSwap 2%nat t;
      TStore 2%nat b o (Reg t)]);
    (s = t /\ b <> t,
     [TSwap 2%nat t;
      TStore 2%nat b o (Reg t)]) ].
Definition store_swapped_16_x86 (b : reg) (o : Z) (s : reg) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movbestorew W32 b o s]) ].
Definition store_swapped_16_x86_statement : Prop :=
  forall (b : Z) (o : Z) (s : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  store_swapped_16_allowed (Bpf b) o (Bpf s) (Bpf t) ->
  In (cond, form) (store_swapped_16_forms (Bpf b) o (Bpf s) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (store_swapped_16_x86 (Bpf b) o (Bpf s) (Bpf t)) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition store_swapped_16_a64 (b : reg) (o : Z) (s : reg) (t : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Reverse16 W32 (Scratch 1) s; A64.Strh W32 b o (Scratch 1)]) ].
Definition store_swapped_16_a64_statement : Prop :=
  forall (b : Z) (o : Z) (s : Z) (t : Z) cond form code cond' native (st : regs), well_formed st ->
  store_swapped_16_allowed (Bpf b) o (Bpf s) (Bpf t) ->
  In (cond, form) (store_swapped_16_forms (Bpf b) o (Bpf s) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (store_swapped_16_a64 (Bpf b) o (Bpf s) (Bpf t)) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Stores the lowest 4 bytes of s in reverse order. *)
Definition store_swapped_32_allowed (b : reg) (o : Z) (s : reg) (t : reg) : Prop := is_register b /\ -32768 <= o <= 32767 /\ is_register s /\ is_register t.
Definition store_swapped_32_forms (b : reg) (o : Z) (s : reg) (t : reg) : list (Prop * list template) :=
  [ (s <> t /\ b <> t,
     [TAlu [Mov] [W64; W32] t (Reg s);
      TSwap 4%nat t;
      TStore 4%nat b o (Reg t)]);
    (s = t /\ b <> t,
     [TSwap 4%nat t;
      TStore 4%nat b o (Reg t)]) ].
Definition store_swapped_32_x86 (b : reg) (o : Z) (s : reg) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movbestore W32 b o s]) ].
Definition store_swapped_32_x86_statement : Prop :=
  forall (b : Z) (o : Z) (s : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  store_swapped_32_allowed (Bpf b) o (Bpf s) (Bpf t) ->
  In (cond, form) (store_swapped_32_forms (Bpf b) o (Bpf s) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (store_swapped_32_x86 (Bpf b) o (Bpf s) (Bpf t)) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition store_swapped_32_a64 (b : reg) (o : Z) (s : reg) (t : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Rev W32 (Scratch 1) s; A64.Str W32 b o (Scratch 1)]) ].
Definition store_swapped_32_a64_statement : Prop :=
  forall (b : Z) (o : Z) (s : Z) (t : Z) cond form code cond' native (st : regs), well_formed st ->
  store_swapped_32_allowed (Bpf b) o (Bpf s) (Bpf t) ->
  In (cond, form) (store_swapped_32_forms (Bpf b) o (Bpf s) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (store_swapped_32_a64 (Bpf b) o (Bpf s) (Bpf t)) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Stores the bytes of s in reverse order. *)
Definition store_swapped_64_allowed (b : reg) (o : Z) (s : reg) (t : reg) : Prop := is_register b /\ -32768 <= o <= 32767 /\ is_register s /\ is_register t.
Definition store_swapped_64_forms (b : reg) (o : Z) (s : reg) (t : reg) : list (Prop * list template) :=
  [ (s <> t /\ b <> t,
     [TAlu [Mov] [W64] t (Reg s);
      TSwap 8%nat t;
      TStore 8%nat b o (Reg t)]);
    (s = t /\ b <> t,
     [TSwap 8%nat t;
      TStore 8%nat b o (Reg t)]) ].
Definition store_swapped_64_x86 (b : reg) (o : Z) (s : reg) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Movbestore W64 b o s]) ].
Definition store_swapped_64_x86_statement : Prop :=
  forall (b : Z) (o : Z) (s : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  store_swapped_64_allowed (Bpf b) o (Bpf s) (Bpf t) ->
  In (cond, form) (store_swapped_64_forms (Bpf b) o (Bpf s) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (store_swapped_64_x86 (Bpf b) o (Bpf s) (Bpf t)) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition store_swapped_64_a64 (b : reg) (o : Z) (s : reg) (t : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Rev W64 (Scratch 1) s; A64.Str W64 b o (Scratch 1)]) ].
Definition store_swapped_64_a64_statement : Prop :=
  forall (b : Z) (o : Z) (s : Z) (t : Z) cond form code cond' native (st : regs), well_formed st ->
  store_swapped_64_allowed (Bpf b) o (Bpf s) (Bpf t) ->
  In (cond, form) (store_swapped_64_forms (Bpf b) o (Bpf s) (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (store_swapped_64_a64 (Bpf b) o (Bpf s) (Bpf t)) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Adds what memory holds to d. *)
Definition add_memory_32_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition add_memory_32_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 4%nat t b o;
      TAlu [Add] [W32] d (Reg t)]) ].
Definition add_memory_32_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Addm W32 d b o]) ].
Definition add_memory_32_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  add_memory_32_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (add_memory_32_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (add_memory_32_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition add_memory_32_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Adds what memory holds to d. *)
Definition add_memory_64_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition add_memory_64_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 8%nat t b o;
      TAlu [Add] [W64] d (Reg t)]) ].
Definition add_memory_64_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Addm W64 d b o]) ].
Definition add_memory_64_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  add_memory_64_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (add_memory_64_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (add_memory_64_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition add_memory_64_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Subtracts what memory holds from d. *)
Definition sub_memory_32_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition sub_memory_32_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 4%nat t b o;
      TAlu [Sub] [W32] d (Reg t)]) ].
Definition sub_memory_32_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Subm W32 d b o]) ].
Definition sub_memory_32_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  sub_memory_32_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (sub_memory_32_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (sub_memory_32_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition sub_memory_32_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Subtracts what memory holds from d. *)
Definition sub_memory_64_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition sub_memory_64_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 8%nat t b o;
      TAlu [Sub] [W64] d (Reg t)]) ].
Definition sub_memory_64_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Subm W64 d b o]) ].
Definition sub_memory_64_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  sub_memory_64_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (sub_memory_64_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (sub_memory_64_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition sub_memory_64_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Multiplies d by what memory holds. *)
Definition mul_memory_32_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition mul_memory_32_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 4%nat t b o;
      TAlu [Mul] [W32] d (Reg t)]) ].
Definition mul_memory_32_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Imulm W32 d b o]) ].
Definition mul_memory_32_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  mul_memory_32_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (mul_memory_32_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (mul_memory_32_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition mul_memory_32_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Multiplies d by what memory holds. *)
Definition mul_memory_64_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition mul_memory_64_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 8%nat t b o;
      TAlu [Mul] [W64] d (Reg t)]) ].
Definition mul_memory_64_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Imulm W64 d b o]) ].
Definition mul_memory_64_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  mul_memory_64_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (mul_memory_64_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (mul_memory_64_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition mul_memory_64_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Keeps the bits of d that memory holds, too. *)
Definition and_memory_32_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition and_memory_32_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 4%nat t b o;
      TAlu [And] [W32] d (Reg t)]) ].
Definition and_memory_32_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Andm W32 d b o]) ].
Definition and_memory_32_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  and_memory_32_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (and_memory_32_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (and_memory_32_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition and_memory_32_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Keeps the bits of d that memory holds, too. *)
Definition and_memory_64_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition and_memory_64_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 8%nat t b o;
      TAlu [And] [W64] d (Reg t)]) ].
Definition and_memory_64_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Andm W64 d b o]) ].
Definition and_memory_64_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  and_memory_64_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (and_memory_64_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (and_memory_64_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition and_memory_64_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Sets the bits of d that memory holds. *)
Definition or_memory_32_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition or_memory_32_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 4%nat t b o;
      TAlu [Or] [W32] d (Reg t)]) ].
Definition or_memory_32_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Orm W32 d b o]) ].
Definition or_memory_32_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  or_memory_32_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (or_memory_32_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (or_memory_32_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition or_memory_32_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Sets the bits of d that memory holds. *)
Definition or_memory_64_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition or_memory_64_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 8%nat t b o;
      TAlu [Or] [W64] d (Reg t)]) ].
Definition or_memory_64_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Orm W64 d b o]) ].
Definition or_memory_64_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  or_memory_64_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (or_memory_64_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (or_memory_64_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition or_memory_64_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Inverts the bits of d that memory holds. *)
Definition xor_memory_32_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition xor_memory_32_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 4%nat t b o;
      TAlu [Xor] [W32] d (Reg t)]) ].
Definition xor_memory_32_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Xorm W32 d b o]) ].
Definition xor_memory_32_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  xor_memory_32_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (xor_memory_32_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (xor_memory_32_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition xor_memory_32_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** Inverts the bits of d that memory holds. *)
Definition xor_memory_64_allowed (d : reg) (b : reg) (o : Z) (t : reg) : Prop := is_register d /\ is_register b /\ -32768 <= o <= 32767 /\ is_register t.
Definition xor_memory_64_forms (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list template) :=
  [ (d <> t,
     [TLoad 8%nat t b o;
      TAlu [Xor] [W64] d (Reg t)]) ].
Definition xor_memory_64_x86 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Xorm W64 d b o]) ].
Definition xor_memory_64_x86_statement : Prop :=
  forall (d : Z) (b : Z) (o : Z) (t : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  xor_memory_64_allowed (Bpf d) (Bpf b) o (Bpf t) ->
  In (cond, form) (xor_memory_64_forms (Bpf d) (Bpf b) o (Bpf t)) -> cond -> instances form code ->
  In (cond', native) (xor_memory_64_x86 (Bpf d) (Bpf b) o (Bpf t)) -> cond' ->
  agrees [Bpf d] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition xor_memory_64_a64 (d : reg) (b : reg) (o : Z) (t : reg) : list (Prop * list A64.insn) :=
  [  ].

(** One if the comparison c of the lower halves of a and b holds, zero if not. *)
Definition flag_32_allowed (d : reg) (a : reg) (b : reg) (c : condition) : Prop := is_register d /\ is_register a /\ is_register b.
Definition flag_32_forms (d : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list template) :=
  [ (d <> a /\ d <> b,
     [TAlu [Mov] [W64; W32] d (Imm (1));
      TUnless c W32 a (Reg b) (TAlu [Mov] [W64; W32] d (Imm (0)))]);
    (d <> a /\ d <> b,
     [TAlu [Mov] [W64; W32] d (Imm (0));
      TUnless (opposite c) W32 a (Reg b) (TAlu [Mov] [W64; W32] d (Imm (1)))]) ].
Definition flag_32_x86 (d : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list X86.insn) :=
  [ (True, [X86.Zero W32 d; X86.Cmp W32 a b; X86.Setcc W32 d c]) ].
Definition flag_32_x86_statement : Prop :=
  forall (d : Z) (a : Z) (b : Z) (c : condition) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  flag_32_allowed (Bpf d) (Bpf a) (Bpf b) c ->
  In (cond, form) (flag_32_forms (Bpf d) (Bpf a) (Bpf b) c) -> cond -> instances form code ->
  In (cond', native) (flag_32_x86 (Bpf d) (Bpf a) (Bpf b) c) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition flag_32_a64 (d : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list A64.insn) :=
  [ (True, [A64.Cmp W32 a b; A64.Cset W32 d c]) ].
Definition flag_32_a64_statement : Prop :=
  forall (d : Z) (a : Z) (b : Z) (c : condition) cond form code cond' native (st : regs), well_formed st ->
  flag_32_allowed (Bpf d) (Bpf a) (Bpf b) c ->
  In (cond, form) (flag_32_forms (Bpf d) (Bpf a) (Bpf b) c) -> cond -> instances form code ->
  In (cond', native) (flag_32_a64 (Bpf d) (Bpf a) (Bpf b) c) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** One if the comparison c of a and b holds, zero if not. *)
Definition flag_64_allowed (d : reg) (a : reg) (b : reg) (c : condition) : Prop := is_register d /\ is_register a /\ is_register b.
Definition flag_64_forms (d : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list template) :=
  [ (d <> a /\ d <> b,
     [TAlu [Mov] [W64; W32] d (Imm (1));
      TUnless c W64 a (Reg b) (TAlu [Mov] [W64; W32] d (Imm (0)))]);
    (d <> a /\ d <> b,
     [TAlu [Mov] [W64; W32] d (Imm (0));
      TUnless (opposite c) W64 a (Reg b) (TAlu [Mov] [W64; W32] d (Imm (1)))]) ].
Definition flag_64_x86 (d : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list X86.insn) :=
  [ (True, [X86.Zero W32 d; X86.Cmp W64 a b; X86.Setcc W32 d c]) ].
Definition flag_64_x86_statement : Prop :=
  forall (d : Z) (a : Z) (b : Z) (c : condition) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  flag_64_allowed (Bpf d) (Bpf a) (Bpf b) c ->
  In (cond, form) (flag_64_forms (Bpf d) (Bpf a) (Bpf b) c) -> cond -> instances form code ->
  In (cond', native) (flag_64_x86 (Bpf d) (Bpf a) (Bpf b) c) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition flag_64_a64 (d : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list A64.insn) :=
  [ (True, [A64.Cmp W64 a b; A64.Cset W32 d c]) ].
Definition flag_64_a64_statement : Prop :=
  forall (d : Z) (a : Z) (b : Z) (c : condition) cond form code cond' native (st : regs), well_formed st ->
  flag_64_allowed (Bpf d) (Bpf a) (Bpf b) c ->
  In (cond, form) (flag_64_forms (Bpf d) (Bpf a) (Bpf b) c) -> cond -> instances form code ->
  In (cond', native) (flag_64_a64 (Bpf d) (Bpf a) (Bpf b) c) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** One if the comparison c of the lower half of a with a number holds, zero if not. *)
Definition flag_constant_32_allowed (d : reg) (a : reg) (k : Z) (c : condition) : Prop := is_register d /\ is_register a /\ -2147483648 <= k <= 2147483647.
Definition flag_constant_32_forms (d : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list template) :=
  [ (d <> a,
     [TAlu [Mov] [W64; W32] d (Imm (1));
      TUnless c W32 a (Imm k) (TAlu [Mov] [W64; W32] d (Imm (0)))]);
    (d <> a,
     [TAlu [Mov] [W64; W32] d (Imm (0));
      TUnless (opposite c) W32 a (Imm k) (TAlu [Mov] [W64; W32] d (Imm (1)))]) ].
Definition flag_constant_32_x86 (d : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list X86.insn) :=
  [ (True, [X86.Zero W32 d; X86.Cmpi W32 a k; X86.Setcc W32 d c]) ].
Definition flag_constant_32_x86_statement : Prop :=
  forall (d : Z) (a : Z) (k : Z) (c : condition) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  flag_constant_32_allowed (Bpf d) (Bpf a) k c ->
  In (cond, form) (flag_constant_32_forms (Bpf d) (Bpf a) k c) -> cond -> instances form code ->
  In (cond', native) (flag_constant_32_x86 (Bpf d) (Bpf a) k c) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition flag_constant_32_a64 (d : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list A64.insn) :=
  [ (True, [A64.Cmpi W32 a k; A64.Cset W32 d c]) ].
Definition flag_constant_32_a64_statement : Prop :=
  forall (d : Z) (a : Z) (k : Z) (c : condition) cond form code cond' native (st : regs), well_formed st ->
  flag_constant_32_allowed (Bpf d) (Bpf a) k c ->
  In (cond, form) (flag_constant_32_forms (Bpf d) (Bpf a) k c) -> cond -> instances form code ->
  In (cond', native) (flag_constant_32_a64 (Bpf d) (Bpf a) k c) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** One if the comparison c of a with a number holds, zero if not. *)
Definition flag_constant_64_allowed (d : reg) (a : reg) (k : Z) (c : condition) : Prop := is_register d /\ is_register a /\ -2147483648 <= k <= 2147483647.
Definition flag_constant_64_forms (d : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list template) :=
  [ (d <> a,
     [TAlu [Mov] [W64; W32] d (Imm (1));
      TUnless c W64 a (Imm k) (TAlu [Mov] [W64; W32] d (Imm (0)))]);
    (d <> a,
     [TAlu [Mov] [W64; W32] d (Imm (0));
      TUnless (opposite c) W64 a (Imm k) (TAlu [Mov] [W64; W32] d (Imm (1)))]) ].
Definition flag_constant_64_x86 (d : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list X86.insn) :=
  [ (True, [X86.Zero W32 d; X86.Cmpi W64 a k; X86.Setcc W32 d c]) ].
Definition flag_constant_64_x86_statement : Prop :=
  forall (d : Z) (a : Z) (k : Z) (c : condition) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  flag_constant_64_allowed (Bpf d) (Bpf a) k c ->
  In (cond, form) (flag_constant_64_forms (Bpf d) (Bpf a) k c) -> cond -> instances form code ->
  In (cond', native) (flag_constant_64_x86 (Bpf d) (Bpf a) k c) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition flag_constant_64_a64 (d : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list A64.insn) :=
  [ (True, [A64.Cmpi W64 a k; A64.Cset W32 d c]) ].
Definition flag_constant_64_a64_statement : Prop :=
  forall (d : Z) (a : Z) (k : Z) (c : condition) cond form code cond' native (st : regs), well_formed st ->
  flag_constant_64_allowed (Bpf d) (Bpf a) k c ->
  In (cond, form) (flag_constant_64_forms (Bpf d) (Bpf a) k c) -> cond -> instances form code ->
  In (cond', native) (flag_constant_64_a64 (Bpf d) (Bpf a) k c) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Keeps d if the comparison c of the lower halves of a and b holds, and copies s to d if not. *)
Definition select_32_allowed (d : reg) (s : reg) (a : reg) (b : reg) (c : condition) : Prop := is_register d /\ is_register s /\ is_register a /\ is_register b.
Definition select_32_forms (d : reg) (s : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list template) :=
  [ (True,
     [TUnless c W32 a (Reg b) (TAlu [Mov] [W64] d (Reg s))]);
    (True,
     [TAlu [Mov] [W64] d (Reg d);
      TUnless c W32 a (Reg b) (TAlu [Mov] [W64] d (Reg s))]) ].
Definition select_32_x86 (d : reg) (s : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list X86.insn) :=
  [ (True, [X86.Cmp W32 a b; X86.Cmovncc W64 d s c]) ].
Definition select_32_x86_statement : Prop :=
  forall (d : Z) (s : Z) (a : Z) (b : Z) (c : condition) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  select_32_allowed (Bpf d) (Bpf s) (Bpf a) (Bpf b) c ->
  In (cond, form) (select_32_forms (Bpf d) (Bpf s) (Bpf a) (Bpf b) c) -> cond -> instances form code ->
  In (cond', native) (select_32_x86 (Bpf d) (Bpf s) (Bpf a) (Bpf b) c) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition select_32_a64 (d : reg) (s : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list A64.insn) :=
  [ (True, [A64.Cmp W32 a b; A64.Csel W64 d d s c]) ].
Definition select_32_a64_statement : Prop :=
  forall (d : Z) (s : Z) (a : Z) (b : Z) (c : condition) cond form code cond' native (st : regs), well_formed st ->
  select_32_allowed (Bpf d) (Bpf s) (Bpf a) (Bpf b) c ->
  In (cond, form) (select_32_forms (Bpf d) (Bpf s) (Bpf a) (Bpf b) c) -> cond -> instances form code ->
  In (cond', native) (select_32_a64 (Bpf d) (Bpf s) (Bpf a) (Bpf b) c) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Keeps d if the comparison c of a and b holds, and copies s to d if not. *)
Definition select_64_allowed (d : reg) (s : reg) (a : reg) (b : reg) (c : condition) : Prop := is_register d /\ is_register s /\ is_register a /\ is_register b.
Definition select_64_forms (d : reg) (s : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list template) :=
  [ (True,
     [TUnless c W64 a (Reg b) (TAlu [Mov] [W64] d (Reg s))]);
    (True,
     [TAlu [Mov] [W64] d (Reg d);
      TUnless c W64 a (Reg b) (TAlu [Mov] [W64] d (Reg s))]) ].
Definition select_64_x86 (d : reg) (s : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list X86.insn) :=
  [ (True, [X86.Cmp W64 a b; X86.Cmovncc W64 d s c]) ].
Definition select_64_x86_statement : Prop :=
  forall (d : Z) (s : Z) (a : Z) (b : Z) (c : condition) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  select_64_allowed (Bpf d) (Bpf s) (Bpf a) (Bpf b) c ->
  In (cond, form) (select_64_forms (Bpf d) (Bpf s) (Bpf a) (Bpf b) c) -> cond -> instances form code ->
  In (cond', native) (select_64_x86 (Bpf d) (Bpf s) (Bpf a) (Bpf b) c) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition select_64_a64 (d : reg) (s : reg) (a : reg) (b : reg) (c : condition) : list (Prop * list A64.insn) :=
  [ (True, [A64.Cmp W64 a b; A64.Csel W64 d d s c]) ].
Definition select_64_a64_statement : Prop :=
  forall (d : Z) (s : Z) (a : Z) (b : Z) (c : condition) cond form code cond' native (st : regs), well_formed st ->
  select_64_allowed (Bpf d) (Bpf s) (Bpf a) (Bpf b) c ->
  In (cond, form) (select_64_forms (Bpf d) (Bpf s) (Bpf a) (Bpf b) c) -> cond -> instances form code ->
  In (cond', native) (select_64_a64 (Bpf d) (Bpf s) (Bpf a) (Bpf b) c) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Keeps d if the comparison c of the lower half of a with a number holds, and copies s to d if not. *)
Definition select_constant_32_allowed (d : reg) (s : reg) (a : reg) (k : Z) (c : condition) : Prop := is_register d /\ is_register s /\ is_register a /\ -2147483648 <= k <= 2147483647.
Definition select_constant_32_forms (d : reg) (s : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list template) :=
  [ (True,
     [TUnless c W32 a (Imm k) (TAlu [Mov] [W64] d (Reg s))]);
    (True,
     [TAlu [Mov] [W64] d (Reg d);
      TUnless c W32 a (Imm k) (TAlu [Mov] [W64] d (Reg s))]) ].
Definition select_constant_32_x86 (d : reg) (s : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list X86.insn) :=
  [ (True, [X86.Cmpi W32 a k; X86.Cmovncc W64 d s c]) ].
Definition select_constant_32_x86_statement : Prop :=
  forall (d : Z) (s : Z) (a : Z) (k : Z) (c : condition) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  select_constant_32_allowed (Bpf d) (Bpf s) (Bpf a) k c ->
  In (cond, form) (select_constant_32_forms (Bpf d) (Bpf s) (Bpf a) k c) -> cond -> instances form code ->
  In (cond', native) (select_constant_32_x86 (Bpf d) (Bpf s) (Bpf a) k c) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition select_constant_32_a64 (d : reg) (s : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list A64.insn) :=
  [ (True, [A64.Cmpi W32 a k; A64.Csel W64 d d s c]) ].
Definition select_constant_32_a64_statement : Prop :=
  forall (d : Z) (s : Z) (a : Z) (k : Z) (c : condition) cond form code cond' native (st : regs), well_formed st ->
  select_constant_32_allowed (Bpf d) (Bpf s) (Bpf a) k c ->
  In (cond, form) (select_constant_32_forms (Bpf d) (Bpf s) (Bpf a) k c) -> cond -> instances form code ->
  In (cond', native) (select_constant_32_a64 (Bpf d) (Bpf s) (Bpf a) k c) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Keeps d if the comparison c of a with a number holds, and copies s to d if not. *)
Definition select_constant_64_allowed (d : reg) (s : reg) (a : reg) (k : Z) (c : condition) : Prop := is_register d /\ is_register s /\ is_register a /\ -2147483648 <= k <= 2147483647.
Definition select_constant_64_forms (d : reg) (s : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list template) :=
  [ (True,
     [TUnless c W64 a (Imm k) (TAlu [Mov] [W64] d (Reg s))]);
    (True,
     [TAlu [Mov] [W64] d (Reg d);
      TUnless c W64 a (Imm k) (TAlu [Mov] [W64] d (Reg s))]) ].
Definition select_constant_64_x86 (d : reg) (s : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list X86.insn) :=
  [ (True, [X86.Cmpi W64 a k; X86.Cmovncc W64 d s c]) ].
Definition select_constant_64_x86_statement : Prop :=
  forall (d : Z) (s : Z) (a : Z) (k : Z) (c : condition) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  select_constant_64_allowed (Bpf d) (Bpf s) (Bpf a) k c ->
  In (cond, form) (select_constant_64_forms (Bpf d) (Bpf s) (Bpf a) k c) -> cond -> instances form code ->
  In (cond', native) (select_constant_64_x86 (Bpf d) (Bpf s) (Bpf a) k c) -> cond' ->
  agrees [Bpf d] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition select_constant_64_a64 (d : reg) (s : reg) (a : reg) (k : Z) (c : condition) : list (Prop * list A64.insn) :=
  [ (True, [A64.Cmpi W64 a k; A64.Csel W64 d d s c]) ].
Definition select_constant_64_a64_statement : Prop :=
  forall (d : Z) (s : Z) (a : Z) (k : Z) (c : condition) cond form code cond' native (st : regs), well_formed st ->
  select_constant_64_allowed (Bpf d) (Bpf s) (Bpf a) k c ->
  In (cond, form) (select_constant_64_forms (Bpf d) (Bpf s) (Bpf a) k c) -> cond -> instances form code ->
  In (cond', native) (select_constant_64_a64 (Bpf d) (Bpf s) (Bpf a) k c) -> cond' ->
  agrees [Bpf d] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if the lower half of a is one of the numbers. *)
Definition branch_if_any_32_allowed (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : Prop := is_register a /\ -2147483647 <= k1 <= 2147483647 /\ -2147483647 <= k2 <= 2147483647 /\ -2147483647 <= k3 <= 2147483647 /\ -2147483647 <= k4 <= 2147483647 /\ -2147483647 <= k5 <= 2147483647 /\ -2147483647 <= k6 <= 2147483647 /\ -2147483647 <= k7 <= 2147483647.
Definition branch_if_any_32_forms (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list template) :=
  [ (True,
     [TLeave [LeaveIf IsEq W32 a (Imm k1);
       LeaveIf IsEq W32 a (Imm k2);
       LeaveIf IsEq W32 a (Imm k3);
       LeaveIf IsEq W32 a (Imm k4);
       LeaveIf IsEq W32 a (Imm k5);
       LeaveIf IsEq W32 a (Imm k6);
       LeaveIf IsEq W32 a (Imm k7)]]);
    (k6 = k7,
     [TLeave [LeaveIf IsEq W32 a (Imm k1);
       LeaveIf IsEq W32 a (Imm k2);
       LeaveIf IsEq W32 a (Imm k3);
       LeaveIf IsEq W32 a (Imm k4);
       LeaveIf IsEq W32 a (Imm k5);
       LeaveIf IsEq W32 a (Imm k6)]]);
    (k5 = k6 /\ k5 = k7,
     [TLeave [LeaveIf IsEq W32 a (Imm k1);
       LeaveIf IsEq W32 a (Imm k2);
       LeaveIf IsEq W32 a (Imm k3);
       LeaveIf IsEq W32 a (Imm k4);
       LeaveIf IsEq W32 a (Imm k5)]]);
    (k4 = k5 /\ k4 = k6 /\ k4 = k7,
     [TLeave [LeaveIf IsEq W32 a (Imm k1);
       LeaveIf IsEq W32 a (Imm k2);
       LeaveIf IsEq W32 a (Imm k3);
       LeaveIf IsEq W32 a (Imm k4)]]);
    (k3 = k4 /\ k3 = k5 /\ k3 = k6 /\ k3 = k7,
     [TLeave [LeaveIf IsEq W32 a (Imm k1);
       LeaveIf IsEq W32 a (Imm k2);
       LeaveIf IsEq W32 a (Imm k3)]]) ].
Definition branch_if_any_32_x86 (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list X86.insn) :=
  [ (within 64 [k1; k2; k3; k4; k5; k6; k7], [X86.Leaminus W32 (Scratch 0) a (least [k1; k2; k3; k4; k5; k6; k7]); X86.Movset W64 (Scratch 1) (set_of [k1; k2; k3; k4; k5; k6; k7]); X86.Bt W64 (Scratch 1) (Scratch 0); X86.Sbb W32 (Scratch 1); X86.Andi W32 (Scratch 1) (64); X86.Cmp W64 (Scratch 0) (Scratch 1); X86.Jcc W64 IsLt]) ].
Definition branch_if_any_32_x86_statement : Prop :=
  forall (a : Z) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_any_32_allowed (Bpf a) k1 k2 k3 k4 k5 k6 k7 ->
  In (cond, form) (branch_if_any_32_forms (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  In (cond', native) (branch_if_any_32_x86 (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond' ->
  agrees [] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_any_32_a64 (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list A64.insn) :=
  [ (within 64 [k1; k2; k3; k4; k5; k6; k7], [A64.Subi W32 (Scratch 0) a (least [k1; k2; k3; k4; k5; k6; k7]); A64.Movset W64 (Scratch 1) (set_of [k1; k2; k3; k4; k5; k6; k7]); A64.Lsrv W64 (Scratch 1) (Scratch 1) (Scratch 0); A64.Andi W64 (Scratch 1) (Scratch 1) (1); A64.Cmplsl W64 (Scratch 0) (Scratch 1) (6); A64.Bcond W64 IsLt]) ].
Definition branch_if_any_32_a64_statement : Prop :=
  forall (a : Z) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_any_32_allowed (Bpf a) k1 k2 k3 k4 k5 k6 k7 ->
  In (cond, form) (branch_if_any_32_forms (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  In (cond', native) (branch_if_any_32_a64 (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond' ->
  agrees [] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if a is one of the numbers. *)
Definition branch_if_any_64_allowed (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : Prop := is_register a /\ -2147483647 <= k1 <= 2147483647 /\ -2147483647 <= k2 <= 2147483647 /\ -2147483647 <= k3 <= 2147483647 /\ -2147483647 <= k4 <= 2147483647 /\ -2147483647 <= k5 <= 2147483647 /\ -2147483647 <= k6 <= 2147483647 /\ -2147483647 <= k7 <= 2147483647.
Definition branch_if_any_64_forms (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list template) :=
  [ (True,
     [TLeave [LeaveIf IsEq W64 a (Imm k1);
       LeaveIf IsEq W64 a (Imm k2);
       LeaveIf IsEq W64 a (Imm k3);
       LeaveIf IsEq W64 a (Imm k4);
       LeaveIf IsEq W64 a (Imm k5);
       LeaveIf IsEq W64 a (Imm k6);
       LeaveIf IsEq W64 a (Imm k7)]]);
    (k6 = k7,
     [TLeave [LeaveIf IsEq W64 a (Imm k1);
       LeaveIf IsEq W64 a (Imm k2);
       LeaveIf IsEq W64 a (Imm k3);
       LeaveIf IsEq W64 a (Imm k4);
       LeaveIf IsEq W64 a (Imm k5);
       LeaveIf IsEq W64 a (Imm k6)]]);
    (k5 = k6 /\ k5 = k7,
     [TLeave [LeaveIf IsEq W64 a (Imm k1);
       LeaveIf IsEq W64 a (Imm k2);
       LeaveIf IsEq W64 a (Imm k3);
       LeaveIf IsEq W64 a (Imm k4);
       LeaveIf IsEq W64 a (Imm k5)]]);
    (k4 = k5 /\ k4 = k6 /\ k4 = k7,
     [TLeave [LeaveIf IsEq W64 a (Imm k1);
       LeaveIf IsEq W64 a (Imm k2);
       LeaveIf IsEq W64 a (Imm k3);
       LeaveIf IsEq W64 a (Imm k4)]]);
    (k3 = k4 /\ k3 = k5 /\ k3 = k6 /\ k3 = k7,
     [TLeave [LeaveIf IsEq W64 a (Imm k1);
       LeaveIf IsEq W64 a (Imm k2);
       LeaveIf IsEq W64 a (Imm k3)]]) ].
Definition branch_if_any_64_x86 (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list X86.insn) :=
  [ (within 64 [k1; k2; k3; k4; k5; k6; k7], [X86.Leaminus W64 (Scratch 0) a (least [k1; k2; k3; k4; k5; k6; k7]); X86.Movset W64 (Scratch 1) (set_of [k1; k2; k3; k4; k5; k6; k7]); X86.Bt W64 (Scratch 1) (Scratch 0); X86.Sbb W32 (Scratch 1); X86.Andi W32 (Scratch 1) (64); X86.Cmp W64 (Scratch 0) (Scratch 1); X86.Jcc W64 IsLt]) ].
Definition branch_if_any_64_x86_statement : Prop :=
  forall (a : Z) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_any_64_allowed (Bpf a) k1 k2 k3 k4 k5 k6 k7 ->
  In (cond, form) (branch_if_any_64_forms (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  In (cond', native) (branch_if_any_64_x86 (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond' ->
  agrees [] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_any_64_a64 (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list A64.insn) :=
  [ (within 64 [k1; k2; k3; k4; k5; k6; k7], [A64.Subi W64 (Scratch 0) a (least [k1; k2; k3; k4; k5; k6; k7]); A64.Movset W64 (Scratch 1) (set_of [k1; k2; k3; k4; k5; k6; k7]); A64.Lsrv W64 (Scratch 1) (Scratch 1) (Scratch 0); A64.Andi W64 (Scratch 1) (Scratch 1) (1); A64.Cmplsl W64 (Scratch 0) (Scratch 1) (6); A64.Bcond W64 IsLt]) ].
Definition branch_if_any_64_a64_statement : Prop :=
  forall (a : Z) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_any_64_allowed (Bpf a) k1 k2 k3 k4 k5 k6 k7 ->
  In (cond, form) (branch_if_any_64_forms (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  In (cond', native) (branch_if_any_64_a64 (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond' ->
  agrees [] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if the lower half of a is none of the numbers. *)
Definition branch_if_none_32_allowed (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : Prop := is_register a /\ -2147483647 <= k1 <= 2147483647 /\ -2147483647 <= k2 <= 2147483647 /\ -2147483647 <= k3 <= 2147483647 /\ -2147483647 <= k4 <= 2147483647 /\ -2147483647 <= k5 <= 2147483647 /\ -2147483647 <= k6 <= 2147483647 /\ -2147483647 <= k7 <= 2147483647.
Definition branch_if_none_32_forms (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list template) :=
  [ (True,
     [TLeave [SkipIf IsEq W32 a (Imm k1);
       SkipIf IsEq W32 a (Imm k2);
       SkipIf IsEq W32 a (Imm k3);
       SkipIf IsEq W32 a (Imm k4);
       SkipIf IsEq W32 a (Imm k5);
       SkipIf IsEq W32 a (Imm k6);
       LeaveIf IsNe W32 a (Imm k7)]]);
    (k6 = k7,
     [TLeave [SkipIf IsEq W32 a (Imm k1);
       SkipIf IsEq W32 a (Imm k2);
       SkipIf IsEq W32 a (Imm k3);
       SkipIf IsEq W32 a (Imm k4);
       SkipIf IsEq W32 a (Imm k5);
       LeaveIf IsNe W32 a (Imm k6)]]);
    (k5 = k6 /\ k5 = k7,
     [TLeave [SkipIf IsEq W32 a (Imm k1);
       SkipIf IsEq W32 a (Imm k2);
       SkipIf IsEq W32 a (Imm k3);
       SkipIf IsEq W32 a (Imm k4);
       LeaveIf IsNe W32 a (Imm k5)]]);
    (k4 = k5 /\ k4 = k6 /\ k4 = k7,
     [TLeave [SkipIf IsEq W32 a (Imm k1);
       SkipIf IsEq W32 a (Imm k2);
       SkipIf IsEq W32 a (Imm k3);
       LeaveIf IsNe W32 a (Imm k4)]]);
    (k3 = k4 /\ k3 = k5 /\ k3 = k6 /\ k3 = k7,
     [TLeave [SkipIf IsEq W32 a (Imm k1);
       SkipIf IsEq W32 a (Imm k2);
       LeaveIf IsNe W32 a (Imm k3)]]) ].
Definition branch_if_none_32_x86 (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list X86.insn) :=
  [ (within 64 [k1; k2; k3; k4; k5; k6; k7], [X86.Leaminus W32 (Scratch 0) a (least [k1; k2; k3; k4; k5; k6; k7]); X86.Movset W64 (Scratch 1) (set_of [k1; k2; k3; k4; k5; k6; k7]); X86.Bt W64 (Scratch 1) (Scratch 0); X86.Sbb W32 (Scratch 1); X86.Andi W32 (Scratch 1) (64); X86.Cmp W64 (Scratch 0) (Scratch 1); X86.Jcc W64 IsGe]) ].
Definition branch_if_none_32_x86_statement : Prop :=
  forall (a : Z) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_none_32_allowed (Bpf a) k1 k2 k3 k4 k5 k6 k7 ->
  In (cond, form) (branch_if_none_32_forms (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  In (cond', native) (branch_if_none_32_x86 (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond' ->
  agrees [] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_none_32_a64 (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list A64.insn) :=
  [ (within 64 [k1; k2; k3; k4; k5; k6; k7], [A64.Subi W32 (Scratch 0) a (least [k1; k2; k3; k4; k5; k6; k7]); A64.Movset W64 (Scratch 1) (set_of [k1; k2; k3; k4; k5; k6; k7]); A64.Lsrv W64 (Scratch 1) (Scratch 1) (Scratch 0); A64.Andi W64 (Scratch 1) (Scratch 1) (1); A64.Cmplsl W64 (Scratch 0) (Scratch 1) (6); A64.Bcond W64 IsGe]) ].
Definition branch_if_none_32_a64_statement : Prop :=
  forall (a : Z) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_none_32_allowed (Bpf a) k1 k2 k3 k4 k5 k6 k7 ->
  In (cond, form) (branch_if_none_32_forms (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  In (cond', native) (branch_if_none_32_a64 (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond' ->
  agrees [] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if a is none of the numbers. *)
Definition branch_if_none_64_allowed (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : Prop := is_register a /\ -2147483647 <= k1 <= 2147483647 /\ -2147483647 <= k2 <= 2147483647 /\ -2147483647 <= k3 <= 2147483647 /\ -2147483647 <= k4 <= 2147483647 /\ -2147483647 <= k5 <= 2147483647 /\ -2147483647 <= k6 <= 2147483647 /\ -2147483647 <= k7 <= 2147483647.
Definition branch_if_none_64_forms (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list template) :=
  [ (True,
     [TLeave [SkipIf IsEq W64 a (Imm k1);
       SkipIf IsEq W64 a (Imm k2);
       SkipIf IsEq W64 a (Imm k3);
       SkipIf IsEq W64 a (Imm k4);
       SkipIf IsEq W64 a (Imm k5);
       SkipIf IsEq W64 a (Imm k6);
       LeaveIf IsNe W64 a (Imm k7)]]);
    (k6 = k7,
     [TLeave [SkipIf IsEq W64 a (Imm k1);
       SkipIf IsEq W64 a (Imm k2);
       SkipIf IsEq W64 a (Imm k3);
       SkipIf IsEq W64 a (Imm k4);
       SkipIf IsEq W64 a (Imm k5);
       LeaveIf IsNe W64 a (Imm k6)]]);
    (k5 = k6 /\ k5 = k7,
     [TLeave [SkipIf IsEq W64 a (Imm k1);
       SkipIf IsEq W64 a (Imm k2);
       SkipIf IsEq W64 a (Imm k3);
       SkipIf IsEq W64 a (Imm k4);
       LeaveIf IsNe W64 a (Imm k5)]]);
    (k4 = k5 /\ k4 = k6 /\ k4 = k7,
     [TLeave [SkipIf IsEq W64 a (Imm k1);
       SkipIf IsEq W64 a (Imm k2);
       SkipIf IsEq W64 a (Imm k3);
       LeaveIf IsNe W64 a (Imm k4)]]);
    (k3 = k4 /\ k3 = k5 /\ k3 = k6 /\ k3 = k7,
     [TLeave [SkipIf IsEq W64 a (Imm k1);
       SkipIf IsEq W64 a (Imm k2);
       LeaveIf IsNe W64 a (Imm k3)]]) ].
Definition branch_if_none_64_x86 (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list X86.insn) :=
  [ (within 64 [k1; k2; k3; k4; k5; k6; k7], [X86.Leaminus W64 (Scratch 0) a (least [k1; k2; k3; k4; k5; k6; k7]); X86.Movset W64 (Scratch 1) (set_of [k1; k2; k3; k4; k5; k6; k7]); X86.Bt W64 (Scratch 1) (Scratch 0); X86.Sbb W32 (Scratch 1); X86.Andi W32 (Scratch 1) (64); X86.Cmp W64 (Scratch 0) (Scratch 1); X86.Jcc W64 IsGe]) ].
Definition branch_if_none_64_x86_statement : Prop :=
  forall (a : Z) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_none_64_allowed (Bpf a) k1 k2 k3 k4 k5 k6 k7 ->
  In (cond, form) (branch_if_none_64_forms (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  In (cond', native) (branch_if_none_64_x86 (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond' ->
  agrees [] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_none_64_a64 (a : reg) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) : list (Prop * list A64.insn) :=
  [ (within 64 [k1; k2; k3; k4; k5; k6; k7], [A64.Subi W64 (Scratch 0) a (least [k1; k2; k3; k4; k5; k6; k7]); A64.Movset W64 (Scratch 1) (set_of [k1; k2; k3; k4; k5; k6; k7]); A64.Lsrv W64 (Scratch 1) (Scratch 1) (Scratch 0); A64.Andi W64 (Scratch 1) (Scratch 1) (1); A64.Cmplsl W64 (Scratch 0) (Scratch 1) (6); A64.Bcond W64 IsGe]) ].
Definition branch_if_none_64_a64_statement : Prop :=
  forall (a : Z) (k1 : Z) (k2 : Z) (k3 : Z) (k4 : Z) (k5 : Z) (k6 : Z) (k7 : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_none_64_allowed (Bpf a) k1 k2 k3 k4 k5 k6 k7 ->
  In (cond, form) (branch_if_none_64_forms (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  In (cond', native) (branch_if_none_64_a64 (Bpf a) k1 k2 k3 k4 k5 k6 k7) -> cond' ->
  agrees [] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if the lower halves of a and b have a common bit. *)
Definition branch_if_bits_32_allowed (t : reg) (a : reg) (b : reg) : Prop := is_register t /\ is_register a /\ is_register b.
Definition branch_if_bits_32_forms (t : reg) (a : reg) (b : reg) : list (Prop * list template) :=
  [ (t <> a /\ t <> b,
     [TAlu [Mov] [W64; W32] t (Reg a);
      TAlu [And] [W64; W32] t (Reg b);
      TLeave [LeaveIf IsNe W32 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W64; W32] t (Reg b);
      TLeave [LeaveIf IsNe W32 t (Imm (0))]]);
    (t <> a /\ t <> b,
     [TAlu [Mov] [W64; W32] t (Reg a);
      TAlu [And] [W32] t (Reg b);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]);
    (t <> a /\ t <> b,
     [TAlu [Mov] [W32] t (Reg a);
      TAlu [And] [W64] t (Reg b);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W32] t (Reg b);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]) ].
Definition branch_if_bits_32_x86 (t : reg) (a : reg) (b : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Test W32 a b; X86.Jcc W64 IsNe]) ].
Definition branch_if_bits_32_x86_statement : Prop :=
  forall (t : Z) (a : Z) (b : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_bits_32_allowed (Bpf t) (Bpf a) (Bpf b) ->
  In (cond, form) (branch_if_bits_32_forms (Bpf t) (Bpf a) (Bpf b)) -> cond -> instances form code ->
  In (cond', native) (branch_if_bits_32_x86 (Bpf t) (Bpf a) (Bpf b)) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_bits_32_a64 (t : reg) (a : reg) (b : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Tst W32 a b; A64.Bcond W64 IsNe]) ].
Definition branch_if_bits_32_a64_statement : Prop :=
  forall (t : Z) (a : Z) (b : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_bits_32_allowed (Bpf t) (Bpf a) (Bpf b) ->
  In (cond, form) (branch_if_bits_32_forms (Bpf t) (Bpf a) (Bpf b)) -> cond -> instances form code ->
  In (cond', native) (branch_if_bits_32_a64 (Bpf t) (Bpf a) (Bpf b)) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if a and b have a common bit. *)
Definition branch_if_bits_64_allowed (t : reg) (a : reg) (b : reg) : Prop := is_register t /\ is_register a /\ is_register b.
Definition branch_if_bits_64_forms (t : reg) (a : reg) (b : reg) : list (Prop * list template) :=
  [ (t <> a /\ t <> b,
     [TAlu [Mov] [W64] t (Reg a);
      TAlu [And] [W64] t (Reg b);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W64] t (Reg b);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]) ].
Definition branch_if_bits_64_x86 (t : reg) (a : reg) (b : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Test W64 a b; X86.Jcc W64 IsNe]) ].
Definition branch_if_bits_64_x86_statement : Prop :=
  forall (t : Z) (a : Z) (b : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_bits_64_allowed (Bpf t) (Bpf a) (Bpf b) ->
  In (cond, form) (branch_if_bits_64_forms (Bpf t) (Bpf a) (Bpf b)) -> cond -> instances form code ->
  In (cond', native) (branch_if_bits_64_x86 (Bpf t) (Bpf a) (Bpf b)) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_bits_64_a64 (t : reg) (a : reg) (b : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Tst W64 a b; A64.Bcond W64 IsNe]) ].
Definition branch_if_bits_64_a64_statement : Prop :=
  forall (t : Z) (a : Z) (b : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_bits_64_allowed (Bpf t) (Bpf a) (Bpf b) ->
  In (cond, form) (branch_if_bits_64_forms (Bpf t) (Bpf a) (Bpf b)) -> cond -> instances form code ->
  In (cond', native) (branch_if_bits_64_a64 (Bpf t) (Bpf a) (Bpf b)) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if the lower halves of a and b have no common bit. *)
Definition branch_if_no_bits_32_allowed (t : reg) (a : reg) (b : reg) : Prop := is_register t /\ is_register a /\ is_register b.
Definition branch_if_no_bits_32_forms (t : reg) (a : reg) (b : reg) : list (Prop * list template) :=
  [ (t <> a /\ t <> b,
     [TAlu [Mov] [W64; W32] t (Reg a);
      TAlu [And] [W64; W32] t (Reg b);
      TLeave [LeaveIf IsEq W32 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W64; W32] t (Reg b);
      TLeave [LeaveIf IsEq W32 t (Imm (0))]]);
    (t <> a /\ t <> b,
     [TAlu [Mov] [W64; W32] t (Reg a);
      TAlu [And] [W32] t (Reg b);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]);
    (t <> a /\ t <> b,
     [TAlu [Mov] [W32] t (Reg a);
      TAlu [And] [W64] t (Reg b);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W32] t (Reg b);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]) ].
Definition branch_if_no_bits_32_x86 (t : reg) (a : reg) (b : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Test W32 a b; X86.Jcc W64 IsEq]) ].
Definition branch_if_no_bits_32_x86_statement : Prop :=
  forall (t : Z) (a : Z) (b : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_no_bits_32_allowed (Bpf t) (Bpf a) (Bpf b) ->
  In (cond, form) (branch_if_no_bits_32_forms (Bpf t) (Bpf a) (Bpf b)) -> cond -> instances form code ->
  In (cond', native) (branch_if_no_bits_32_x86 (Bpf t) (Bpf a) (Bpf b)) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_no_bits_32_a64 (t : reg) (a : reg) (b : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Tst W32 a b; A64.Bcond W64 IsEq]) ].
Definition branch_if_no_bits_32_a64_statement : Prop :=
  forall (t : Z) (a : Z) (b : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_no_bits_32_allowed (Bpf t) (Bpf a) (Bpf b) ->
  In (cond, form) (branch_if_no_bits_32_forms (Bpf t) (Bpf a) (Bpf b)) -> cond -> instances form code ->
  In (cond', native) (branch_if_no_bits_32_a64 (Bpf t) (Bpf a) (Bpf b)) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if a and b have no common bit. *)
Definition branch_if_no_bits_64_allowed (t : reg) (a : reg) (b : reg) : Prop := is_register t /\ is_register a /\ is_register b.
Definition branch_if_no_bits_64_forms (t : reg) (a : reg) (b : reg) : list (Prop * list template) :=
  [ (t <> a /\ t <> b,
     [TAlu [Mov] [W64] t (Reg a);
      TAlu [And] [W64] t (Reg b);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W64] t (Reg b);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]) ].
Definition branch_if_no_bits_64_x86 (t : reg) (a : reg) (b : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Test W64 a b; X86.Jcc W64 IsEq]) ].
Definition branch_if_no_bits_64_x86_statement : Prop :=
  forall (t : Z) (a : Z) (b : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_no_bits_64_allowed (Bpf t) (Bpf a) (Bpf b) ->
  In (cond, form) (branch_if_no_bits_64_forms (Bpf t) (Bpf a) (Bpf b)) -> cond -> instances form code ->
  In (cond', native) (branch_if_no_bits_64_x86 (Bpf t) (Bpf a) (Bpf b)) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_no_bits_64_a64 (t : reg) (a : reg) (b : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Tst W64 a b; A64.Bcond W64 IsEq]) ].
Definition branch_if_no_bits_64_a64_statement : Prop :=
  forall (t : Z) (a : Z) (b : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_no_bits_64_allowed (Bpf t) (Bpf a) (Bpf b) ->
  In (cond, form) (branch_if_no_bits_64_forms (Bpf t) (Bpf a) (Bpf b)) -> cond -> instances form code ->
  In (cond', native) (branch_if_no_bits_64_a64 (Bpf t) (Bpf a) (Bpf b)) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if the lower half of a has a bit of a number. *)
Definition branch_if_bits_constant_32_allowed (t : reg) (a : reg) (k : Z) : Prop := is_register t /\ is_register a /\ -2147483648 <= k <= 2147483647.
Definition branch_if_bits_constant_32_forms (t : reg) (a : reg) (k : Z) : list (Prop * list template) :=
  [ (t <> a,
     [TAlu [Mov] [W64; W32] t (Reg a);
      TAlu [And] [W64; W32] t (Imm k);
      TLeave [LeaveIf IsNe W32 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W64; W32] t (Imm k);
      TLeave [LeaveIf IsNe W32 t (Imm (0))]]);
    (t <> a,
     [TAlu [Mov] [W64; W32] t (Reg a);
      TAlu [And] [W32] t (Imm k);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]);
    (t <> a,
     [TAlu [Mov] [W32] t (Reg a);
      TAlu [And] [W64] t (Imm k);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W32] t (Imm k);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]) ].
Definition branch_if_bits_constant_32_x86 (t : reg) (a : reg) (k : Z) : list (Prop * list X86.insn) :=
  [ (True, [X86.Testi W32 a k; X86.Jcc W64 IsNe]) ].
Definition branch_if_bits_constant_32_x86_statement : Prop :=
  forall (t : Z) (a : Z) (k : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_bits_constant_32_allowed (Bpf t) (Bpf a) k ->
  In (cond, form) (branch_if_bits_constant_32_forms (Bpf t) (Bpf a) k) -> cond -> instances form code ->
  In (cond', native) (branch_if_bits_constant_32_x86 (Bpf t) (Bpf a) k) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_bits_constant_32_a64 (t : reg) (a : reg) (k : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Tsti W32 a k; A64.Bcond W64 IsNe]) ].
Definition branch_if_bits_constant_32_a64_statement : Prop :=
  forall (t : Z) (a : Z) (k : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_bits_constant_32_allowed (Bpf t) (Bpf a) k ->
  In (cond, form) (branch_if_bits_constant_32_forms (Bpf t) (Bpf a) k) -> cond -> instances form code ->
  In (cond', native) (branch_if_bits_constant_32_a64 (Bpf t) (Bpf a) k) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if a has a bit of a number. *)
Definition branch_if_bits_constant_64_allowed (t : reg) (a : reg) (k : Z) : Prop := is_register t /\ is_register a /\ -2147483648 <= k <= 2147483647.
Definition branch_if_bits_constant_64_forms (t : reg) (a : reg) (k : Z) : list (Prop * list template) :=
  [ (t <> a,
     [TAlu [Mov] [W64] t (Reg a);
      TAlu [And] [W64] t (Imm k);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W64] t (Imm k);
      TLeave [LeaveIf IsNe W64 t (Imm (0))]]) ].
Definition branch_if_bits_constant_64_x86 (t : reg) (a : reg) (k : Z) : list (Prop * list X86.insn) :=
  [ (True, [X86.Testi W64 a k; X86.Jcc W64 IsNe]) ].
Definition branch_if_bits_constant_64_x86_statement : Prop :=
  forall (t : Z) (a : Z) (k : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_bits_constant_64_allowed (Bpf t) (Bpf a) k ->
  In (cond, form) (branch_if_bits_constant_64_forms (Bpf t) (Bpf a) k) -> cond -> instances form code ->
  In (cond', native) (branch_if_bits_constant_64_x86 (Bpf t) (Bpf a) k) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_bits_constant_64_a64 (t : reg) (a : reg) (k : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Tsti W64 a k; A64.Bcond W64 IsNe]) ].
Definition branch_if_bits_constant_64_a64_statement : Prop :=
  forall (t : Z) (a : Z) (k : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_bits_constant_64_allowed (Bpf t) (Bpf a) k ->
  In (cond, form) (branch_if_bits_constant_64_forms (Bpf t) (Bpf a) k) -> cond -> instances form code ->
  In (cond', native) (branch_if_bits_constant_64_a64 (Bpf t) (Bpf a) k) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if the lower half of a has no bit of a number. *)
Definition branch_if_no_bits_constant_32_allowed (t : reg) (a : reg) (k : Z) : Prop := is_register t /\ is_register a /\ -2147483648 <= k <= 2147483647.
Definition branch_if_no_bits_constant_32_forms (t : reg) (a : reg) (k : Z) : list (Prop * list template) :=
  [ (t <> a,
     [TAlu [Mov] [W64; W32] t (Reg a);
      TAlu [And] [W64; W32] t (Imm k);
      TLeave [LeaveIf IsEq W32 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W64; W32] t (Imm k);
      TLeave [LeaveIf IsEq W32 t (Imm (0))]]);
    (t <> a,
     [TAlu [Mov] [W64; W32] t (Reg a);
      TAlu [And] [W32] t (Imm k);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]);
    (t <> a,
     [TAlu [Mov] [W32] t (Reg a);
      TAlu [And] [W64] t (Imm k);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W32] t (Imm k);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]) ].
Definition branch_if_no_bits_constant_32_x86 (t : reg) (a : reg) (k : Z) : list (Prop * list X86.insn) :=
  [ (True, [X86.Testi W32 a k; X86.Jcc W64 IsEq]) ].
Definition branch_if_no_bits_constant_32_x86_statement : Prop :=
  forall (t : Z) (a : Z) (k : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_no_bits_constant_32_allowed (Bpf t) (Bpf a) k ->
  In (cond, form) (branch_if_no_bits_constant_32_forms (Bpf t) (Bpf a) k) -> cond -> instances form code ->
  In (cond', native) (branch_if_no_bits_constant_32_x86 (Bpf t) (Bpf a) k) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_no_bits_constant_32_a64 (t : reg) (a : reg) (k : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Tsti W32 a k; A64.Bcond W64 IsEq]) ].
Definition branch_if_no_bits_constant_32_a64_statement : Prop :=
  forall (t : Z) (a : Z) (k : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_no_bits_constant_32_allowed (Bpf t) (Bpf a) k ->
  In (cond, form) (branch_if_no_bits_constant_32_forms (Bpf t) (Bpf a) k) -> cond -> instances form code ->
  In (cond', native) (branch_if_no_bits_constant_32_a64 (Bpf t) (Bpf a) k) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Leaves if a has no bit of a number. *)
Definition branch_if_no_bits_constant_64_allowed (t : reg) (a : reg) (k : Z) : Prop := is_register t /\ is_register a /\ -2147483648 <= k <= 2147483647.
Definition branch_if_no_bits_constant_64_forms (t : reg) (a : reg) (k : Z) : list (Prop * list template) :=
  [ (t <> a,
     [TAlu [Mov] [W64] t (Reg a);
      TAlu [And] [W64] t (Imm k);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]);
    (t = a,
     [TAlu [And] [W64] t (Imm k);
      TLeave [LeaveIf IsEq W64 t (Imm (0))]]) ].
Definition branch_if_no_bits_constant_64_x86 (t : reg) (a : reg) (k : Z) : list (Prop * list X86.insn) :=
  [ (True, [X86.Testi W64 a k; X86.Jcc W64 IsEq]) ].
Definition branch_if_no_bits_constant_64_x86_statement : Prop :=
  forall (t : Z) (a : Z) (k : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  branch_if_no_bits_constant_64_allowed (Bpf t) (Bpf a) k ->
  In (cond, form) (branch_if_no_bits_constant_64_forms (Bpf t) (Bpf a) k) -> cond -> instances form code ->
  In (cond', native) (branch_if_no_bits_constant_64_x86 (Bpf t) (Bpf a) k) -> cond' ->
  agrees [] [Bpf t] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition branch_if_no_bits_constant_64_a64 (t : reg) (a : reg) (k : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Tsti W64 a k; A64.Bcond W64 IsEq]) ].
Definition branch_if_no_bits_constant_64_a64_statement : Prop :=
  forall (t : Z) (a : Z) (k : Z) cond form code cond' native (st : regs), well_formed st ->
  branch_if_no_bits_constant_64_allowed (Bpf t) (Bpf a) k ->
  In (cond, form) (branch_if_no_bits_constant_64_forms (Bpf t) (Bpf a) k) -> cond -> instances form code ->
  In (cond', native) (branch_if_no_bits_constant_64_a64 (Bpf t) (Bpf a) k) -> cond' ->
  agrees [] [Bpf t] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Stores zero in 16 bytes of memory. *)
Definition clear_pair_allowed (b : reg) (o : Z) : Prop := is_register b /\ -32768 <= o <= 32759.
Definition clear_pair_forms (b : reg) (o : Z) : list (Prop * list template) :=
  [ (True,
     [TStore 8%nat b o (Imm (0));
      TStore 8%nat b (o + 8) (Imm (0))]);
    (True,
     [TStore 8%nat b (o + 8) (Imm (0));
      TStore 8%nat b o (Imm (0))]) ].
Definition clear_pair_x86 (b : reg) (o : Z) : list (Prop * list X86.insn) :=
  [ (b = Bpf 10, [X86.Xorps W32 ; X86.Movups W32 b o]) ].
Definition clear_pair_x86_statement : Prop :=
  forall (b : Z) (o : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  clear_pair_allowed (Bpf b) o ->
  In (cond, form) (clear_pair_forms (Bpf b) o) -> cond -> instances form code ->
  In (cond', native) (clear_pair_x86 (Bpf b) o) -> cond' ->
  agrees [] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition clear_pair_a64 (b : reg) (o : Z) : list (Prop * list A64.insn) :=
  [ (True, [A64.Stpzr W64 b o]) ].
Definition clear_pair_a64_statement : Prop :=
  forall (b : Z) (o : Z) cond form code cond' native (st : regs), well_formed st ->
  clear_pair_allowed (Bpf b) o ->
  In (cond, form) (clear_pair_forms (Bpf b) o) -> cond -> instances form code ->
  In (cond', native) (clear_pair_a64 (Bpf b) o) -> cond' ->
  agrees [] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Loads 16 bytes into two registers. *)
Definition load_pair_allowed (b : reg) (o : Z) (d : reg) (e : reg) : Prop := is_register b /\ -32768 <= o <= 32759 /\ is_register d /\ is_register e.
Definition load_pair_forms (b : reg) (o : Z) (d : reg) (e : reg) : list (Prop * list template) :=
  [ (b <> d /\ d <> e,
     [TLoad 8%nat d b o;
      TLoad 8%nat e b (o + 8)]);
    (b <> e /\ d <> e,
     [TLoad 8%nat e b (o + 8);
      TLoad 8%nat d b o]) ].
Definition load_pair_x86 (b : reg) (o : Z) (d : reg) (e : reg) : list (Prop * list X86.insn) :=
  [  ].
Definition load_pair_a64 (b : reg) (o : Z) (d : reg) (e : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Ldp W64 d e b o]) ].
Definition load_pair_a64_statement : Prop :=
  forall (b : Z) (o : Z) (d : Z) (e : Z) cond form code cond' native (st : regs), well_formed st ->
  load_pair_allowed (Bpf b) o (Bpf d) (Bpf e) ->
  In (cond, form) (load_pair_forms (Bpf b) o (Bpf d) (Bpf e)) -> cond -> instances form code ->
  In (cond', native) (load_pair_a64 (Bpf b) o (Bpf d) (Bpf e)) -> cond' ->
  agrees [Bpf d; Bpf e] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Stores two registers in 16 bytes of memory. *)
Definition store_pair_allowed (b : reg) (o : Z) (s : reg) (u : reg) : Prop := is_register b /\ -32768 <= o <= 32759 /\ is_register s /\ is_register u.
Definition store_pair_forms (b : reg) (o : Z) (s : reg) (u : reg) : list (Prop * list template) :=
  [ (True,
     [TStore 8%nat b o (Reg s);
      TStore 8%nat b (o + 8) (Reg u)]);
    (True,
     [TStore 8%nat b (o + 8) (Reg u);
      TStore 8%nat b o (Reg s)]) ].
Definition store_pair_x86 (b : reg) (o : Z) (s : reg) (u : reg) : list (Prop * list X86.insn) :=
  [  ].
Definition store_pair_a64 (b : reg) (o : Z) (s : reg) (u : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Stp W64 b o s u]) ].
Definition store_pair_a64_statement : Prop :=
  forall (b : Z) (o : Z) (s : Z) (u : Z) cond form code cond' native (st : regs), well_formed st ->
  store_pair_allowed (Bpf b) o (Bpf s) (Bpf u) ->
  In (cond, form) (store_pair_forms (Bpf b) o (Bpf s) (Bpf u)) -> cond -> instances form code ->
  In (cond', native) (store_pair_a64 (Bpf b) o (Bpf s) (Bpf u)) -> cond' ->
  agrees [] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Asks for the cache line at the address p; p keeps its value, and no address faults. *)
Definition prefetch_allowed (p : reg) : Prop := True.
Definition prefetch_forms (p : reg) : list (Prop * list template) :=
  [ (True,
     [TAlu [Mov] [W64] p (Reg p);
      TAlu [Mov] [W64] p (Reg p)]) ].
Definition prefetch_x86 (p : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Prefetch W64 p]) ].
Definition prefetch_x86_statement : Prop :=
  forall (p : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  prefetch_allowed (Bpf p) ->
  In (cond, form) (prefetch_forms (Bpf p)) -> cond -> instances form code ->
  In (cond', native) (prefetch_x86 (Bpf p)) -> cond' ->
  agrees [Bpf p] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition prefetch_a64 (p : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Prfm W64 p]) ].
Definition prefetch_a64_statement : Prop :=
  forall (p : Z) cond form code cond' native (st : regs), well_formed st ->
  prefetch_allowed (Bpf p) ->
  In (cond, form) (prefetch_forms (Bpf p)) -> cond -> instances form code ->
  In (cond', native) (prefetch_a64 (Bpf p)) -> cond' ->
  agrees [Bpf p] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).

(** Later instructions wait until all earlier ones, branches among them, are done; r keeps its value. *)
Definition speculation_barrier_allowed (r : reg) : Prop := True.
Definition speculation_barrier_forms (r : reg) : list (Prop * list template) :=
  [ (True,
     [TAlu [And] [W64] r (Reg r);
      TAlu [And] [W64] r (Reg r)]) ].
Definition speculation_barrier_x86 (r : reg) : list (Prop * list X86.insn) :=
  [ (True, [X86.Lfence W64 ]) ].
Definition speculation_barrier_x86_statement : Prop :=
  forall (r : Z) cond form code cond' native (st : X86.state), well_formed (X86.gprs st) ->
  speculation_barrier_allowed (Bpf r) ->
  In (cond, form) (speculation_barrier_forms (Bpf r)) -> cond -> instances form code ->
  In (cond', native) (speculation_barrier_x86 (Bpf r)) -> cond' ->
  agrees [Bpf r] [] (X86.gprs st) (run code (X86.gprs st)) (X86.gprs (X86.run native st)) /\
  same_in_order (trace code (X86.gprs st)) (X86.trace native st).
Definition speculation_barrier_a64 (r : reg) : list (Prop * list A64.insn) :=
  [ (True, [A64.Dsbisb W64 ]) ].
Definition speculation_barrier_a64_statement : Prop :=
  forall (r : Z) cond form code cond' native (st : regs), well_formed st ->
  speculation_barrier_allowed (Bpf r) ->
  In (cond, form) (speculation_barrier_forms (Bpf r)) -> cond -> instances form code ->
  In (cond', native) (speculation_barrier_a64 (Bpf r)) -> cond' ->
  agrees [Bpf r] [] st (run code st) (A64.run native st) /\
  same_in_any_order (trace code st) (A64.trace native st).
