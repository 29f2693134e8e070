(** x86-64: the instructions that native code uses (Intel SDM volume 2).

    The flags are [None] unless a comparison set them last: what others leave there is not modelled. Single-pass JITs keep
    nothing in the flags between instructions, so no theorem promises anything of them. *)

From Coq Require Import ZArith List Lia Bool.
From Kiln Require Import Bits Bpf.
Import ListNotations.
Open Scope Z_scope.

(** CF, ZF, SF, OF. *)
Record flags := { cf : bool; zf : bool; sf : bool; overflow : bool }.
(** All of them after a comparison, CF alone after a bit test. *)
Record state := { gprs : regs; compared : option (flags + bool) }.

(** XMM0, a number of 128 bits. *)
Definition vector : reg := Scratch 2.

Inductive insn :=
| Mov (w : width) (d s : reg)
| Neg (w : width) (d : reg)
| Rol (w : width) (d : reg) (k : Z)
| Rolcl (w : width) (d c : reg)
| Rorx (w : width) (d s : reg) (k : Z)
| Andn (w : width) (d s m : reg)
| Lea (w : width) (d b i : reg) (n : Z)
| Movsxb (w : width) (d s : reg)
| Movsxw (w : width) (d s : reg)
| Movsxd (w : width) (d s : reg)
| Movzxw (w : width) (d b : reg) (o : Z)
| Rolw (w : width) (d : reg) (k : Z)
| Movbe (w : width) (d b : reg) (o : Z)
| Movbestore (w : width) (b : reg) (o : Z) (r : reg)
| Movbestorew (w : width) (b : reg) (o : Z) (r : reg)
| Addm (w : width) (d b : reg) (o : Z)
| Subm (w : width) (d b : reg) (o : Z)
| Imulm (w : width) (d b : reg) (o : Z)
| Andm (w : width) (d b : reg) (o : Z)
| Orm (w : width) (d b : reg) (o : Z)
| Xorm (w : width) (d b : reg) (o : Z)
| Zero (w : width) (d : reg)
| Cmp (w : width) (a b : reg)
| Cmpi (w : width) (a : reg) (k : Z)
| Setcc (w : width) (d : reg) (c : condition)
| Cmovncc (w : width) (d s : reg) (c : condition)
| Leaminus (w : width) (d b : reg) (k : Z)
| Movset (w : width) (d : reg) (v : Z)
| Bt (w : width) (x i : reg)
| Sbb (w : width) (d : reg)
| Andi (w : width) (d : reg) (k : Z)
| Jcc (w : width) (c : condition)
| Test (w : width) (a b : reg)
| Testi (w : width) (a : reg) (k : Z)
| Xorps (w : width)
| Movups (w : width) (b : reg) (o : Z)
| Prefetch (w : width) (p : reg)
| Lfence (w : width).

(** CMP: a subtraction that keeps the flags alone. OF: the difference of the signed numbers does not fit. *)
Definition subtracted (w a b : Z) : flags :=
  let r := wrap w (wrap w a - wrap w b) in
  let d := signed w a - signed w b in
  {| cf := wrap w a <? wrap w b; zf := r =? 0; sf := Z.testbit r (w - 1);
     overflow := negb ((- 2 ^ (w - 1) <=? d) && (d <? 2 ^ (w - 1))) |}.

(** TEST: a conjunction that keeps the flags alone. *)
Definition tested (w a b : Z) : flags :=
  let r := Z.land (wrap w a) (wrap w b) in
  {| cf := false; zf := r =? 0; sf := Z.testbit r (w - 1); overflow := false |}.

(** The condition codes E, NE, A, AE, B, BE, G, GE, L, LE. *)
Definition is_met (c : condition) (f : flags) : bool :=
  match c with
  | IsEq => zf f
  | IsNe => negb (zf f)
  | IsGt => negb (cf f) && negb (zf f)
  | IsGe => negb (cf f)
  | IsLt => cf f
  | IsLe => cf f || zf f
  | IsSgt => negb (zf f) && Bool.eqb (sf f) (overflow f)
  | IsSge => Bool.eqb (sf f) (overflow f)
  | IsSlt => xorb (sf f) (overflow f)
  | IsSle => zf f || xorb (sf f) (overflow f)
  end.

