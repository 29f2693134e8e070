(** Rotations by a register: native code and proof sequences agree.

    The amount may be anything: it is taken modulo the width, and 0 leaves the number as it is. Proof sequences shift to
    the right by the negated amount, computed in one of three ways. *)

From Coq Require Import ZArith Znumtheory List Lia.
From Kiln Require Import Bits Bpf Agreement Generated Rotate.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

Definition rotated (w x n : Z) : Z := if n mod w =? 0 then wrap w x else rotl w (wrap w x) (n mod w).

(** Widths of operands, each a power of two that divides every power of two of a width. *)
Definition is_width (w : Z) : Prop := w = 32 \/ w = 64.

Lemma width_of c : is_width (bits c).
Proof. destruct c; unfold is_width; simpl; auto. Qed.

Lemma wrap_mod v w a : is_width v -> is_width w -> wrap v a mod w = a mod w.
Proof.
  intros [-> | ->] [-> | ->]; unfold wrap; symmetry; apply Zmod_div_mod; try reflexivity;
    [exists (2 ^ 27) | exists (2 ^ 26) | exists (2 ^ 59) | exists (2 ^ 58)]; reflexivity.
Qed.

Lemma wrap8_mod w a : is_width w -> wrap 8 a mod w = a mod w.
Proof.
  intros [-> | ->]; unfold wrap; symmetry; apply Zmod_div_mod; try reflexivity; [exists 8 | exists 4]; reflexivity.
Qed.

Lemma opp_mod w n : 0 < w -> (- n) mod w = if n mod w =? 0 then 0 else w - n mod w.
Proof.
  intros W. destruct (Z.eqb_spec (n mod w) 0) as [E | E].
  - apply Z_mod_zero_opp_full. assumption.
  - apply Z_mod_nz_opp_full. assumption.
Qed.

(** The two parts, joined. *)
Lemma parts_rotated w x n : is_width w ->
  Z.lor (shl w (wrap w x) (n mod w)) (lshr w (wrap w x) ((- n) mod w)) = rotated w x n.
Proof.
  intros I. assert (0 < w) by (destruct I; subst; lia). assert (M := Z.mod_pos_bound n w ltac:(lia)).
  rewrite opp_mod by lia. unfold rotated. destruct (Z.eqb_spec (n mod w) 0) as [E | E].
  - rewrite E. unfold shl, lshr. rewrite Z.shiftl_0_r, Z.shiftr_0_r, !wrap_wrap by lia. apply Z.lor_diag.
  - reflexivity.
Qed.

Lemma left_shift w x n : is_width w -> apply Lsh w x n = shl w (wrap w x) (n mod w).
Proof. intros I. unfold apply. rewrite (wrap_mod w w) by assumption. reflexivity. Qed.

Lemma right_shift w x n u : is_width w -> u mod w = (- n) mod w -> apply Rsh w x u = lshr w (wrap w x) ((- n) mod w).
Proof. intros I E. unfold apply. rewrite (wrap_mod w w), E by assumption. reflexivity. Qed.

