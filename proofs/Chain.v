(** One register compared with several numbers, all comparisons leading to one place: a chain of branches, or one branch
    by a bit of a set. *)

From Coq Require Import ZArith List Lia Bool.
From Kiln Require Import Bits Bpf Agreement Generated Rotate Arithmetic Memory Flag.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

Definition one_of (w x : Z) (ks : list Z) : bool := existsb (fun k => wrap w x =? wrap w k) ks.

Lemma least_below ks k : In k ks -> least ks <= k.
Proof.
  destruct ks as [| k0 ks]; [intros [] |]. cbn [least].
  assert (L : fold_right Z.min k0 ks <= k0 /\ forall x, In x ks -> fold_right Z.min k0 ks <= x).
  { induction ks as [| k1 ks [I J]]; cbn [fold_right In]; [split; [lia | intros x []] |].
    split; [lia |]. intros x [-> | X]; [lia | specialize (J x X); lia]. }
  destruct L as [L M]. intros [<- | H]; [exact L | exact (M k H)].
Qed.

(** A bit is in the set if it is one of the numbers. *)
Lemma set_bit m ks i : (forall k, In k ks -> m <= k) -> 0 <= i ->
  Z.testbit (set_from m ks) i = existsb (fun k => i =? k - m) ks.
Proof.
  intros M I. induction ks as [| k ks IH]; cbn [set_from fold_right existsb]; [apply Z.bits_0 |].
  rewrite Z.lor_spec. fold (set_from m ks). rewrite IH by (intros x X; apply M; right; exact X).
  f_equal. assert (m <= k) by (apply M; left; reflexivity).
  destruct (Z.eqb_spec i (k - m)) as [-> | D]; [apply Z.pow2_bits_true; lia | apply Z.pow2_bits_false; lia].
Qed.

(** Counted from [m], and cut to a width, a number stays as far from others as it is. *)
Lemma same_distance w x k m : 0 < w -> 0 <= k - m < 2 ^ w -> (wrap w (x - m) =? k - m) = (wrap w x =? wrap w k).
Proof.
  intros W D. assert (P : 2 ^ w <> 0) by (apply Z.pow_nonzero; lia).
  destruct (Z.eqb_spec (wrap w (x - m)) (k - m)) as [E | E], (Z.eqb_spec (wrap w x) (wrap w k)) as [F | F];
    try reflexivity; exfalso; unfold wrap in *.
  - apply F. replace x with ((x - m) + m) by lia. rewrite <- Zplus_mod_idemp_l. rewrite E. f_equal. lia.
  - apply E. rewrite Zminus_mod, F, <- Zminus_mod. apply Z.mod_small. exact D.
Qed.

(** The bit as a limit says whether the register is one of the numbers. *)
Lemma limited w x ks : 64 <= 2 ^ w -> 0 < w -> within 64 ks ->
  (wrap w (x - least ks) <? if Z.testbit (set_of ks) (wrap w (x - least ks) mod 64) then 64 else 0) = one_of w x ks.
Proof.
  intros S W N. assert (R := wrap_range w (x - least ks) ltac:(lia)). unfold set_of.
  rewrite set_bit by (apply least_below || (apply Z.mod_pos_bound; lia)).
  assert (D : forall k, In k ks -> 0 <= k - least ks < 64).
  { intros k K. assert (L := least_below ks k K). unfold within in N. rewrite Forall_forall in N. specialize (N k K).
    cbv beta in N. lia. }
  unfold one_of. set (m := least ks) in *. clearbody m. set (i := wrap w (x - m)) in *.
  assert (B : forall k, In k ks -> (wrap w x =? wrap w k) = (i =? k - m)).
  { intros k K. symmetry. apply same_distance; [lia |]. specialize (D k K). lia. }
  clear N. destruct (Z.ltb_spec i 64) as [I | I].
  - rewrite Z.mod_small by lia.
    replace (existsb (fun k => wrap w x =? wrap w k) ks) with (existsb (fun k => i =? k - m) ks).
    + destruct (existsb (fun k => i =? k - m) ks); apply Z.ltb_lt || apply Z.ltb_ge; lia.
    + clear D. induction ks as [| k ks IH]; cbn [existsb]; [reflexivity |].
      rewrite IH by (intros y Y; apply B; right; exact Y). rewrite B by (left; reflexivity). reflexivity.
  - replace (existsb (fun k => wrap w x =? wrap w k) ks) with false.
    + match goal with |- (i <? ?l) = false => assert (l <= 64) by (destruct (existsb _ ks); lia) end. apply Z.ltb_ge. lia.
    + symmetry. induction ks as [| k ks IH]; cbn [existsb]; [reflexivity |].
      rewrite IH by (intros y Y; (apply D || apply B); right; exact Y).
      rewrite B by (left; reflexivity). specialize (D k ltac:(left; reflexivity)).
      destruct (Z.eqb_spec i (k - m)); [lia | reflexivity].
