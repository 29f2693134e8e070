(** Operations with two accesses to adjacent places: 16 bytes cleared, loaded or stored at once.

    [store_byte] says which number each byte of memory is after a store. So stores to different bytes are the same in
    either order, and two adjacent stores are one. *)

From Coq Require Import ZArith List Lia Permutation.
From Kiln Require Import Bits Bpf Agreement Generated Rotate Arithmetic Memory.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

(** How far an address is behind another one, counted round. *)
Definition behind (x a : Z) : Z := wrap 64 (x - a).

Lemma behind_range x a : 0 <= behind x a < 2 ^ 64.
Proof. apply wrap_range. lia. Qed.

Lemma behind_start x a : 0 <= x < 2 ^ 64 -> (x = wrap 64 a <-> behind x a = 0).
Proof.
  intros X. unfold behind, wrap. split.
  - intros ->. rewrite Zminus_mod_idemp_l, Z.sub_diag. apply Zmod_0_l.
  - intros E. apply Z.mod_divide in E; [| lia]. destruct E as [k E].
    replace x with (a + k * 2 ^ 64) in X |- * by lia. rewrite <- (Z_mod_plus_full a k (2 ^ 64)).
    symmetry. apply Z.mod_small. assumption.
Qed.

(** [n] bytes further, an address is [n] less behind, or before. *)
Lemma behind_further x a n : 0 <= n < 2 ^ 64 ->
  behind x (a + n) = if behind x a <? n then behind x a - n + 2 ^ 64 else behind x a - n.
Proof.
  intros N. assert (R := behind_range x a). unfold behind, wrap in *.
  replace (x - (a + n)) with ((x - a) - n) by lia. rewrite <- Zminus_mod_idemp_l.
  set (d := (x - a) mod 2 ^ 64) in *. destruct (Z.ltb_spec d n).
  - rewrite <- (Z_mod_plus_full (d - n) 1). rewrite Z.mul_1_l. apply Z.mod_small. lia.
  - apply Z.mod_small. lia.
Qed.

Lemma store_byte n : forall a v s x, Z.of_nat n < 2 ^ 64 -> 0 <= x < 2 ^ 64 ->
  store n a v s (Byte x) =
  if behind x a <? Z.of_nat n then wrap 8 (v / 2 ^ (8 * behind x a)) else s (Byte x).
Proof.
  induction n as [| n IH]; intros a v s x N X.
  - cbn [store]. assert (R := behind_range x a). destruct (Z.ltb_spec (behind x a) (Z.of_nat 0)); [lia | reflexivity].
  - cbn [store]. rewrite IH by lia. assert (R := behind_range x a).
    rewrite (behind_further x a 1) by lia.
    assert (Start := behind_start x a X). unfold update.
    destruct (Z.ltb_spec (behind x a) 1) as [B | B].
    + destruct (Z.ltb_spec (behind x a - 1 + 2 ^ 64) (Z.of_nat n)); [lia |].
      destruct (Z.ltb_spec (behind x a) (Z.of_nat (S n))); [| lia].
      assert (E : behind x a = 0) by lia.
      destruct (reg_eq (Byte x) (Byte (wrap 64 a))) as [_ | D]; [| exfalso; apply D; f_equal; apply Start; exact E].
      rewrite E. change (2 ^ (8 * 0)) with 1. rewrite Z.div_1_r. reflexivity.
    + destruct (Z.ltb_spec (behind x a - 1) (Z.of_nat n)), (Z.ltb_spec (behind x a) (Z.of_nat (S n))); try lia.
      * rewrite Z.div_div by lia. rewrite <- Z.pow_add_r by lia. do 2 f_equal. f_equal. lia.
      * destruct (reg_eq (Byte x) (Byte (wrap 64 a))) as [D | _]; [| reflexivity].
        injection D as D. apply Start in D. lia.
Qed.

(** Only addresses of 64 bits are written. *)
Lemma store_elsewhere n : forall a v s r, (forall x, r = Byte x -> ~ 0 <= x < 2 ^ 64) -> store n a v s r = s r.
Proof.
  induction n as [| n IH]; intros a v s r R; [reflexivity |]. cbn [store]. rewrite IH by assumption.
  apply update_other. intros ->. apply (R (wrap 64 a) eq_refl). apply wrap_range. lia.