(** The negated amount, in its three ways. *)
Lemma by_difference w v v' n y : is_width w -> is_width v -> is_width v' ->
  apply Sub v (apply Mov v' y (wrap 64 w)) n mod w = (- n) mod w.
Proof.
  intros W V V'. unfold apply. rewrite wrap_mod by assumption.
  rewrite Zminus_mod, !(wrap_mod v w), (wrap_mod v' w), (wrap_mod 64 w) by (try assumption; right; reflexivity).
  replace (- n) with (0 - n) by lia. rewrite (Zminus_mod 0 n), Z_mod_same_full, Zmod_0_l. reflexivity.
Qed.

Lemma by_negation w v v' n y : is_width w -> is_width v -> is_width v' ->
  wrap v (- wrap v (apply Mov v' y n)) mod w = (- n) mod w.
Proof.
  intros W V V'. unfold apply. rewrite wrap_mod by assumption.
  replace (- wrap v (wrap v' n)) with (0 - wrap v (wrap v' n)) by lia.
  rewrite Zminus_mod, (wrap_mod v w), (wrap_mod v' w) by assumption. rewrite <- Zminus_mod. reflexivity.
Qed.

Lemma masked w v a : is_width w -> is_width v -> apply And v a (wrap 64 (w - 1)) mod w = a mod w.
Proof.
  intros W V. unfold apply. rewrite (wrap_id 64 (w - 1)) by (destruct W; subst; simpl; lia).
  rewrite (wrap_id v (w - 1)) by (destruct W, V; subst; simpl; lia).
  rewrite <- (wrap_mod v w a) by assumption.
  destruct W; subst; [change (32 - 1) with (Z.ones 5) | change (64 - 1) with (Z.ones 6)];
    rewrite Z.land_ones by lia; apply Z.mod_mod; discriminate.
Qed.

Lemma instance_of_neg ws d i : instance (TNeg ws d) i -> exists w, i = Neg w d /\ In w ws.
Proof. intros H. inversion H; subst. eauto. Qed.

Ltac invert_all := invert_instances;
  repeat (match goal with H : instance (TNeg _ _) _ |- _ => apply instance_of_neg in H; destruct H as (? & -> & ?) end; invert_instances).

(** After the code, [d] holds [v] and all but [d], [t] and [u] hold what they held. *)
Definition does_register (s s' : regs) (d t u : reg) (v : Z) : Prop :=
  s' d = v /\ forall r, r <> d -> r <> t -> r <> u -> s' r = s r.

Ltac widths := solve [apply width_of | left; reflexivity | right; reflexivity].

Ltac right_amount := first
  [ apply by_difference; widths
  | apply by_negation; widths
  | change 31 with (32 - 1); rewrite masked by widths; apply by_negation; widths
  | change 63 with (64 - 1); rewrite masked by widths; apply by_negation; widths ].

Lemma or_parts w x n u : is_width w -> u mod w = (- n) mod w ->
  apply Or w (apply Lsh w (wrap w x) n) (apply Rsh w x u) = rotated w x n.
Proof.
  intros W E. rewrite left_shift, (right_shift w x n u) by assumption. unfold apply.
  assert (0 < w) by (destruct W; lia).
  rewrite wrap_wrap by lia.
  rewrite (wrap_id w (shl w (wrap w x) (n mod w))) by (try apply shl_range; lia).
  assert (M := Z.mod_pos_bound (- n) w ltac:(lia)).
  rewrite (wrap_id w (lshr w (wrap w x) _)) by (try apply lshr_range; lia).
  apply parts_rotated. assumption.
Qed.

Theorem rotate_register_32_sequences d s n t u cond form code st :
  In (cond, form) (rotate_register_32_forms d s n t u) -> cond -> instances form code ->
  does_register st (run code st) d t u (rotated 32 (st s) (st n)).
Proof.
  unfold rotate_register_32_forms. intros I C F.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  all: decompose [and] C; subst; invert_all.
  all: repeat match goal with H : In ?x [_] |- _ => destruct H as [<- | []] end.
  all: split; [| intros r ? ? ?; cbn [run fold_left step]; look_up; reflexivity].
  all: cbn [run fold_left step value]; look_up; cbn [bits].
  all: match goal with |- apply Or ?w (apply Lsh ?w (apply Mov ?v ?y ?x) ?n) ?r = _ =>
    replace (apply Lsh w (apply Mov v y x) n) with (apply Lsh w (wrap w x) n)
      by (rewrite !left_shift by widths; rewrite copied by wide_enough; rewrite wrap_wrap by lia; reflexivity) end.
  all: apply or_parts; [widths |].
  all: right_amount.
Qed.

Theorem rotate_register_64_sequences d s n t u cond form code st :
  In (cond, form) (rotate_register_64_forms d s n t u) -> cond -> instances form code ->
  does_register st (run code st) d t u (rotated 64 (st s) (st n)).
Proof.
  unfold rotate_register_64_forms. intros I C F.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  all: decompose [and] C; subst; invert_all.
  all: repeat match goal with H : In ?x [_] |- _ => destruct H as [<- | []] end.
  all: split; [| intros r ? ? ?; cbn [run fold_left step]; look_up; reflexivity].
  all: cbn [run fold_left step value]; look_up; cbn [bits].
  all: match goal with |- apply Or ?w (apply Lsh ?w (apply Mov ?v ?y ?x) ?n) ?r = _ =>
    replace (apply Lsh w (apply Mov v y x) n) with (apply Lsh w (wrap w x) n)
      by (rewrite !left_shift by widths; rewrite copied by wide_enough; rewrite wrap_wrap by lia; reflexivity) end.
  all: apply or_parts; [widths |].
  all: right_amount.
Qed.

(** Native code. *)
Lemma rol_rotates w x n : is_width w -> X86.rol w x n = rotated w x n.
Proof.
  intros W. assert (0 < w) by (destruct W; lia). assert (M := Z.mod_pos_bound n w ltac:(lia)).
  unfold rotated. destruct (Z.eqb_spec (n mod w) 0) as [E | E].
  - unfold X86.rol. rewrite E. reflexivity.
  - rewrite <- (X86.rol_is_rotl w x (n mod w)) by lia. unfold X86.rol. rewrite Z.mod_mod by lia. reflexivity.
Qed.

Lemma rotated_same w x y n m : wrap w x = wrap w y -> n mod w = m mod w -> rotated w x n = rotated w y m.
Proof. intros E F. unfold rotated. rewrite E, F. reflexivity. Qed.

Lemma rorv_rotates w x m n : is_width w -> m mod w = (- n) mod w -> A64.rorv w x m = rotated w x n.
Proof.
  intros W E. assert (0 < w) by (destruct W; lia). unfold A64.rorv.
  rewrite (wrap_mod w w), E, opp_mod by assumption. assert (M := Z.mod_pos_bound n w ltac:(lia)).
  unfold rotated. destruct (Z.eqb_spec (n mod w) 0) as [F | F]; [reflexivity |].
  destruct (Z.eqb_spec (w - n mod w) 0); [lia |].
  unfold rotl. rewrite Z.lor_comm. f_equal.
  - f_equal. lia.
  - unfold lshr. rewrite wrap_wrap by lia. reflexivity.
Qed.

Ltac other_places r L := repeat (rewrite update_other by (assumption || congruence || (intros ->; apply L; exact I))).

(** All places but [d] hold what they held, and so do not those that JITs keep free. *)
Definition changes_only (s s' : regs) (d : reg) (v : Z) : Prop :=
  s' d = v /\ forall r, ~ is_scratch r -> r <> d -> s' r = s r.

Lemma agree_twice s a b d t u v : ~ is_scratch t -> ~ is_scratch u ->
  does_register s a d t u v -> changes_only s b d v -> agrees [d] [t; u] s a b.
Proof.
  intros S S' [A A'] [B B']. split.
  - intros r L P. destruct (reg_eq r d) as [-> | D]; [congruence |]. cbn [In] in P.
    rewrite A' by (intros E; subst; intuition congruence). rewrite B' by assumption. reflexivity.
  - cbn [In]. intros r T D. assert (r <> d) by (intros E; subst; intuition congruence).
    rewrite B' by (assumption || (destruct T as [<- | [<- | []]]; assumption)). reflexivity.
Qed.

Theorem rotate_register_32_x86_does d s n t u cond code st : well_formed (X86.gprs st) ->
  In (cond, code) (rotate_register_32_x86 (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond ->
  changes_only (X86.gprs st) (X86.gprs (X86.run code st)) (Bpf d)
    (rotated 32 (X86.gprs st (Bpf s)) (X86.gprs st (Bpf n))).
Proof.
  unfold rotate_register_32_x86. intros Fine I C.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  all: decompose [and] C; split.
  - cbn [X86.run fold_left X86.step X86.gprs]; look_up; cbn [bits]. rewrite rol_rotates by widths.
    apply rotated_same; [apply wrap_wrap; lia | rewrite wrap8_mod by widths; congruence].
  - intros r L ?. cbn [X86.run fold_left X86.step X86.gprs]. other_places r L. reflexivity.
  - cbn [X86.run fold_left X86.step X86.gprs]; look_up; cbn [bits]. rewrite rol_rotates by widths.
    apply rotated_same; [apply wrap_wrap; lia |]. rewrite wrap8_mod by widths. apply wrap_mod; widths.
  - intros r L ?. cbn [X86.run fold_left X86.step X86.gprs].
    destruct (reg_eq r (Bpf 4)) as [-> | ?]; [look_up | other_places r L; reflexivity].
    cbn [bits]. rewrite wrap_wrap by lia. apply wrap_id; [lia | apply Fine].
Qed.

Theorem rotate_register_32_a64_does d s n t u cond code st :
  In (cond, code) (rotate_register_32_a64 (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond ->
  changes_only st (A64.run code st) (Bpf d) (rotated 32 (st (Bpf s)) (st (Bpf n))).
Proof.
  unfold rotate_register_32_a64. intros I C.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  split; [| intros r L ?; cbn [A64.run fold_left A64.step]; other_places r L; reflexivity].
  cbn [A64.run fold_left A64.step]; look_up; cbn [bits]. apply rorv_rotates; [widths |].
  rewrite wrap_mod by widths. replace (- wrap 32 (st (Bpf n))) with (0 - wrap 32 (st (Bpf n))) by lia.
  rewrite Zminus_mod, wrap_mod by widths. rewrite <- Zminus_mod. reflexivity.
Qed.

Theorem rotate_register_32_x86_agrees : rotate_register_32_x86_statement.
Proof. agreed. eapply agree_twice; [intros [] | intros [] | eapply rotate_register_32_sequences | eapply rotate_register_32_x86_does]; eassumption. Qed.

Theorem rotate_register_32_a64_agrees : rotate_register_32_a64_statement.
Proof. agreed. eapply agree_twice; [intros [] | intros [] | eapply rotate_register_32_sequences | eapply rotate_register_32_a64_does]; eassumption. Qed.

Theorem rotate_register_64_x86_does d s n t u cond code st : well_formed (X86.gprs st) ->
  In (cond, code) (rotate_register_64_x86 (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond ->
  changes_only (X86.gprs st) (X86.gprs (X86.run code st)) (Bpf d)
    (rotated 64 (X86.gprs st (Bpf s)) (X86.gprs st (Bpf n))).
Proof.
  unfold rotate_register_64_x86. intros Fine I C.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  all: decompose [and] C; split.
  - cbn [X86.run fold_left X86.step X86.gprs]; look_up; cbn [bits]. rewrite rol_rotates by widths.
    apply rotated_same; [apply wrap_wrap; lia | rewrite wrap8_mod by widths; congruence].
  - intros r L ?. cbn [X86.run fold_left X86.step X86.gprs]. other_places r L. reflexivity.
  - cbn [X86.run fold_left X86.step X86.gprs]; look_up; cbn [bits]. rewrite rol_rotates by widths.
    apply rotated_same; [apply wrap_wrap; lia |]. rewrite wrap8_mod by widths. apply wrap_mod; widths.
  - intros r L ?. cbn [X86.run fold_left X86.step X86.gprs].
    destruct (reg_eq r (Bpf 4)) as [-> | ?]; [look_up | other_places r L; reflexivity].
    cbn [bits]. rewrite wrap_wrap by lia. apply wrap_id; [lia | apply Fine].
Qed.

Theorem rotate_register_64_a64_does d s n t u cond code st :
  In (cond, code) (rotate_register_64_a64 (Bpf d) (Bpf s) (Bpf n) (Bpf t) (Bpf u)) -> cond ->
  changes_only st (A64.run code st) (Bpf d) (rotated 64 (st (Bpf s)) (st (Bpf n))).
Proof.
  unfold rotate_register_64_a64. intros I C.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  split; [| intros r L ?; cbn [A64.run fold_left A64.step]; other_places r L; reflexivity].
  cbn [A64.run fold_left A64.step]; look_up; cbn [bits]. apply rorv_rotates; [widths |].
  rewrite wrap_mod by widths. replace (- wrap 32 (st (Bpf n))) with (0 - wrap 32 (st (Bpf n))) by lia.
  rewrite Zminus_mod, wrap_mod by widths. rewrite <- Zminus_mod. reflexivity.
Qed.

Theorem rotate_register_64_x86_agrees : rotate_register_64_x86_statement.
Proof. agreed. eapply agree_twice; [intros [] | intros [] | eapply rotate_register_64_sequences | eapply rotate_register_64_x86_does]; eassumption. Qed.

Theorem rotate_register_64_a64_agrees : rotate_register_64_a64_statement.
Proof. agreed. eapply agree_twice; [intros [] | intros [] | eapply rotate_register_64_sequences | eapply rotate_register_64_a64_does]; eassumption. Qed.
