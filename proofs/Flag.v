(** One or zero by a comparison: a branch in the proof sequence, flags in native code. *)

From Coq Require Import ZArith List Lia Bool.
From Kiln Require Import Bits Bpf Agreement Generated Rotate Arithmetic Memory.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

Lemma top_bit w x : 0 < w -> 0 <= x < 2 ^ w -> Z.testbit x (w - 1) = (2 ^ (w - 1) <=? x).
Proof.
  intros W H. assert (P : 2 ^ w = 2 * 2 ^ (w - 1)) by (rewrite <- Z.pow_succ_r by lia; f_equal; lia).
  assert (0 < 2 ^ (w - 1)) by (apply Z.pow_pos_nonneg; lia).
  assert (B := Z.testbit_spec' x (w - 1) ltac:(lia)). destruct (Z.leb_spec (2 ^ (w - 1)) x) as [L | L].
  - replace (x / 2 ^ (w - 1)) with 1 in B by (apply Z.div_unique with (x - 2 ^ (w - 1)); lia).
    destruct (Z.testbit x (w - 1)); [reflexivity | discriminate].
  - rewrite Z.div_small in B by lia. destruct (Z.testbit x (w - 1)); [discriminate | reflexivity].
Qed.

Lemma signed_number w x : 0 < w -> signed w x = if 2 ^ (w - 1) <=? wrap w x then wrap w x - 2 ^ w else wrap w x.
Proof.
  intros W. unfold signed. rewrite <- top_bit by (try apply wrap_range; lia). rewrite wrap_bit by lia.
  destruct (Z.ltb_spec (w - 1) w); [reflexivity | lia].
Qed.

Lemma difference w a b : 0 < w -> 0 <= a < 2 ^ w -> 0 <= b < 2 ^ w ->
  wrap w (a - b) = if a <? b then a - b + 2 ^ w else a - b.
Proof.
  intros W A B. unfold wrap. destruct (Z.ltb_spec a b).
  - symmetry. apply Z.mod_unique with (-1); lia.
  - apply Z.mod_small. lia.
Qed.

(** Signed numbers of a width [w], whose half is [h]. *)
Definition as_signed (h x : Z) : Z := if h <=? x then x - 2 * h else x.

Lemma zero_flag h x y : 0 < h -> 0 <= x < 2 * h -> 0 <= y < 2 * h ->
  ((if x <? y then x - y + 2 * h else x - y) =? 0) = (x =? y).
Proof.
  intros. destruct (Z.ltb_spec x y), (Z.eqb_spec x y);
  match goal with |- (?p =? ?q) = _ => destruct (Z.eqb_spec p q) end; reflexivity || lia.
Qed.

Lemma sign_flags h x y : 0 < h -> 0 <= x < 2 * h -> 0 <= y < 2 * h ->
  xorb (h <=? (if x <? y then x - y + 2 * h else x - y))
    (negb ((- h <=? as_signed h x - as_signed h y) && (as_signed h x - as_signed h y <? h)))
  = (as_signed h x <? as_signed h y).
Proof.
  intros H X Y. unfold as_signed. destruct (Z.ltb_spec x y), (Z.leb_spec h x), (Z.leb_spec h y); try lia;
  match goal with |- xorb (?a <=? ?b) (negb ((?c <=? ?d) && (?e <? ?f))) = (?g <? ?i) =>
    destruct (Z.leb_spec a b); try lia; destruct (Z.leb_spec c d); try lia;
    destruct (Z.ltb_spec e f); try lia; destruct (Z.ltb_spec g i); try lia; reflexivity end.
Qed.

Lemma as_signed_same h x y : 0 < h -> 0 <= x < 2 * h -> 0 <= y < 2 * h -> (x =? y) = (as_signed h x =? as_signed h y).
Proof.
  intros. unfold as_signed. destruct (Z.leb_spec h x), (Z.leb_spec h y), (Z.eqb_spec x y);
  try reflexivity; match goal with |- _ = (?p =? ?q) => destruct (Z.eqb_spec p q) end; reflexivity || lia.
Qed.

(** What flags say of a comparison is what the comparison is. *)
Lemma x86_met c w a b : 0 < w -> X86.is_met c (X86.subtracted w a b) = holds c w a b.
Proof.
  intros W. assert (P : 2 ^ w = 2 * 2 ^ (w - 1)) by (rewrite <- Z.pow_succ_r by lia; f_equal; lia).
  assert (H : 0 < 2 ^ (w - 1)) by (apply Z.pow_pos_nonneg; lia).
  assert (A := wrap_range w a ltac:(lia)). assert (B := wrap_range w b ltac:(lia)).
  assert (SA := signed_number w a W). assert (SB := signed_number w b W). rewrite P in SA, SB.
  change (signed w a = as_signed (2 ^ (w - 1)) (wrap w a)) in SA.
  change (signed w b = as_signed (2 ^ (w - 1)) (wrap w b)) in SB.
  assert (Z := zero_flag (2 ^ (w - 1)) (wrap w a) (wrap w b) H ltac:(lia) ltac:(lia)).
  assert (S := sign_flags (2 ^ (w - 1)) (wrap w a) (wrap w b) H ltac:(lia) ltac:(lia)).
  assert (E := as_signed_same (2 ^ (w - 1)) (wrap w a) (wrap w b) H ltac:(lia) ltac:(lia)).
  rewrite <- SA, <- SB in S, E. rewrite <- P in Z, S. rewrite <- difference in Z, S by assumption.
  rewrite <- top_bit in S by (try apply wrap_range; lia).
  unfold X86.subtracted. destruct c; cbn [X86.is_met X86.cf X86.zf X86.sf X86.overflow holds];
    rewrite ?Z; try reflexivity;
    try (destruct (Z.ltb_spec (wrap w a) (wrap w b)), (Z.eqb_spec (wrap w a) (wrap w b)), (Z.ltb_spec (wrap w b) (wrap w a)),
      (Z.leb_spec (wrap w a) (wrap w b)), (Z.leb_spec (wrap w b) (wrap w a)); try lia; reflexivity);
    rewrite ?E; revert S; generalize (Z.testbit (wrap w (wrap w a - wrap w b)) (w - 1));
    generalize (negb ((- 2 ^ (w - 1) <=? signed w a - signed w b) && (signed w a - signed w b <? 2 ^ (w - 1))));
    intros o s S;
    destruct (Z.ltb_spec (signed w a) (signed w b)), (Z.eqb_spec (signed w a) (signed w b)),
      (Z.ltb_spec (signed w b) (signed w a)), (Z.leb_spec (signed w a) (signed w b)), (Z.leb_spec (signed w b) (signed w a));
    try lia; destruct o, s; simpl in *; congruence.
Qed.

Lemma a64_met c w a b s : 0 < w -> A64.is_met c (A64.subtracted w a b s) = holds c w a b.
Proof.
  intros W. rewrite <- x86_met by assumption. unfold A64.subtracted, X86.subtracted.
  destruct c; cbn [A64.is_met X86.is_met X86.cf X86.zf X86.sf X86.overflow]; look_up;
    rewrite ?(Z.leb_antisym (wrap w a) (wrap w b));
    generalize (wrap w a <? wrap w b); generalize (wrap w (wrap w a - wrap w b) =? 0);
    generalize (Z.testbit (wrap w (wrap w a - wrap w b)) (w - 1));
    generalize (negb ((- 2 ^ (w - 1) <=? signed w a - signed w b) && (signed w a - signed w b <? 2 ^ (w - 1))));
    intros [] [] [] []; reflexivity.
Qed.

Lemma holds_opposite c w a b : holds (opposite c) w a b = negb (holds c w a b).
Proof.
  destruct c; cbn [opposite holds]; rewrite ?Z.leb_antisym, ?negb_involutive; reflexivity.
Qed.

Lemma byte_set v : 0 - wrap 8 0 + v = v.
Proof. change (wrap 8 0) with 0. lia. Qed.

Ltac flag_sequence I C :=
  each_row I; decompose [and] C; invert_memory;
  match goal with H : instance (TUnless _ _ _ _ _) _ |- _ => inversion H; subst; clear H end; invert_memory;
  repeat match goal with H : In _ [_; _] |- _ => destruct H as [<- | [<- | []]] end;
  intros r L T; cbn [run fold_left step value bits]; look_up; rewrite ?holds_opposite;
  match goal with |- context [holds ?c ?w ?a ?b] => destruct (holds c w a b) end; cbn [negb Z.b2z];
  unfold update; destruct (reg_eq r _); reflexivity.

Ltac flag_native K I :=
  each_row I; decompose [and] K; intros r L T;
  repeat match goal with H : is_register ?x |- _ => is_var x; destruct x; try contradiction H end;
  cbn [X86.run A64.run fold_left X86.step A64.step X86.gprs X86.compared bits];
  match goal with |- _ = update _ ?d _ _ => destruct (reg_eq r d) as [-> | ?] end; look_up;
  rewrite ?x86_met, ?a64_met by lia; rewrite ?byte_set; [reflexivity |].

(** On Arm, nothing but the flags changes by a comparison. *)
Lemma compared_keeps w a b s r : ~ is_scratch r -> A64.subtracted w a b s r = s r.
Proof. intros L. unfold A64.subtracted. rewrite !update_other; [reflexivity | intros -> ..]; apply L; exact I. Qed.

Theorem flag_32_sequences d a b c cond form code st :
  In (cond, form) (flag_32_forms d a b c) -> cond -> instances form code ->
  agree_live (run code st) (update st d (Z.b2z (holds c 32 (st a) (st b)))) (Scratch 0).
Proof. unfold flag_32_forms. intros I C F. flag_sequence I C. Qed.

Theorem flag_32_x86_does d a b c cond form cond' code st :
  flag_32_allowed d a b c -> In (cond, form) (flag_32_forms d a b c) -> cond -> In (cond', code) (flag_32_x86 d a b c) ->
  agree_live (X86.gprs (X86.run code st))
    (update (X86.gprs st) d (Z.b2z (holds c 32 (X86.gprs st a) (X86.gprs st b)))) (Scratch 0).
Proof.
  unfold flag_32_allowed, flag_32_forms, flag_32_x86. intros K F C I. assert (D : d <> a /\ d <> b) by (each_row F; tauto).
  clear F C. decompose [and] D. flag_native K I. reflexivity.
Qed.

Theorem flag_32_a64_does d a b c cond code st :
  flag_32_allowed d a b c -> In (cond, code) (flag_32_a64 d a b c) ->
  agree_live (A64.run code st) (update st d (Z.b2z (holds c 32 (st a) (st b)))) (Scratch 0).
Proof. unfold flag_32_allowed, flag_32_a64. intros K I. flag_native K I. apply compared_keeps. assumption. Qed.

Theorem flag_32_x86_agrees : flag_32_x86_statement.
Proof. agreed. eapply agree_all; [eapply flag_32_sequences | eapply flag_32_x86_does]; eassumption. Qed.

Theorem flag_32_a64_agrees : flag_32_a64_statement.
Proof. agreed. eapply agree_all; [eapply flag_32_sequences | eapply flag_32_a64_does]; eassumption. Qed.

Theorem flag_64_sequences d a b c cond form code st :
  In (cond, form) (flag_64_forms d a b c) -> cond -> instances form code ->
  agree_live (run code st) (update st d (Z.b2z (holds c 64 (st a) (st b)))) (Scratch 0).
Proof. unfold flag_64_forms. intros I C F. flag_sequence I C. Qed.

Theorem flag_64_x86_does d a b c cond form cond' code st :
  flag_64_allowed d a b c -> In (cond, form) (flag_64_forms d a b c) -> cond -> In (cond', code) (flag_64_x86 d a b c) ->
  agree_live (X86.gprs (X86.run code st))
    (update (X86.gprs st) d (Z.b2z (holds c 64 (X86.gprs st a) (X86.gprs st b)))) (Scratch 0).
Proof.
  unfold flag_64_allowed, flag_64_forms, flag_64_x86. intros K F C I. assert (D : d <> a /\ d <> b) by (each_row F; tauto).
  clear F C. decompose [and] D. flag_native K I. reflexivity.
Qed.

Theorem flag_64_a64_does d a b c cond code st :
  flag_64_allowed d a b c -> In (cond, code) (flag_64_a64 d a b c) ->
  agree_live (A64.run code st) (update st d (Z.b2z (holds c 64 (st a) (st b)))) (Scratch 0).
Proof. unfold flag_64_allowed, flag_64_a64. intros K I. flag_native K I. apply compared_keeps. assumption. Qed.

Theorem flag_64_x86_agrees : flag_64_x86_statement.
Proof. agreed. eapply agree_all; [eapply flag_64_sequences | eapply flag_64_x86_does]; eassumption. Qed.

Theorem flag_64_a64_agrees : flag_64_a64_statement.
Proof. agreed. eapply agree_all; [eapply flag_64_sequences | eapply flag_64_a64_does]; eassumption. Qed.

Theorem flag_constant_32_sequences d a k c cond form code st :
  In (cond, form) (flag_constant_32_forms d a k c) -> cond -> instances form code ->
  agree_live (run code st) (update st d (Z.b2z (holds c 32 (st a) (wrap 64 k)))) (Scratch 0).
Proof. unfold flag_constant_32_forms. intros I C F. flag_sequence I C. Qed.

Theorem flag_constant_32_x86_does d a k c cond form cond' code st :
  flag_constant_32_allowed d a k c -> In (cond, form) (flag_constant_32_forms d a k c) -> cond -> In (cond', code) (flag_constant_32_x86 d a k c) ->
  agree_live (X86.gprs (X86.run code st))
    (update (X86.gprs st) d (Z.b2z (holds c 32 (X86.gprs st a) (wrap 64 k)))) (Scratch 0).
Proof.
  unfold flag_constant_32_allowed, flag_constant_32_forms, flag_constant_32_x86. intros K F C I. assert (D : d <> a) by (each_row F; tauto).
  clear F C. decompose [and] D. flag_native K I. reflexivity.
Qed.

Theorem flag_constant_32_a64_does d a k c cond code st :
  flag_constant_32_allowed d a k c -> In (cond, code) (flag_constant_32_a64 d a k c) ->
  agree_live (A64.run code st) (update st d (Z.b2z (holds c 32 (st a) (wrap 64 k)))) (Scratch 0).
Proof. unfold flag_constant_32_allowed, flag_constant_32_a64. intros K I. flag_native K I. apply compared_keeps. assumption. Qed.

Theorem flag_constant_32_x86_agrees : flag_constant_32_x86_statement.
Proof. agreed. eapply agree_all; [eapply flag_constant_32_sequences | eapply flag_constant_32_x86_does]; eassumption. Qed.

Theorem flag_constant_32_a64_agrees : flag_constant_32_a64_statement.
Proof. agreed. eapply agree_all; [eapply flag_constant_32_sequences | eapply flag_constant_32_a64_does]; eassumption. Qed.

Theorem flag_constant_64_sequences d a k c cond form code st :
  In (cond, form) (flag_constant_64_forms d a k c) -> cond -> instances form code ->
  agree_live (run code st) (update st d (Z.b2z (holds c 64 (st a) (wrap 64 k)))) (Scratch 0).
Proof. unfold flag_constant_64_forms. intros I C F. flag_sequence I C. Qed.

Theorem flag_constant_64_x86_does d a k c cond form cond' code st :
  flag_constant_64_allowed d a k c -> In (cond, form) (flag_constant_64_forms d a k c) -> cond -> In (cond', code) (flag_constant_64_x86 d a k c) ->
  agree_live (X86.gprs (X86.run code st))
    (update (X86.gprs st) d (Z.b2z (holds c 64 (X86.gprs st a) (wrap 64 k)))) (Scratch 0).
Proof.
  unfold flag_constant_64_allowed, flag_constant_64_forms, flag_constant_64_x86. intros K F C I. assert (D : d <> a) by (each_row F; tauto).
  clear F C. decompose [and] D. flag_native K I. reflexivity.
Qed.

Theorem flag_constant_64_a64_does d a k c cond code st :
  flag_constant_64_allowed d a k c -> In (cond, code) (flag_constant_64_a64 d a k c) ->
  agree_live (A64.run code st) (update st d (Z.b2z (holds c 64 (st a) (wrap 64 k)))) (Scratch 0).
Proof. unfold flag_constant_64_allowed, flag_constant_64_a64. intros K I. flag_native K I. apply compared_keeps. assumption. Qed.

Theorem flag_constant_64_x86_agrees : flag_constant_64_x86_statement.
Proof. agreed. eapply agree_all; [eapply flag_constant_64_sequences | eapply flag_constant_64_x86_does]; eassumption. Qed.

Theorem flag_constant_64_a64_agrees : flag_constant_64_a64_statement.
Proof. agreed. eapply agree_all; [eapply flag_constant_64_sequences | eapply flag_constant_64_a64_does]; eassumption. Qed.