(** One turn of ROL, as the manual's loop has it: the number doubled, with the bit that leaves at the top put in below. *)
Definition turn_left (w x : Z) : Z := wrap w (2 * x) + Z.b2z (Z.testbit x (w - 1)).
(** One turn of a rotation to the right: the number halved, with the lowest bit put in at the top. *)
Definition turn_right (w x : Z) : Z := x / 2 + Z.b2z (Z.testbit x 0) * 2 ^ (w - 1).

Fixpoint turns (turn : Z -> Z) (n : nat) (x : Z) : Z :=
  match n with O => x | S n => turns turn n (turn x) end.

(** The count is masked to five bits, six for 64-bit operands. A 32-bit destination is zero-extended. *)
Definition rol (w x k : Z) : Z := turns (turn_left w) (Z.to_nat (k mod w)) (wrap w x).
Definition ror (w x k : Z) : Z := turns (turn_right w) (Z.to_nat (k mod w)) (wrap w x).

Definition with_memory (s : state) (w : width) (d b : reg) (o : Z) (f : Z -> Z -> Z) : state :=
  {| gprs := update (gprs s) d (f (gprs s d) (load (bytes w) (gprs s b + o) (gprs s))); compared := None |}.

Definition step (i : insn) (s : state) : state :=
  match i with
  | Mov w d r => {| gprs := update (gprs s) d (wrap (bits w) (gprs s r)); compared := compared s |}
  | Neg w d =>
      let x := wrap (bits w) (gprs s d) in
      {| gprs := update (gprs s) d (wrap (bits w) (- x)); compared := None |}
  | Rol w d k => {| gprs := update (gprs s) d (rol (bits w) (gprs s d) k); compared := None |}
  | Rolcl w d c => {| gprs := update (gprs s) d (rol (bits w) (gprs s d) (wrap 8 (gprs s c))); compared := None |}
  (* ANDN: the first source inverted, and the second one. *)
  | Andn w d r m =>
      {| gprs := update (gprs s) d (Z.ldiff (wrap (bits w) (gprs s m)) (wrap (bits w) (gprs s r))); compared := None |}
  (* LEA: base + index * scale, cut to the width. *)
  | Lea w d b i n => {| gprs := update (gprs s) d (wrap (bits w) (gprs s b + gprs s i * 2 ^ n)); compared := compared s |}
  (* MOVSX, MOVSXD: the lowest bits with their sign. *)
  | Movsxb w d r => {| gprs := update (gprs s) d (wrap (bits w) (signed 8 (gprs s r))); compared := compared s |}
  | Movsxw w d r => {| gprs := update (gprs s) d (wrap (bits w) (signed 16 (gprs s r))); compared := compared s |}
  | Movsxd w d r => {| gprs := update (gprs s) d (wrap (bits w) (signed 32 (gprs s r))); compared := compared s |}
  (* MOVZX: two bytes of memory, the bits above zero. *)
  | Movzxw _ d b o => {| gprs := update (gprs s) d (load 2 (gprs s b + o) (gprs s)); compared := compared s |}
  (* ROL of 16 bits: the bits above are kept. *)
  | Rolw _ d k =>
      let x := gprs s d in {| gprs := update (gprs s) d (x - wrap 16 x + rol 16 x k); compared := None |}
  (* MOVBE: a load or store with the bytes in reverse order. *)
  | Movbe w d b o =>
      {| gprs := update (gprs s) d (swap (bytes w) (load (bytes w) (gprs s b + o) (gprs s))); compared := compared s |}
  | Movbestore w b o r =>
      {| gprs := store (bytes w) (gprs s b + o) (swap (bytes w) (gprs s r)) (gprs s); compared := compared s |}
  | Movbestorew _ b o r => {| gprs := store 2 (gprs s b + o) (swap 2 (gprs s r)) (gprs s); compared := compared s |}
  (* The second operand is in memory. IMUL's lower half is the same signed and unsigned. *)
  | Addm w d b o => with_memory s w d b o (fun x m => wrap (bits w) (x + m))
  | Subm w d b o => with_memory s w d b o (fun x m => wrap (bits w) (x - m))
  | Imulm w d b o => with_memory s w d b o (fun x m => wrap (bits w) (x * m))
  | Andm w d b o => with_memory s w d b o (fun x m => Z.land (wrap (bits w) x) m)
  | Orm w d b o => with_memory s w d b o (fun x m => Z.lor (wrap (bits w) x) m)
  | Xorm w d b o => with_memory s w d b o (fun x m => Z.lxor (wrap (bits w) x) m)
  (* XOR of a register with itself. *)
  | Zero _ d => {| gprs := update (gprs s) d 0; compared := None |}
  | Cmp w a b => {| gprs := gprs s; compared := Some (inl (subtracted (bits w) (gprs s a) (gprs s b))) |}
  (* The immediate is sign-extended. With 0 the code is TEST, which sets the same flags. *)
  | Cmpi w a k => {| gprs := gprs s; compared := Some (inl (subtracted (bits w) (gprs s a) (wrap 64 k))) |}
  (* SETcc writes the lowest byte. Of unknown flags it makes no number. *)
  | Setcc _ d c =>
      let flag := match compared s with Some (inl f) => Z.b2z (is_met c f) | _ => 2 ^ 64 end in
      {| gprs := update (gprs s) d (gprs s d - wrap 8 (gprs s d) + flag); compared := compared s |}
  (* CMOVcc with the opposite condition. Of unknown flags it makes no number. *)
  | Cmovncc w d r c =>
      let v := match compared s with
               | Some (inl f) => if is_met (opposite c) f then wrap (bits w) (gprs s r) else wrap (bits w) (gprs s d)
               | _ => 2 ^ 64
               end in
      {| gprs := update (gprs s) d v; compared := compared s |}
  (* LEA with a displacement: no flag changes. *)
  | Leaminus w d b k => {| gprs := update (gprs s) d (wrap (bits w) (gprs s b - k)); compared := compared s |}
  (* MOV of a constant. The JIT makes a zero by XOR. *)
  | Movset w d v => {| gprs := update (gprs s) d (wrap (bits w) v); compared := None |}
  (* BT: the number of the bit is taken modulo the width. ZF is kept, the others are undefined. *)
  | Bt w x i => {| gprs := gprs s; compared := Some (inr (Z.testbit (gprs s x) (gprs s i mod bits w))) |}
  (* SBB of a register from itself: less the carry. Of unknown flags it makes no number. *)
  | Sbb w d =>
      let v := match compared s with
               | Some (inl f) => wrap (bits w) (- Z.b2z (cf f))
               | Some (inr c) => wrap (bits w) (- Z.b2z c)
               | None => 2 ^ 64
               end in
      {| gprs := update (gprs s) d v; compared := None |}
  | Andi w d k => {| gprs := update (gprs s) d (Z.land (wrap (bits w) (gprs s d)) (wrap (bits w) k)); compared := None |}
  | Test w a b => {| gprs := gprs s; compared := Some (inl (tested (bits w) (gprs s a) (gprs s b))) |}
  | Testi w a k => {| gprs := gprs s; compared := Some (inl (tested (bits w) (gprs s a) (wrap 64 k))) |}
  (* Jcc out of the region. Where it goes by unknown flags is not known. *)
  | Jcc _ c =>
      let v := match compared s with Some (inl f) => Z.b2z (is_met c f) | _ => 2 ^ 64 end in
      {| gprs := update (gprs s) Left v; compared := compared s |}
  (* XORPS of the vector register that the JIT keeps free, with itself; MOVUPS: its 16 bytes. *)
  | Xorps _ => {| gprs := update (gprs s) vector 0; compared := compared s |}
  | Movups _ b o => {| gprs := store 16 (gprs s b + o) (gprs s vector) (gprs s); compared := compared s |}
  (* PREFETCHT0 and LFENCE: no register and no byte of memory changes, and no address faults. *)
  | Prefetch _ _ => s
  | Lfence _ => s
  | Rorx w d r k => {| gprs := update (gprs s) d (ror (bits w) (gprs s r) k); compared := compared s |}
  end.

Definition run (code : list insn) (s : state) : state := fold_left (fun s i => step i s) code s.

(** The accesses of an instruction. One of 16 bytes is not two of 8: others may see parts of it in any order. *)
Definition accesses (i : insn) (s : state) : list access :=
  let at_address write n b o := [{| is_write := write; size := n; base := b; address := gprs s b + o |}] in
  match i with
  | Movzxw _ _ b o => at_address false 2%nat b o
  | Movbe w _ b o | Addm w _ b o | Subm w _ b o | Imulm w _ b o | Andm w _ b o | Orm w _ b o | Xorm w _ b o =>
      at_address false (bytes w) b o
  | Movbestore w b o _ => at_address true (bytes w) b o
  | Movbestorew _ b o _ => at_address true 2%nat b o
  | Movups _ b o => at_address true 16%nat b o
  | _ => []
  end.

Fixpoint trace (code : list insn) (s : state) : list access :=
  match code with [] => [] | i :: code => accesses i s ++ trace code (step i s) end.

(** Turning [n] times to the left moves bit [i - n], counted round, to bit [i]. *)
Lemma turn_left_range w x : 0 < w -> 0 <= x < 2 ^ w -> 0 <= turn_left w x < 2 ^ w.
Proof.
  intros Hw Hx. unfold turn_left.
  assert (E : wrap w (2 * x) mod 2 = 0).
  { unfold wrap. replace (2 ^ w) with (2 * 2 ^ (w - 1)) by (rewrite <- Z.pow_succ_r by lia; f_equal; lia).
    rewrite Z.mul_mod_distr_l by (try apply Z.pow_nonzero; lia). rewrite Z.mul_comm. apply Z_mod_mult. }
  assert (R := wrap_range w (2 * x) ltac:(lia)).
  assert (P : 2 ^ w mod 2 = 0).
  { replace w with (Z.succ (w - 1)) by lia. rewrite Z.pow_succ_r by lia. rewrite Z.mul_comm. apply Z_mod_mult. }
  assert (0 <= Z.b2z (Z.testbit x (w - 1)) <= 1) by (destruct (Z.testbit x (w - 1)); simpl; lia).
  assert (wrap w (2 * x) <> 2 ^ w - 1).
  { intros C. rewrite C in E. rewrite Zminus_mod, P in E. discriminate E. }
  lia.
Qed.

Lemma turn_left_bit w x i : 0 < w -> 0 <= x < 2 ^ w -> 0 <= i < w ->
  Z.testbit (turn_left w x) i = Z.testbit x ((i - 1) mod w).
Proof.
  intros Hw Hx Hi. unfold turn_left. rewrite Z.add_comm.
  assert (N : Z.land (Z.b2z (Z.testbit x (w - 1))) (wrap w (2 * x)) = 0).
  { apply Z.bits_inj'. intros j Hj. rewrite Z.land_spec, Z.bits_0, wrap_bit by lia.
    destruct (Z.eq_dec j 0) as [-> | J].
    - rewrite Z.testbit_even_0. rewrite !Bool.andb_false_r. reflexivity.
    - destruct (Z.testbit x (w - 1)); simpl Z.b2z.
      + replace 1 with (2 ^ 0) by reflexivity. rewrite Z.pow2_bits_false by lia. reflexivity.
      + rewrite Z.bits_0. reflexivity. }
  rewrite Z.add_nocarry_lxor by exact N. rewrite Z.lxor_lor by exact N.
  rewrite Z.lor_spec, wrap_bit by lia. destruct (Z.ltb_spec i w); [| lia]. rewrite Bool.andb_true_l.
  destruct (Z.eq_dec i 0) as [-> | I].
  - rewrite Z.testbit_even_0, Bool.orb_false_r. rewrite Z.b2z_bit0.
    f_equal. apply Z.mod_unique with (-1); lia.
  - replace (Z.testbit (Z.b2z (Z.testbit x (w - 1))) i) with false.
    + rewrite Bool.orb_false_l. replace i with (Z.succ (i - 1)) at 1 by lia. rewrite Z.testbit_even_succ by lia.
      f_equal. symmetry. apply Z.mod_small. lia.
    + destruct (Z.testbit x (w - 1)); simpl Z.b2z; [| rewrite Z.bits_0; reflexivity].
      replace 1 with (2 ^ 0) by reflexivity. rewrite Z.pow2_bits_false by lia. reflexivity.
Qed.

Lemma turns_left_rotate w n : forall x, 0 < w -> 0 <= x < 2 ^ w ->
  is_rotation w (Z.of_nat n) x (turns (turn_left w) n x).
Proof.
  induction n as [| n IH]; intros x Hw Hx; cbn [turns].
  - split; [exact Hx |]. intros i Hi. rewrite Z.sub_0_r, Z.mod_small by lia. reflexivity.
  - destruct (IH (turn_left w x) Hw (turn_left_range w x Hw Hx)) as [R B]. split; [exact R |].
    intros i Hi. rewrite B by lia. rewrite turn_left_bit by (try apply Z.mod_pos_bound; lia).
    f_equal. rewrite Zminus_mod_idemp_l. f_equal. lia.
Qed.

(** Turning to the right by [n] is turning to the left by [w - n]. *)
Lemma turn_right_range w x : 0 < w -> 0 <= x < 2 ^ w -> 0 <= turn_right w x < 2 ^ w.
Proof.
  intros Hw Hx. unfold turn_right.
  assert (P : 2 ^ w = 2 * 2 ^ (w - 1)) by (rewrite <- Z.pow_succ_r by lia; f_equal; lia).
  assert (0 <= x / 2 < 2 ^ (w - 1)).
  { split; [apply Z.div_pos; lia |]. apply Z.div_lt_upper_bound; lia. }
  destruct (Z.testbit x 0); simpl Z.b2z; lia.
Qed.

Lemma turn_right_bit w x i : 0 < w -> 0 <= x < 2 ^ w -> 0 <= i < w ->
  Z.testbit (turn_right w x) i = Z.testbit x ((i + 1) mod w).
Proof.
  intros Hw Hx Hi. unfold turn_right.
  assert (P : 2 ^ w = 2 * 2 ^ (w - 1)) by (rewrite <- Z.pow_succ_r by lia; f_equal; lia).
  assert (H : 0 <= x / 2 < 2 ^ (w - 1)).
  { split; [apply Z.div_pos; lia |]. apply Z.div_lt_upper_bound; lia. }
  assert (S : forall j, 0 <= j -> Z.testbit (x / 2) j = Z.testbit x (j + 1)).
  { intros j Hj. replace (x / 2) with (Z.shiftr x 1) by (rewrite Z.shiftr_div_pow2 by lia; reflexivity).
    rewrite Z.shiftr_spec by lia. reflexivity. }
  assert (T : forall j, 0 <= j -> Z.testbit (Z.b2z (Z.testbit x 0) * 2 ^ (w - 1)) j = ((j =? w - 1) && Z.testbit x 0)%bool).
  { intros j Hj. destruct (Z.testbit x 0); simpl Z.b2z.
    - rewrite Z.mul_1_l, Bool.andb_true_r. destruct (Z.eqb_spec j (w - 1)) as [-> |].
      + apply Z.pow2_bits_true. lia.
      + apply Z.pow2_bits_false. lia.
    - rewrite Z.mul_0_l, Z.bits_0, Bool.andb_false_r. reflexivity. }
  assert (N : Z.land (x / 2) (Z.b2z (Z.testbit x 0) * 2 ^ (w - 1)) = 0).
  { apply Z.bits_inj'. intros j Hj. rewrite Z.land_spec, Z.bits_0, T by lia.
    destruct (Z.eqb_spec j (w - 1)) as [-> |]; [| rewrite Bool.andb_false_l, Bool.andb_false_r; reflexivity].
    rewrite (high_bits (w - 1) (x / 2)) by lia. reflexivity. }
  rewrite Z.add_nocarry_lxor by exact N. rewrite Z.lxor_lor by exact N.
  rewrite Z.lor_spec, S, T by lia. destruct (Z.eqb_spec i (w - 1)) as [-> |].
  - replace (w - 1 + 1) with w by lia. rewrite Z.mod_same by lia.
    rewrite (high_bits w x) by lia. reflexivity.
  - rewrite Bool.andb_false_l, Bool.orb_false_r. f_equal. symmetry. apply Z.mod_small. lia.
Qed.

Lemma turns_right_rotate w n : forall x, 0 < w -> 0 <= x < 2 ^ w ->
  is_rotation w (- Z.of_nat n) x (turns (turn_right w) n x).
Proof.
  induction n as [| n IH]; intros x Hw Hx; cbn [turns].
  - split; [exact Hx |]. intros i Hi. replace (i - - Z.of_nat 0) with i by lia. rewrite Z.mod_small by lia. reflexivity.
  - destruct (IH (turn_right w x) Hw (turn_right_range w x Hw Hx)) as [R B]. split; [exact R |].
    intros i Hi. rewrite B by lia. rewrite turn_right_bit by (try apply Z.mod_pos_bound; lia).
    f_equal. rewrite Zplus_mod_idemp_l. f_equal. lia.
Qed.

(** ROL and RORX are rotations. *)
Lemma rol_is_rotl w x k : 0 < k < w -> rol w x k = rotl w (wrap w x) k.
Proof.
  intros H. apply (rotation_unique w k (wrap w x)); [lia | | apply rotl_is_rotation; lia].
  unfold rol. rewrite Z.mod_small by lia. rewrite <- (Z2Nat.id k) at 1 by lia.
  apply turns_left_rotate; [lia | apply wrap_range; lia].
Qed.

Lemma ror_is_rotl w x k : 0 < k < w -> ror w x (w - k) = rotl w (wrap w x) k.
Proof.
  intros H. apply (rotation_unique w k (wrap w x)); [lia | | apply rotl_is_rotation; lia].
  unfold ror. rewrite Z.mod_small by lia.
  destruct (turns_right_rotate w (Z.to_nat (w - k)) (wrap w x) ltac:(lia) (wrap_range w x ltac:(lia))) as [R B].
  split; [exact R |]. intros i Hi. rewrite B by lia. f_equal. rewrite Z2Nat.id by lia.
  replace (i - - (w - k)) with (i - k + 1 * w) by lia. apply Z_mod_plus_full.
Qed.