Qed.

(** Register, set and limit as the machines have them. *)
Lemma limited_x86 w x ks : w = 32 \/ w = 64 -> within 64 ks ->
  holds IsLt 64 (wrap w (x - least ks))
    (Z.land (wrap 32 (wrap 32 (- Z.b2z (Z.testbit (wrap 64 (set_of ks)) (wrap w (x - least ks) mod 64))))) (wrap 32 64))
  = one_of w x ks.
Proof.
  intros W N. rewrite <- limited by (assumption || destruct W as [-> | ->]; lia).
  assert (R := wrap_range w (x - least ks) ltac:(destruct W as [-> | ->]; lia)).
  assert (B : 2 ^ w <= 2 ^ 64) by (destruct W as [-> | ->]; lia).
  rewrite wrap_bit by (try apply Z.mod_pos_bound; lia).
  assert (M := Z.mod_pos_bound (wrap w (x - least ks)) 64 ltac:(lia)).
  destruct (Z.ltb_spec (wrap w (x - least ks) mod 64) 64) as [_ | C]; [| lia]. rewrite andb_true_l.
  cbn [holds]. rewrite (wrap_id 64 (wrap w (x - least ks))) by lia.
  destruct (Z.testbit (set_of ks) _); reflexivity.
Qed.

Lemma limited_a64 w x ks : w = 32 \/ w = 64 -> within 64 ks ->
  holds IsLt 64 (wrap w (x - least ks))
    (wrap 64 (Z.shiftl (Z.land (wrap 64 (lshr 64 (wrap 64 (set_of ks)) (wrap w (x - least ks) mod 64))) (wrap 64 1)) 6))
  = one_of w x ks.
Proof.
  intros W N. rewrite <- limited by (assumption || destruct W as [-> | ->]; lia).
  assert (R := wrap_range w (x - least ks) ltac:(destruct W as [-> | ->]; lia)).
  assert (B : 2 ^ w <= 2 ^ 64) by (destruct W as [-> | ->]; lia).
  assert (M := Z.mod_pos_bound (wrap w (x - least ks)) 64 ltac:(lia)).
  set (i := wrap w (x - least ks) mod 64) in *.
  replace (Z.land (wrap 64 (lshr 64 (wrap 64 (set_of ks)) i)) (wrap 64 1)) with (Z.b2z (Z.testbit (set_of ks) i)).
  - cbn [holds]. rewrite (wrap_id 64 (wrap w (x - least ks))) by lia. destruct (Z.testbit (set_of ks) i); reflexivity.
  - change (wrap 64 1) with (Z.ones 1). rewrite Z.land_ones by lia. change (2 ^ 1) with 2. rewrite <- Z.bit0_mod.
    f_equal. rewrite wrap_bit, lshr_bit, wrap_bit by lia. rewrite Z.add_0_l.
    destruct (Z.ltb_spec 0 64), (Z.ltb_spec i 64); try lia. reflexivity.
Qed.

Lemma kept_by_scratch s n v r : ~ is_scratch r -> update s (Scratch n) v r = s r.
Proof. intros L. apply update_other. intros ->. apply L. exact I. Qed.

Ltac chain_sequence I C :=
  each_row I; decompose [and] C; subst; invert_memory;
  match goal with H : instance (TLeave _) _ |- _ => inversion H; subst; clear H end; invert_instances;
  intros r L T; cbn [run fold_left step leaves value bits one_of existsb holds];
  rewrite ?wrap_wrap, ?(wrap_narrow 64 32) by lia;
  repeat match goal with |- context [?x =? ?y] => destruct (x =? y) end; reflexivity.

