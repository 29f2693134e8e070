(** 64-bit Arm: the instructions that native code uses (Arm ARM, A64 base instructions). Comparisons alone touch the
    flags: N, Z, C and V are [Flag 0] to [Flag 3], 0 or 1. *)

From Coq Require Import ZArith List Lia Bool.
From Kiln Require Import Bits Bpf.
Import ListNotations.
Open Scope Z_scope.

Inductive insn :=
| Extr (w : width) (d n m : reg) (lsb : Z)
| Neg (w : width) (d m : reg)
| Rorv (w : width) (d n m : reg)
| Mov (w : width) (d m : reg)
| Bic (w : width) (d n m : reg)
| Addlsl (w : width) (d n m : reg) (k : Z)
| Sxtb (w : width) (d n : reg)
| Sxth (w : width) (d n : reg)
| Sxtw (w : width) (d n : reg)
| Ldr (w : width) (d b : reg) (o : Z)
| Ldrh (w : width) (d b : reg) (o : Z)
| Str (w : width) (b : reg) (o : Z) (r : reg)
| Strh (w : width) (b : reg) (o : Z) (r : reg)
| Ldp (w : width) (d e b : reg) (o : Z)
| Stp (w : width) (b : reg) (o : Z) (r q : reg)
| Stpzr (w : width) (b : reg) (o : Z)
| Rev (w : width) (d n : reg)
| Reverse16 (w : width) (d n : reg)
| Cmp (w : width) (a b : reg)
| Cmpi (w : width) (a : reg) (k : Z)
| Cset (w : width) (d : reg) (c : condition)
| Csel (w : width) (d n m : reg) (c : condition)
| Subi (w : width) (d n : reg) (k : Z)
| Movset (w : width) (d : reg) (v : Z)
| Lsrv (w : width) (d n m : reg)
| Andi (w : width) (d n : reg) (k : Z)
| Cmplsl (w : width) (a b : reg) (k : Z)
| Bcond (w : width) (c : condition)
| Tst (w : width) (a b : reg)
| Tsti (w : width) (a : reg) (k : Z)
| Prfm (w : width) (p : reg)
| Dsbisb (w : width).

(** SUBS with the zero register as destination. C: no borrow. V: the difference of the signed numbers does not fit. *)
Definition subtracted (w a b : Z) (s : regs) : regs :=
  let r := wrap w (wrap w a - wrap w b) in
  let d := signed w a - signed w b in
  let s := update s (Flag 0) (Z.b2z (Z.testbit r (w - 1))) in
  let s := update s (Flag 1) (Z.b2z (r =? 0)) in
  let s := update s (Flag 2) (Z.b2z (wrap w b <=? wrap w a)) in
  update s (Flag 3) (Z.b2z (negb ((- 2 ^ (w - 1) <=? d) && (d <? 2 ^ (w - 1))))).

(** ANDS with the zero register as destination: C and V are cleared. *)
Definition tested (w a b : Z) (s : regs) : regs :=
  let r := Z.land (wrap w a) (wrap w b) in
  let s := update s (Flag 0) (Z.b2z (Z.testbit r (w - 1))) in
  let s := update s (Flag 1) (Z.b2z (r =? 0)) in
  update (update s (Flag 2) 0) (Flag 3) 0.

(** The condition codes EQ, NE, HI, HS, LO, LS, GT, GE, LT, LE. *)
Definition is_met (c : condition) (s : regs) : bool :=
  let is k := s (Flag k) =? 1 in
  match c with
  | IsEq => is 1
  | IsNe => negb (is 1)
  | IsGt => is 2 && negb (is 1)
  | IsGe => is 2
  | IsLt => negb (is 2)
  | IsLe => negb (is 2 && negb (is 1))
  | IsSgt => negb (is 1) && Bool.eqb (is 0) (is 3)
  | IsSge => Bool.eqb (is 0) (is 3)
  | IsSlt => negb (Bool.eqb (is 0) (is 3))
  | IsSle => negb (negb (is 1) && Bool.eqb (is 0) (is 3))
  end.

