(** Rotations by a constant: native code and proof sequences agree.

    [rotate_forms] says what every instance of every proof sequence does; [rotate_x86] and [rotate_a64] say what native
    code does; the theorems at the end put them together for the rows as the table has them. *)

From Coq Require Import ZArith List Lia Permutation.
From Kiln Require Import Bits Bpf Agreement Generated.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

(** After the code, [d] holds [v] and all but [d] and [t] hold what they held. *)
Definition does (s s' : regs) (d t : reg) (v : Z) : Prop :=
  s' d = v /\ forall r, r <> d -> r <> t -> s' r = s r.

Lemma amount w k : 0 < k < w -> w <= 64 -> wrap w (wrap 64 k) mod w = k.
Proof.
  intros. rewrite wrap_narrow by lia. rewrite wrap_id; [apply Z.mod_small; lia | lia |].
  split; [lia |]. apply Z.lt_trans with w; [lia |]. apply Z.pow_gt_lin_r; lia.
Qed.

Lemma left_part w x k : 0 < k < w -> w <= 64 -> apply Lsh w x (wrap 64 k) = shl w (wrap w x) k.
Proof. intros. unfold apply. rewrite amount by lia. reflexivity. Qed.

Lemma right_part w x k : 0 < k < w -> w <= 64 -> apply Rsh w x (wrap 64 (w - k)) = lshr w (wrap w x) (w - k).
Proof. intros. unfold apply. rewrite amount by lia. reflexivity. Qed.

Lemma shl_range w x k : 0 <= w -> 0 <= shl w x k < 2 ^ w.
Proof. intros. apply wrap_range. assumption. Qed.

Lemma lshr_range w x k : 0 <= w -> 0 <= k -> 0 <= lshr w x k < 2 ^ w.
Proof.
  intros. unfold lshr. assert (R := wrap_range w x ltac:(lia)). split.
  - apply Z.shiftr_nonneg. lia.
  - rewrite Z.shiftr_div_pow2 by lia. apply Z.le_lt_trans with (wrap w x); [| lia].
    apply Z.div_le_upper_bound; [apply Z.pow_pos_nonneg; lia |].
    assert (0 < 2 ^ k) by (apply Z.pow_pos_nonneg; lia). nia.
Qed.

Lemma join_parts op w x k : In op [Or; Xor; Add] -> 0 < k < w -> w <= 64 ->
  apply op w (shl w (wrap w x) k) (lshr w (wrap w x) (w - k)) = rotl w (wrap w x) k.
Proof.
  intros I H W. assert (A := shl_range w (wrap w x) k ltac:(lia)). assert (B := lshr_range w (wrap w x) (w - k) ltac:(lia) ltac:(lia)).
  assert (J := fun j => joined_parts j w (wrap w x) k H).
  destruct I as [<- | [<- | [<- | []]]]; unfold apply; rewrite !(wrap_id w (shl _ _ _)), !(wrap_id w (lshr _ _ _)) by lia.
  - apply (J JoinOr).
  - apply (J JoinXor).
  - assert (E := J JoinAdd). cbn [joined] in E. rewrite E. apply wrap_id; [lia | apply rotl_range; lia].
Qed.

Lemma join_parts_turned op w x k : In op [Or; Xor; Add] -> 0 < k < w -> w <= 64 ->
  apply op w (lshr w (wrap w x) (w - k)) (shl w (wrap w x) k) = rotl w (wrap w x) k.
Proof.
  intros I H W. rewrite <- (join_parts op w x k I H W).
  destruct I as [<- | [<- | [<- | []]]]; unfold apply; [apply Z.lor_comm | apply Z.lxor_comm | f_equal; apply Z.add_comm].
Qed.

(** One instance, step by step: what was written last is looked up first. *)
Ltac look_up := repeat (rewrite update_same || (rewrite update_other by congruence)).
Lemma instances_cons p form code : instances (p :: form) code ->
  exists i rest, code = i :: rest /\ instance p i /\ instances form rest.
Proof. intros H. inversion H; subst. eauto. Qed.

Lemma instances_nil code : instances [] code -> code = [].
Proof. intros H. inversion H. reflexivity. Qed.

Lemma instance_of_alu ops ws d s i : instance (TAlu ops ws d s) i ->
  exists op w, i = Alu op w d s /\ In op ops /\ In w ws.
Proof. intros H. inversion H; subst. eauto. Qed.

Ltac invert_instances :=
  repeat match goal with
  | H : instances (_ :: _) _ |- _ => apply instances_cons in H; destruct H as (? & ? & -> & ? & ?)
  | H : instances [] _ |- _ => apply instances_nil in H; subst
  | H : instance (TAlu _ _ _ _) _ |- _ => apply instance_of_alu in H; destruct H as (? & ? & -> & ? & ?)
  end.

(** A copy of at least the width carries what is shifted. *)
Lemma copied v w x y : 0 <= w <= v -> wrap w (apply Mov v y x) = wrap w x.
Proof. apply wrap_narrow. Qed.

Ltac wide_enough := first [lia | match goal with H : In ?c _ |- context [bits ?c] =>
  cbn [In] in H; repeat (destruct H as [<- | H]; [simpl; lia |]); contradiction end].

Theorem rotate_left_32_sequences d s t k cond form code st :
  rotate_left_32_allowed d s t k -> In (cond, form) (rotate_left_32_forms d s t k) -> cond -> instances form code ->
  does st (run code st) d t (rotl 32 (wrap 32 (st s)) k).
Proof.
  unfold rotate_left_32_allowed, rotate_left_32_forms. intros K I C F.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  all: decompose [and] C; subst; invert_instances.
  all: repeat match goal with H : In ?x [_] |- _ => destruct H as [<- | []] end.
  all: split; [| intros r ? ?; cbn [run fold_left step]; look_up; reflexivity].
  all: cbn [run fold_left step value]; look_up; cbn [bits].
  all: rewrite ?left_part, ?right_part by lia.
  all: rewrite ?copied by wide_enough.
  all: first [refine (join_parts _ _ _ _ _ _ _) | refine (join_parts_turned _ _ _ _ _ _ _)]; [assumption | lia | lia].
Qed.

Theorem rotate_left_64_sequences d s t k cond form code st :
  rotate_left_64_allowed d s t k -> In (cond, form) (rotate_left_64_forms d s t k) -> cond -> instances form code ->
  does st (run code st) d t (rotl 64 (wrap 64 (st s)) k).
Proof.
  unfold rotate_left_64_allowed, rotate_left_64_forms. intros K I C F.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  all: decompose [and] C; subst; invert_instances.
  all: repeat match goal with H : In ?x [_] |- _ => destruct H as [<- | []] end.
  all: split; [| intros r ? ?; cbn [run fold_left step]; look_up; reflexivity].
  all: cbn [run fold_left step value]; look_up; cbn [bits].
  all: rewrite ?left_part, ?right_part by lia.
  all: rewrite ?copied by wide_enough.
  all: first [refine (join_parts _ _ _ _ _ _ _) | refine (join_parts_turned _ _ _ _ _ _ _)]; [assumption | lia | lia].
Qed.

(** Native code, whatever the proof sequence. *)
Theorem rotate_left_32_x86_does d s t k cond code st :
  rotate_left_32_allowed d s t k -> In (cond, code) (rotate_left_32_x86 d s t k) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (rotl 32 (wrap 32 (X86.gprs st s)) k).
Proof.
  unfold rotate_left_32_allowed, rotate_left_32_x86. intros K I C.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  all: subst; split; [| intros r ? ?; cbn [X86.run fold_left X86.step X86.gprs]; look_up; reflexivity].
  all: cbn [X86.run fold_left X86.step X86.gprs]; look_up; cbn [bits].
  - apply X86.rol_is_rotl. lia.
  - apply X86.ror_is_rotl. lia.
  - rewrite X86.rol_is_rotl by lia. rewrite wrap_wrap by lia. reflexivity.
Qed.

Theorem rotate_left_32_a64_does d s t k cond code st :
  rotate_left_32_allowed d s t k -> In (cond, code) (rotate_left_32_a64 d s t k) -> cond ->
  does st (A64.run code st) d d (rotl 32 (wrap 32 (st s)) k).
Proof.
  unfold rotate_left_32_allowed, rotate_left_32_a64. intros K I C.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  split; [| intros r ? ?; cbn [A64.run fold_left A64.step]; look_up; reflexivity].
  cbn [A64.run fold_left A64.step]. look_up. cbn [bits]. apply A64.extr_is_rotl. lia.
Qed.

(** So they agree: on the result, and on every place but the temporary. *)
Lemma agree_once s a b d t v : does s a d t v -> does s b d d v -> agrees [d] [t] s a b.
Proof.
  intros [A A'] [B B']. split.
  - intros r _ P. destruct (reg_eq r d) as [-> | D]; [congruence |]. cbn [In] in P.
    rewrite A', B' by (intros E; subst; intuition congruence). reflexivity.
  - cbn [In]. intros r _ D. apply B'; intros E; subst; intuition congruence.
Qed.

Lemma agree_everywhere s a b d v : does s a d d v -> does s b d d v -> agrees [d] [] s a b.
Proof.
  intros [A A'] [B B']. split; [| intros r []].
  intros r _ _. destruct (reg_eq r d) as [-> | D]; [congruence |]. rewrite A', B' by assumption. reflexivity.
Qed.

(** Both have the same accesses. *)
Ltac head_of t := match t with ?f _ => head_of f | _ => t end.

Ltac open_rows H :=
  match type of H with In _ ?l => let f := head_of l in unfold f in H end;
  cbn [In] in H; repeat (destruct H as [E | H]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.

Ltac invert_each := repeat match goal with
  | H : instances _ _ |- _ => inversion H; subst; clear H
  | H : Forall2 instance _ _ |- _ => inversion H; subst; clear H
  | H : instance _ _ |- _ => inversion H; subst; clear H
  end.

Fixpoint is_plain (t : template) : bool :=
  match t with TLoad _ _ _ _ | TStore _ _ _ _ => false | TUnless _ _ _ _ t => is_plain t | _ => true end.

Lemma plain_access t i s : instance t i -> is_plain t = true -> accesses i s = [].
Proof.
  intros I P. destruct I; try reflexivity; try discriminate P.
  cbn [is_plain] in P. destruct I; try reflexivity; discriminate P.
Qed.

Lemma plain_trace form code : instances form code -> forallb is_plain form = true -> forall s, trace code s = [].
Proof.
  induction 1 as [| t i form code I _ IH]; intros P s; [reflexivity |].
  cbn [forallb] in P. apply andb_prop in P. cbn [trace]. rewrite (plain_access t i) by tauto. apply IH. tauto.
Qed.

Ltac same_accesses F N :=
  open_rows F; open_rows N; repeat match goal with H : _ /\ _ |- _ => destruct H end;
  match goal with H : instances _ _ |- _ => first [rewrite (plain_trace _ _ H eq_refl); clear H | invert_each] end;
  cbn [trace accesses X86.trace X86.accesses A64.trace A64.accesses bytes app step X86.step A64.step X86.gprs];
  look_up; repeat match goal with |- context [if ?b then [] else []] => destruct b end;
  (reflexivity || apply Permutation_refl).

(** A row's statement, by what its sequences do and what its native code does. *)
Ltac agreed := red; intros; split;
  [ | match goal with F : In (_, ?form) _, N : In (_, ?native) _, H : instances ?form _ |- context [?native] =>
        same_accesses F N end ].

Theorem rotate_left_32_x86_agrees : rotate_left_32_x86_statement.
Proof. agreed. eapply agree_once; [eapply rotate_left_32_sequences | eapply rotate_left_32_x86_does]; eassumption. Qed.

Theorem rotate_left_32_a64_agrees : rotate_left_32_a64_statement.
Proof. agreed. eapply agree_once; [eapply rotate_left_32_sequences | eapply rotate_left_32_a64_does]; eassumption. Qed.

Theorem rotate_left_64_x86_does d s t k cond code st :
  rotate_left_64_allowed d s t k -> In (cond, code) (rotate_left_64_x86 d s t k) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (rotl 64 (wrap 64 (X86.gprs st s)) k).
Proof.
  unfold rotate_left_64_allowed, rotate_left_64_x86. intros K I C.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  all: subst; split; [| intros r ? ?; cbn [X86.run fold_left X86.step X86.gprs]; look_up; reflexivity].
  all: cbn [X86.run fold_left X86.step X86.gprs]; look_up; cbn [bits].
  - apply X86.rol_is_rotl. lia.
  - apply X86.ror_is_rotl. lia.
  - rewrite X86.rol_is_rotl by lia. rewrite wrap_wrap by lia. reflexivity.
Qed.

Theorem rotate_left_64_a64_does d s t k cond code st :
  rotate_left_64_allowed d s t k -> In (cond, code) (rotate_left_64_a64 d s t k) -> cond ->
  does st (A64.run code st) d d (rotl 64 (wrap 64 (st s)) k).
Proof.
  unfold rotate_left_64_allowed, rotate_left_64_a64. intros K I C.
  cbn [In] in I. repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.
  split; [| intros r ? ?; cbn [A64.run fold_left A64.step]; look_up; reflexivity].
  cbn [A64.run fold_left A64.step]. look_up. cbn [bits]. apply A64.extr_is_rotl. lia.
Qed.

Theorem rotate_left_64_x86_agrees : rotate_left_64_x86_statement.
Proof. agreed. eapply agree_once; [eapply rotate_left_64_sequences | eapply rotate_left_64_x86_does]; eassumption. Qed.

Theorem rotate_left_64_a64_agrees : rotate_left_64_a64_statement.
Proof. agreed. eapply agree_once; [eapply rotate_left_64_sequences | eapply rotate_left_64_a64_does]; eassumption. Qed.