Ltac chain_native K I C :=
  each_row I; decompose [and] K;
  match goal with H : is_register ?x |- _ => destruct x; try contradiction H end;
  intros r L T; cbn [X86.run A64.run fold_left X86.step A64.step X86.gprs X86.compared bits];
  rewrite ?x86_met, ?a64_met by lia;
  destruct (reg_eq r Left) as [-> | D];
  [ rewrite !update_same; look_up; change IsGe with (opposite IsLt); rewrite ?holds_opposite;
    rewrite ?limited_x86, ?limited_a64 by (assumption || lia); reflexivity
  | rewrite !(update_other _ Left) by assumption; rewrite ?compared_keeps by assumption;
    rewrite ?kept_by_scratch by assumption; reflexivity ].

Theorem branch_if_any_64_sequences a k1 k2 k3 k4 k5 k6 k7 cond form code st :
  In (cond, form) (branch_if_any_64_forms a k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (one_of 64 (st a) [k1; k2; k3; k4; k5; k6; k7]))) (Scratch 0).
Proof. unfold branch_if_any_64_forms. intros I C F. chain_sequence I C. Qed.

Theorem branch_if_any_64_x86_does a k1 k2 k3 k4 k5 k6 k7 cond code st :
  branch_if_any_64_allowed a k1 k2 k3 k4 k5 k6 k7 -> In (cond, code) (branch_if_any_64_x86 a k1 k2 k3 k4 k5 k6 k7) -> cond ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (one_of 64 (X86.gprs st a) [k1; k2; k3; k4; k5; k6; k7]))) (Scratch 0).
Proof. unfold branch_if_any_64_allowed, branch_if_any_64_x86. intros K I C. chain_native K I C. Qed.

Theorem branch_if_any_64_a64_does a k1 k2 k3 k4 k5 k6 k7 cond code st :
  branch_if_any_64_allowed a k1 k2 k3 k4 k5 k6 k7 -> In (cond, code) (branch_if_any_64_a64 a k1 k2 k3 k4 k5 k6 k7) -> cond ->
  agree_live (A64.run code st) (update st Left (Z.b2z (one_of 64 (st a) [k1; k2; k3; k4; k5; k6; k7]))) (Scratch 0).
Proof. unfold branch_if_any_64_allowed, branch_if_any_64_a64. intros K I C. chain_native K I C. Qed.

Theorem branch_if_any_64_x86_agrees : branch_if_any_64_x86_statement.
Proof. agreed. eapply agree_all; [eapply branch_if_any_64_sequences | eapply branch_if_any_64_x86_does]; eassumption. Qed.

Theorem branch_if_any_64_a64_agrees : branch_if_any_64_a64_statement.
Proof. agreed. eapply agree_all; [eapply branch_if_any_64_sequences | eapply branch_if_any_64_a64_does]; eassumption. Qed.

Theorem branch_if_any_32_sequences a k1 k2 k3 k4 k5 k6 k7 cond form code st :
  In (cond, form) (branch_if_any_32_forms a k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (one_of 32 (st a) [k1; k2; k3; k4; k5; k6; k7]))) (Scratch 0).
Proof. unfold branch_if_any_32_forms. intros I C F. chain_sequence I C. Qed.

Theorem branch_if_any_32_x86_does a k1 k2 k3 k4 k5 k6 k7 cond code st :
  branch_if_any_32_allowed a k1 k2 k3 k4 k5 k6 k7 -> In (cond, code) (branch_if_any_32_x86 a k1 k2 k3 k4 k5 k6 k7) -> cond ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (one_of 32 (X86.gprs st a) [k1; k2; k3; k4; k5; k6; k7]))) (Scratch 0).
Proof. unfold branch_if_any_32_allowed, branch_if_any_32_x86. intros K I C. chain_native K I C. Qed.

Theorem branch_if_any_32_a64_does a k1 k2 k3 k4 k5 k6 k7 cond code st :
  branch_if_any_32_allowed a k1 k2 k3 k4 k5 k6 k7 -> In (cond, code) (branch_if_any_32_a64 a k1 k2 k3 k4 k5 k6 k7) -> cond ->
  agree_live (A64.run code st) (update st Left (Z.b2z (one_of 32 (st a) [k1; k2; k3; k4; k5; k6; k7]))) (Scratch 0).
Proof. unfold branch_if_any_32_allowed, branch_if_any_32_a64. intros K I C. chain_native K I C. Qed.

Theorem branch_if_any_32_x86_agrees : branch_if_any_32_x86_statement.
Proof. agreed. eapply agree_all; [eapply branch_if_any_32_sequences | eapply branch_if_any_32_x86_does]; eassumption. Qed.