(** EXTR: [w] bits of the concatenation of two registers, from bit [lsb] on. *)
Definition extr (w n m lsb : Z) : Z := wrap w (Z.shiftr (wrap w n * 2 ^ w + wrap w m) lsb).
(** RORV rotates to the right by the amount modulo the width; the manual's ROR(x, k) is LSR(x, k) OR LSL(x, w - k),
    and x for k = 0. *)
Definition rorv (w n m : Z) : Z :=
  let k := wrap w m mod w in
  if k =? 0 then wrap w n else Z.lor (lshr w n k) (shl w (wrap w n) (w - k)).

Definition step (i : insn) (s : regs) : regs :=
  match i with
  | Extr w d n m lsb => update s d (extr (bits w) (s n) (s m) lsb)
  | Neg w d m => update s d (wrap (bits w) (- wrap (bits w) (s m)))
  | Rorv w d n m => update s d (rorv (bits w) (s n) (s m))
  (* MOV is ORR with the zero register. *)
  | Mov w d m => update s d (wrap (bits w) (s m))
  (* BIC: the first operand AND NOT the second. *)
  | Bic w d n m => update s d (Z.ldiff (wrap (bits w) (s n)) (wrap (bits w) (s m)))
  (* ADD (shifted register), LSL: the shifted operand is cut to the width, and so is the sum. *)
  | Addlsl w d n m k => update s d (wrap (bits w) (s n + wrap (bits w) (Z.shiftl (s m) k)))
  (* SXTB, SXTH, SXTW are SBFM: the lowest bits with their sign, cut to the width. *)
  | Sxtb w d n => update s d (wrap (bits w) (signed 8 (s n)))
  | Sxth w d n => update s d (wrap (bits w) (signed 16 (s n)))
  | Sxtw w d n => update s d (wrap (bits w) (signed 32 (s n)))
  (* LDR, LDRH, STR, STRH. An offset that they cannot encode is in the first scratch register, which nobody reads
     afterwards. *)
  | Ldr w d b o => update s d (load (bytes w) (s b + o) s)
  | Ldrh _ d b o => update s d (load 2 (s b + o) s)
  | Str w b o r => store (bytes w) (s b + o) (s r) s
  | Strh _ b o r => store 2 (s b + o) (s r) s
  (* LDP, STP: the second register's bytes follow the first one's. STPZR is STP of the zero register, twice. *)
  | Ldp w d e b o =>
      let a := s b + o in
      update (update s d (load (bytes w) a s)) e (load (bytes w) (a + Z.of_nat (bytes w)) s)
  | Stp w b o r q =>
      let a := s b + o in store (bytes w) (a + Z.of_nat (bytes w)) (s q) (store (bytes w) a (s r) s)
  | Stpzr w b o =>
      let a := s b + o in store (bytes w) (a + Z.of_nat (bytes w)) 0 (store (bytes w) a 0 s)
  (* REV: the bytes of the width in reverse order. REV16: the bytes of each half of 32 bits. *)
  | Rev w d n => update s d (swap (bytes w) (s n))
  (* CMP with an immediate that it cannot encode has it in the first scratch register. *)
  | Cmp w a b => subtracted (bits w) (s a) (s b) s
  | Cmpi w a k => subtracted (bits w) (s a) (wrap 64 k) s
  (* CSET: one if the condition holds, zero if not. *)
  | Cset _ d c => update s d (Z.b2z (is_met c s))
  (* CSEL: the first register if the condition holds, the second if not. *)
  | Csel w d n m c => update s d (if is_met c s then wrap (bits w) (s n) else wrap (bits w) (s m))
  (* SUB with an immediate; one that it cannot encode is in the first scratch register, which is the destination. *)
  | Subi w d n k => update s d (wrap (bits w) (s n - k))
  (* MOVZ, MOVN and MOVK. *)
  | Movset w d v => update s d (wrap (bits w) v)
  (* LSRV: the amount is taken modulo the width. *)
  | Lsrv w d n m => update s d (lshr (bits w) (s n) (s m mod bits w))
  | Andi w d n k => update s d (Z.land (wrap (bits w) (s n)) (wrap (bits w) k))
  (* CMP (shifted register), LSL. *)
  | Cmplsl w a b k => subtracted (bits w) (s a) (wrap (bits w) (Z.shiftl (s b) k)) s
  (* TST; with an immediate that it cannot encode, that is in the first scratch register. *)
  | Tst w a b => tested (bits w) (s a) (s b) s
  | Tsti w a k => tested (bits w) (s a) (wrap 64 k) s
  (* B.cond out of the region. *)
  | Bcond _ c => update s Left (Z.b2z (is_met c s))
  (* PRFM; DSB NSH and ISB: no register and no byte of memory changes, and no address faults. *)
  | Prfm _ _ => s
  | Dsbisb _ => s
  | Reverse16 _ d n => update s d (swap 2 (s n) + 2 ^ 16 * swap 2 (s n / 2 ^ 16))
  end.

