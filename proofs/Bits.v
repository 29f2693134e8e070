(** Numbers of a width: what registers hold.

    A value is a [Z] in [0, 2^w). Equality is proved bit by bit ([Z.bits_inj']), so the lemmas say which bit of a
    shifted, masked or joined number is which bit of its parts. *)

From Coq Require Import ZArith Lia Bool.
Open Scope Z_scope.

Definition wrap (w x : Z) : Z := x mod 2 ^ w.

(** Shifts of numbers of [w] bits. *)
Definition shl (w x k : Z) : Z := wrap w (Z.shiftl x k).
Definition lshr (w x k : Z) : Z := Z.shiftr (wrap w x) k.

Lemma wrap_bit w x i : 0 <= w -> 0 <= i -> Z.testbit (wrap w x) i = (i <? w) && Z.testbit x i.
Proof.
  intros Hw Hi. unfold wrap. destruct (Z.ltb_spec i w).
  - rewrite Z.mod_pow2_bits_low by lia. reflexivity.
  - rewrite Z.mod_pow2_bits_high by lia. reflexivity.
Qed.

Lemma wrap_wrap w x : 0 <= w -> wrap w (wrap w x) = wrap w x.
Proof. intros. unfold wrap. apply Z.mod_mod. apply Z.pow_nonzero; lia. Qed.

Lemma wrap_narrow v w x : 0 <= w <= v -> wrap w (wrap v x) = wrap w x.
Proof.
  intros. apply Z.bits_inj'. intros i Hi. rewrite !wrap_bit by lia.
  destruct (Z.ltb_spec i w), (Z.ltb_spec i v); try reflexivity; lia.
Qed.

Lemma wrap_range w x : 0 <= w -> 0 <= wrap w x < 2 ^ w.
Proof. intros. unfold wrap. apply Z.mod_pos_bound. apply Z.pow_pos_nonneg; lia. Qed.

Lemma wrap_id w x : 0 <= w -> 0 <= x < 2 ^ w -> wrap w x = x.
Proof. intros. unfold wrap. apply Z.mod_small. assumption. Qed.

Lemma shl_bit w x k i : 0 <= w -> 0 <= k -> 0 <= i ->
  Z.testbit (shl w x k) i = (i <? w) && (k <=? i) && Z.testbit x (i - k).
Proof.
  intros. unfold shl. rewrite wrap_bit by lia. destruct (Z.leb_spec k i).
  - rewrite Z.shiftl_spec by lia. rewrite andb_true_r. reflexivity.
  - rewrite Z.shiftl_spec_low by lia. rewrite andb_false_r. reflexivity.
Qed.

Lemma lshr_bit w x k i : 0 <= w -> 0 <= k -> 0 <= i ->
  Z.testbit (lshr w x k) i = (i + k <? w) && Z.testbit x (i + k).
Proof. intros. unfold lshr. rewrite Z.shiftr_spec, wrap_bit by lia. reflexivity. Qed.

(** The number that [w] bits stand for, the highest of them being the sign. *)
Definition signed (w x : Z) : Z := if Z.testbit x (w - 1) then wrap w x - 2 ^ w else wrap w x.

(** Shift to the right that keeps the sign. *)
Definition ashr (w x k : Z) : Z := wrap w (Z.shiftr (signed w x) k).

Lemma signed_bit w x i : 0 < w -> 0 <= i -> Z.testbit (signed w x) i = Z.testbit x (if i <? w then i else w - 1).
Proof.
  intros Hw Hi. unfold signed. destruct (Z.testbit x (w - 1)) eqn:S.
  - assert (N : Z.land (wrap w x) (Z.shiftl (-1) w) = 0).
    { apply Z.bits_inj'. intros j Hj. rewrite Z.land_spec, Z.bits_0, wrap_bit by lia. destruct (Z.ltb_spec j w).
      - rewrite Z.shiftl_spec_low by lia. apply andb_false_r.
      - reflexivity. }
    replace (wrap w x - 2 ^ w) with (wrap w x + Z.shiftl (-1) w) by (rewrite Z.shiftl_mul_pow2 by lia; lia).
    rewrite Z.add_nocarry_lxor by exact N. rewrite Z.lxor_lor by exact N. rewrite Z.lor_spec, wrap_bit by lia.
    destruct (Z.ltb_spec i w).
    + rewrite Z.shiftl_spec_low by lia. rewrite orb_false_r. reflexivity.
    + rewrite Z.shiftl_spec, Z.bits_m1 by lia. rewrite S. reflexivity.
  - rewrite wrap_bit by lia. destruct (Z.ltb_spec i w); [reflexivity | rewrite S; reflexivity].
Qed.

(** Shifting left and back keeps the lowest [n] bits: with their sign, or with zeros. *)
Lemma shifted_back_signed w n x : 0 < n < w -> ashr w (shl w x (w - n)) (w - n) = wrap w (signed n x).
Proof.
  intros H. apply Z.bits_inj'. intros i Hi. unfold ashr. rewrite !wrap_bit by lia.
  destruct (Z.ltb_spec i w); [| reflexivity]. rewrite !andb_true_l.
  rewrite Z.shiftr_spec by lia. rewrite !signed_bit by lia.
  destruct (Z.ltb_spec (i + (w - n)) w), (Z.ltb_spec i n); try lia.
  - rewrite shl_bit by lia. destruct (Z.ltb_spec (i + (w - n)) w), (Z.leb_spec (w - n) (i + (w - n))); try lia.
    simpl. f_equal. lia.
  - rewrite shl_bit by lia. destruct (Z.ltb_spec (w - 1) w), (Z.leb_spec (w - n) (w - 1)); try lia.
    simpl. f_equal. lia.
Qed.

Lemma shifted_back w n x : 0 < n < w -> lshr w (shl w x (w - n)) (w - n) = wrap n x.
Proof.
  intros H. apply Z.bits_inj'. intros i Hi. rewrite lshr_bit, shl_bit, wrap_bit by lia.
  destruct (Z.ltb_spec (i + (w - n)) w), (Z.ltb_spec i n), (Z.leb_spec (w - n) (i + (w - n))); try lia; simpl; try reflexivity.
  f_equal. lia.
Qed.

(** The lowest bits of a wrapped number are those of the number. *)
Lemma signed_wrap w n x : 0 < n <= w -> signed n (wrap w x) = signed n x.
Proof.
  intros H. apply Z.bits_inj'. intros i Hi. rewrite !signed_bit by lia. rewrite wrap_bit.
  - destruct (Z.ltb_spec i n).
    + destruct (Z.ltb_spec i w); [reflexivity | lia].
    + destruct (Z.ltb_spec (n - 1) w); [reflexivity | lia].
  - lia.
  - destruct (Z.ltb_spec i n); lia.
Qed.

(** Exclusive or with ones is the complement. *)
Lemma and_not_bits w x y : 0 <= w -> Z.land (Z.lxor (wrap w x) (wrap w (-1))) (wrap w y) = Z.ldiff (wrap w y) (wrap w x).
Proof.
  intros. apply Z.bits_inj'. intros i Hi. rewrite Z.land_spec, Z.lxor_spec, Z.ldiff_spec, !wrap_bit by lia.
  rewrite Z.bits_m1 by lia. destruct (Z.ltb_spec i w); simpl; [| reflexivity].
  destruct (Z.testbit x i), (Z.testbit y i); reflexivity.
Qed.

Lemma ldiff_range w x y : 0 <= w -> 0 <= Z.ldiff (wrap w y) (wrap w x) < 2 ^ w.
Proof.
  intros. rewrite <- and_not_bits by lia. replace (Z.land _ _) with (wrap w (Z.land (Z.lxor (wrap w x) (wrap w (-1))) (wrap w y))).
  - apply wrap_range. lia.
  - apply Z.bits_inj'. intros i Hi. rewrite wrap_bit, Z.land_spec, !wrap_bit by lia.
    destruct (Z.ltb_spec i w); simpl; [reflexivity | rewrite ?andb_false_r; reflexivity].
Qed.

(** What a rotation is: bit [i] of the result is bit [i - k] of the operand, counted round. *)
Definition is_rotation (w k x y : Z) : Prop :=
  0 <= y < 2 ^ w /\ forall i, 0 <= i < w -> Z.testbit y i = Z.testbit x ((i - k) mod w).

Lemma high_bits w x i : 0 <= w -> 0 <= x < 2 ^ w -> w <= i -> Z.testbit x i = false.
Proof. intros. rewrite <- (wrap_id w x) by lia. rewrite wrap_bit by lia. destruct (Z.ltb_spec i w); [lia | reflexivity]. Qed.

Lemma rotation_unique w k x y z : 0 <= w -> is_rotation w k x y -> is_rotation w k x z -> y = z.
Proof.
  intros Hw [Hy By] [Hz Bz]. apply Z.bits_inj'. intros i Hi. destruct (Z.lt_ge_cases i w).
  - rewrite By, Bz by lia. reflexivity.
  - rewrite (high_bits w y), (high_bits w z) by lia. reflexivity.
Qed.

Lemma mod_near w i k : 0 < w -> 0 <= k < w -> 0 <= i < w ->
  (i - k) mod w = if k <=? i then i - k else i - k + w.
Proof.
  intros. destruct (Z.leb_spec k i).
  - apply Z.mod_small. lia.
  - symmetry. apply Z.mod_unique with (-1); lia.
Qed.

(** The two parts of a rotation have no bit in common, so that three ways to join them are one. *)
Lemma parts_disjoint w x k : 0 < k < w -> Z.land (shl w x k) (lshr w x (w - k)) = 0.
Proof.
  intros. apply Z.bits_inj'. intros i Hi. rewrite Z.land_spec, shl_bit, lshr_bit, Z.bits_0 by lia.
  destruct (Z.ltb_spec i w), (Z.leb_spec k i), (Z.ltb_spec (i + (w - k)) w); simpl; try reflexivity; try lia.
  all: rewrite ?andb_false_r; reflexivity.
Qed.

Inductive join := JoinOr | JoinXor | JoinAdd.

Definition joined (j : join) (a b : Z) : Z :=
  match j with JoinOr => Z.lor a b | JoinXor => Z.lxor a b | JoinAdd => a + b end.

Lemma joined_disjoint j a b : Z.land a b = 0 -> joined j a b = Z.lor a b.
Proof.
  intros H. destruct j; simpl; trivial.
  - rewrite Z.lxor_lor by assumption. reflexivity.
  - rewrite <- Z.lxor_lor by assumption. apply Z.add_nocarry_lxor. assumption.
Qed.

Lemma joined_comm j a b : joined j a b = joined j b a.
Proof. destruct j; simpl; [apply Z.lor_comm | apply Z.lxor_comm | apply Z.add_comm]. Qed.

Definition rotl (w x k : Z) : Z := Z.lor (shl w x k) (lshr w x (w - k)).

Lemma rotl_is_rotation w x k : 0 < k < w -> is_rotation w k x (rotl w x k).
Proof.
  intros H. unfold rotl. split.
  - assert (0 <= Z.lor (shl w x k) (lshr w x (w - k))).
    { apply Z.lor_nonneg. split; [apply wrap_range; lia |]. unfold lshr. apply Z.shiftr_nonneg. apply wrap_range. lia. }
    split; trivial. replace (Z.lor _ _) with (wrap w (Z.lor (shl w x k) (lshr w x (w - k)))).
    + apply wrap_range. lia.
    + apply Z.bits_inj'. intros i Hi. rewrite wrap_bit, Z.lor_spec, shl_bit, lshr_bit by lia.
      destruct (Z.ltb_spec i w); simpl; trivial. destruct (Z.ltb_spec (i + (w - k)) w); simpl; trivial. lia.
  - intros i Hi. rewrite Z.lor_spec, shl_bit, lshr_bit, mod_near by lia.
    destruct (Z.ltb_spec i w); [| lia]. destruct (Z.leb_spec k i), (Z.ltb_spec (i + (w - k)) w); try lia; simpl.
    + rewrite orb_false_r. reflexivity.
    + f_equal. lia.
Qed.

Lemma rotl_range w x k : 0 < k < w -> 0 <= rotl w x k < 2 ^ w.
Proof. intros H. apply (proj1 (rotl_is_rotation w x k H)). Qed.

Lemma joined_parts j w x k : 0 < k < w -> joined j (shl w x k) (lshr w x (w - k)) = rotl w x k.
Proof. intros. rewrite joined_disjoint by (apply parts_disjoint; lia). reflexivity. Qed.