Qed.

(** By places: what a store does not write, and what it does. *)
Lemma by_place (P : reg -> Prop) :
  (forall x, 0 <= x < 2 ^ 64 -> P (Byte x)) -> (forall r, (forall x, r = Byte x -> ~ 0 <= x < 2 ^ 64) -> P r) ->
  forall r, P r.
Proof.
  intros B E r. destruct r as [k | k | x | k |]; try (apply E; intros x D; discriminate D).
  destruct (Z_le_gt_dec 0 x) as [L | L], (Z_lt_ge_dec x (2 ^ 64)) as [H | H];
    try (apply B; lia); apply E; intros y D; injection D as <-; lia.
Qed.

Lemma stores_commute n m a v w s : Z.of_nat n + Z.of_nat m < 2 ^ 64 ->
  forall r, store n a v (store m (a + Z.of_nat n) w s) r = store m (a + Z.of_nat n) w (store n a v s) r.
Proof.
  intros N. apply by_place.
  - intros x X. rewrite !store_byte by lia. rewrite (behind_further x a (Z.of_nat n)) by lia.
    assert (R := behind_range x a). destruct (Z.ltb_spec (behind x a) (Z.of_nat n)).
    + destruct (Z.ltb_spec (behind x a - Z.of_nat n + 2 ^ 64) (Z.of_nat m)); [lia | reflexivity].
    + reflexivity.
  - intros r E. rewrite !store_elsewhere by assumption. reflexivity.
Qed.

(** Zero into adjacent bytes is zero into all of them. *)
Lemma clears_join n m a s : Z.of_nat n + Z.of_nat m < 2 ^ 64 ->
  forall r, store m (a + Z.of_nat n) 0 (store n a 0 s) r = store (n + m) a 0 s r.
Proof.
  intros N. apply by_place.
  - intros x X. rewrite !store_byte by lia. rewrite (behind_further x a (Z.of_nat n)) by lia.
    assert (R := behind_range x a). assert (Zero : forall k, 0 <= k -> wrap 8 (0 / 2 ^ k) = 0).
    { intros k K. rewrite Z.div_0_l by (apply Z.pow_nonzero; lia). reflexivity. }
    destruct (Z.ltb_spec (behind x a) (Z.of_nat n)).
    + destruct (Z.ltb_spec (behind x a - Z.of_nat n + 2 ^ 64) (Z.of_nat m)); [lia |].
      destruct (Z.ltb_spec (behind x a) (Z.of_nat (n + m))); [reflexivity | lia].
    + destruct (Z.ltb_spec (behind x a - Z.of_nat n) (Z.of_nat m)),
        (Z.ltb_spec (behind x a) (Z.of_nat (n + m))); try lia.
      rewrite !Zero by lia. reflexivity.
  - intros r E. rewrite !store_elsewhere by assumption. reflexivity.
Qed.

Lemma load_update n : forall a s r v, (forall x, r <> Byte x) -> load n a (update s r v) = load n a s.
Proof.
  induction n as [| n IH]; intros a s r v R; [reflexivity |]. cbn [load]. rewrite IH by assumption.
  rewrite update_other by (intros D; exact (R _ (eq_sym D))). reflexivity.
Qed.

Lemma load_register n a s r v : is_register r -> load n a (update s r v) = load n a s.
Proof. intros R. apply load_update. intros x ->. contradiction R. Qed.

(** The upper half is behind the lower one. *)
Lemma upper x o : x + (o + 8) = x + o + Z.of_nat 8.
Proof. lia. Qed.

(** Both orders of two stores are the one upwards. *)
Lemma two_stores s b o v w : is_register b ->
  forall r, store 8 (store 8 (s b + o) v s b + (o + 8)) w (store 8 (s b + o) v s) r =
            store 8 (s b + o + Z.of_nat 8) w (store 8 (s b + o) v s) r.
Proof. intros B r. rewrite (store_register 8 _ _ _ b) by assumption. rewrite upper. reflexivity. Qed.