Definition run (code : list insn) (s : regs) : regs := fold_left (fun s i => step i s) code s.

(** The accesses of an instruction. A pair is two accesses, each of which is one if it is aligned. *)
Definition accesses (i : insn) (s : regs) : list access :=
  let at_address write n b o := {| is_write := write; size := n; base := b; address := s b + o |} in
  match i with
  | Ldr w _ b o => [at_address false (bytes w) b o]
  | Ldrh _ _ b o => [at_address false 2%nat b o]
  | Str w b o _ => [at_address true (bytes w) b o]
  | Strh _ b o _ => [at_address true 2%nat b o]
  | Ldp w _ _ b o => [at_address false (bytes w) b o; at_address false (bytes w) b (o + Z.of_nat (bytes w))]
  | Stp w b o _ _ | Stpzr w b o => [at_address true (bytes w) b o; at_address true (bytes w) b (o + Z.of_nat (bytes w))]
  | _ => []
  end.

Fixpoint trace (code : list insn) (s : regs) : list access :=
  match code with [] => [] | i :: code => accesses i s ++ trace code (step i s) end.

Lemma extr_is_rotl w x k : 0 < k < w -> extr w x x (w - k) = rotl w (wrap w x) k.
Proof.
  intros H. apply (rotation_unique w k (wrap w x)); [lia | | apply rotl_is_rotation; lia].
  unfold extr. split; [apply wrap_range; lia |]. intros i Hi.
  assert (R := wrap_range w x ltac:(lia)).
  rewrite wrap_bit, Z.shiftr_spec by lia. destruct (Z.ltb_spec i w); [| lia]. rewrite Bool.andb_true_l.
  rewrite <- Z.shiftl_mul_pow2 by lia.
  assert (N : Z.land (Z.shiftl (wrap w x) w) (wrap w x) = 0).
  { apply Z.bits_inj'. intros j Hj. rewrite Z.land_spec, Z.bits_0. destruct (Z.lt_ge_cases j w).
    - rewrite Z.shiftl_spec_low by lia. reflexivity.
    - rewrite (high_bits w (wrap w x) j) by lia. apply Bool.andb_false_r. }
  rewrite Z.add_nocarry_lxor by exact N. rewrite Z.lxor_lor by exact N.
  rewrite Z.lor_spec, mod_near by lia. destruct (Z.leb_spec k i).
  - rewrite Z.shiftl_spec by lia. rewrite (high_bits w (wrap w x) (i + (w - k))) by lia.
    rewrite Bool.orb_false_r. f_equal. lia.
  - rewrite Z.shiftl_spec_low by lia. rewrite Bool.orb_false_l. f_equal. lia.
Qed.