Theorem branch_if_any_32_a64_agrees : branch_if_any_32_a64_statement.
Proof. agreed. eapply agree_all; [eapply branch_if_any_32_sequences | eapply branch_if_any_32_a64_does]; eassumption. Qed.

Theorem branch_if_none_64_sequences a k1 k2 k3 k4 k5 k6 k7 cond form code st :
  In (cond, form) (branch_if_none_64_forms a k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (negb (one_of 64 (st a) [k1; k2; k3; k4; k5; k6; k7])))) (Scratch 0).
Proof. unfold branch_if_none_64_forms. intros I C F. chain_sequence I C. Qed.

Theorem branch_if_none_64_x86_does a k1 k2 k3 k4 k5 k6 k7 cond code st :
  branch_if_none_64_allowed a k1 k2 k3 k4 k5 k6 k7 -> In (cond, code) (branch_if_none_64_x86 a k1 k2 k3 k4 k5 k6 k7) -> cond ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (negb (one_of 64 (X86.gprs st a) [k1; k2; k3; k4; k5; k6; k7])))) (Scratch 0).
Proof. unfold branch_if_none_64_allowed, branch_if_none_64_x86. intros K I C. chain_native K I C. Qed.

Theorem branch_if_none_64_a64_does a k1 k2 k3 k4 k5 k6 k7 cond code st :
  branch_if_none_64_allowed a k1 k2 k3 k4 k5 k6 k7 -> In (cond, code) (branch_if_none_64_a64 a k1 k2 k3 k4 k5 k6 k7) -> cond ->
  agree_live (A64.run code st) (update st Left (Z.b2z (negb (one_of 64 (st a) [k1; k2; k3; k4; k5; k6; k7])))) (Scratch 0).
Proof. unfold branch_if_none_64_allowed, branch_if_none_64_a64. intros K I C. chain_native K I C. Qed.

Theorem branch_if_none_64_x86_agrees : branch_if_none_64_x86_statement.
Proof. agreed. eapply agree_all; [eapply branch_if_none_64_sequences | eapply branch_if_none_64_x86_does]; eassumption. Qed.

Theorem branch_if_none_64_a64_agrees : branch_if_none_64_a64_statement.
Proof. agreed. eapply agree_all; [eapply branch_if_none_64_sequences | eapply branch_if_none_64_a64_does]; eassumption. Qed.

Theorem branch_if_none_32_sequences a k1 k2 k3 k4 k5 k6 k7 cond form code st :
  In (cond, form) (branch_if_none_32_forms a k1 k2 k3 k4 k5 k6 k7) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (negb (one_of 32 (st a) [k1; k2; k3; k4; k5; k6; k7])))) (Scratch 0).
Proof. unfold branch_if_none_32_forms. intros I C F. chain_sequence I C. Qed.

Theorem branch_if_none_32_x86_does a k1 k2 k3 k4 k5 k6 k7 cond code st :
  branch_if_none_32_allowed a k1 k2 k3 k4 k5 k6 k7 -> In (cond, code) (branch_if_none_32_x86 a k1 k2 k3 k4 k5 k6 k7) -> cond ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (negb (one_of 32 (X86.gprs st a) [k1; k2; k3; k4; k5; k6; k7])))) (Scratch 0).
Proof. unfold branch_if_none_32_allowed, branch_if_none_32_x86. intros K I C. chain_native K I C. Qed.

Theorem branch_if_none_32_a64_does a k1 k2 k3 k4 k5 k6 k7 cond code st :
  branch_if_none_32_allowed a k1 k2 k3 k4 k5 k6 k7 -> In (cond, code) (branch_if_none_32_a64 a k1 k2 k3 k4 k5 k6 k7) -> cond ->
  agree_live (A64.run code st) (update st Left (Z.b2z (negb (one_of 32 (st a) [k1; k2; k3; k4; k5; k6; k7])))) (Scratch 0).
Proof. unfold branch_if_none_32_allowed, branch_if_none_32_a64. intros K I C. chain_native K I C. Qed.

Theorem branch_if_none_32_x86_agrees : branch_if_none_32_x86_statement.
Proof. agreed. eapply agree_all; [eapply branch_if_none_32_sequences | eapply branch_if_none_32_x86_does]; eassumption. Qed.

Theorem branch_if_none_32_a64_agrees : branch_if_none_32_a64_statement.
Proof. agreed. eapply agree_all; [eapply branch_if_none_32_sequences | eapply branch_if_none_32_a64_does]; eassumption. Qed.