Lemma two_stores_downwards s b o v w : is_register b ->
  forall r, store 8 (store 8 (s b + (o + 8)) w s b + o) v (store 8 (s b + (o + 8)) w s) r =
            store 8 (s b + o + Z.of_nat 8) w (store 8 (s b + o) v s) r.
Proof.
  intros B r. rewrite (store_register 8 _ _ _ b) by assumption. rewrite upper.
  apply stores_commute. change (Z.of_nat 8) with 8. lia.
Qed.

Theorem clear_pair_sequences b o cond form code st :
  clear_pair_allowed b o -> In (cond, form) (clear_pair_forms b o) -> instances form code ->
  forall r, run code st r = store 16 (st b + o) 0 st r.
Proof.
  unfold clear_pair_allowed, clear_pair_forms. intros [B _] I F r.
  transitivity (store 8 (st b + o + Z.of_nat 8) 0 (store 8 (st b + o) 0 st) r).
  - each_row I; invert_memory; cbn [run fold_left step value]; change (wrap 64 0) with 0;
      [apply two_stores | apply two_stores_downwards]; assumption.
  - apply (clears_join 8 8). change (Z.of_nat 8) with 8. lia.
Qed.

(** Two accesses to the two halves, in either order. *)
Ltac same_halves := cbn [trace accesses A64.trace A64.accesses bytes app step A64.step shared filter base];
  match goal with |- context [reg_eq ?b (Bpf 10)] => destruct (reg_eq b (Bpf 10)) end; look_up;
  rewrite ?(store_register 8), ?load_register, ?(update_other _ _ _ (Bpf _)) by (exact I || congruence);
  apply Permutation_refl || apply perm_swap.

Ltac halves I N := unfold same_in_any_order; open_rows I; open_rows N; repeat match goal with H : _ /\ _ |- _ => destruct H end;
  invert_each; same_halves.

Theorem clear_pair_x86_agrees : clear_pair_x86_statement.
Proof.
  red. intros * W K I C F N C'. split; [split |].
  - intros r L _. rewrite (clear_pair_sequences (Bpf b) o cond form) by assumption.
    open_rows N. cbn [X86.run fold_left X86.step X86.gprs]. rewrite update_same.
    rewrite (update_other _ _ _ (Bpf b)) by discriminate.
    rewrite store_update by discriminate. destruct (reg_eq r X86.vector) as [-> | _]; [| reflexivity].
    exfalso. apply L. exact Logic.I.
  - intros r [].
  - open_rows N. injection C' as ->. open_rows I; invert_each; reflexivity.
Qed.

Theorem clear_pair_a64_agrees : clear_pair_a64_statement.
Proof.
  red. intros * W K I C F N C'. split; [split |].
  - intros r L _. rewrite (clear_pair_sequences (Bpf b) o cond form) by assumption.
    open_rows N. cbn [A64.run fold_left A64.step bytes]. symmetry.
    apply (clears_join 8 8). change (Z.of_nat 8) with 8. lia.
  - intros r [].
  - halves I N.
Qed.

Theorem store_pair_a64_agrees : store_pair_a64_statement.
Proof.
  red. intros * W K I C F N C'. split; [split |].
  - intros r L _. open_rows N. open_rows I; invert_memory; cbn [run fold_left step value A64.run A64.step bytes].
    + rewrite (store_register 8 _ _ _ (Bpf u)) by exact Logic.I. apply two_stores. exact Logic.I.
    + rewrite (store_register 8 _ _ _ (Bpf s)) by exact Logic.I. apply two_stores_downwards. exact Logic.I.
  - intros r [].
  - halves I N.
Qed.

Theorem load_pair_a64_agrees : load_pair_a64_statement.
Proof.
  red. intros * W K I C F N C'. split; [split |].
  - intros r L _. open_rows N. open_rows I; decompose [and] C; invert_memory; cbn [run fold_left step A64.run A64.step bytes].
    + rewrite load_register, (update_other _ _ _ (Bpf b)), upper by (assumption || exact Logic.I). reflexivity.
    + rewrite load_register, (update_other _ _ _ (Bpf b)), upper by (assumption || exact Logic.I).
      unfold update. destruct (reg_eq r (Bpf d)), (reg_eq r (Bpf e)); congruence.
  - intros r [].
  - halves I N.
Qed.
