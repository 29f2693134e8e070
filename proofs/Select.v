(** A choice between two registers by a comparison: a branch over a copy, or a conditional move. *)

From Coq Require Import ZArith List Lia Bool.
From Kiln Require Import Bits Bpf Agreement Generated Rotate Arithmetic Memory Flag.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

Definition chosen (s : regs) (d r : reg) (keep : bool) : regs := update s d (if keep then s d else s r).

Lemma kept s r : well_formed s -> wrap 64 (s r) = s r.
Proof. intros W. apply wrap_id; [lia | apply W]. Qed.

Lemma update_wrapped s d r : well_formed s -> forall x, update s d (wrap 64 (s r)) x = update s d (s r) x.
Proof. intros W x. unfold update. rewrite kept by assumption. reflexivity. Qed.

Lemma update_itself s d x : update s d (s d) x = s x.
Proof. unfold update. destruct (reg_eq x d); congruence. Qed.

(** The register may be any of those compared and copied, so each place is looked at by itself. *)
Lemma branch_over_copy s d r keep : well_formed s ->
  forall x, (if keep : bool then s else update s d (wrap 64 (s r))) x = chosen s d r keep x.
Proof.
  intros W x. unfold chosen. destruct keep; [symmetry; apply update_itself | apply update_wrapped; assumption].
Qed.

(** A copy of a register to itself changes nothing. *)
Lemma copied_to_itself s d : well_formed s -> forall x, update s d (wrap 64 (s d)) x = s x.
Proof. intros W x. rewrite update_wrapped by assumption. apply update_itself. Qed.

Ltac select_sequence W I :=
  each_row I; invert_memory;
  match goal with H : instance (TUnless _ _ _ _ _) _ |- _ => inversion H; subst; clear H end; invert_memory;
  repeat match goal with H : In _ [_] |- _ => destruct H as [<- | []] end;
  intros x L T; cbn [run fold_left step value bits apply];
  [ rewrite branch_over_copy by assumption; reflexivity
  | rewrite ?copied_to_itself by assumption; unfold chosen;
    match goal with |- context [holds ?c ?w ?a ?b] => destruct (holds c w a b) end;
    [ rewrite copied_to_itself, update_itself by assumption; reflexivity |];
    rewrite kept by assumption; unfold update;
    repeat match goal with |- context [reg_eq ?p ?q] => destruct (reg_eq p q); subst end;
    rewrite ?kept by assumption; congruence ].

Ltac select_native W K I :=
  each_row I; decompose [and] K; intros x L T;
  repeat match goal with H : is_register ?x |- _ => is_var x; destruct x; try contradiction H end;
  cbn [X86.run A64.run fold_left X86.step A64.step X86.gprs X86.compared bits];
  rewrite ?x86_met, ?a64_met by lia; rewrite ?holds_opposite; unfold chosen;
  rewrite ?compared_keeps by (intros []); rewrite ?kept by assumption;
  match goal with |- context [holds ?c ?w ?a ?b] => destruct (holds c w a b) end; cbn [negb];
  unfold update; destruct (reg_eq x _); try reflexivity; apply compared_keeps; assumption.

Theorem select_32_sequences d s a b c cond form code st :
  well_formed st -> In (cond, form) (select_32_forms d s a b c) -> instances form code ->
  agree_live (run code st) (chosen st d s (holds c 32 (st a) (st b))) (Scratch 0).
Proof. unfold select_32_forms. intros W I F. select_sequence W I. Qed.

Theorem select_32_x86_does d s a b c cond code st :
  well_formed (X86.gprs st) -> select_32_allowed d s a b c -> In (cond, code) (select_32_x86 d s a b c) ->
  agree_live (X86.gprs (X86.run code st)) (chosen (X86.gprs st) d s (holds c 32 (X86.gprs st a) (X86.gprs st b))) (Scratch 0).
Proof. unfold select_32_allowed, select_32_x86. intros W K I. select_native W K I. Qed.

Theorem select_32_a64_does d s a b c cond code st :
  well_formed st -> select_32_allowed d s a b c -> In (cond, code) (select_32_a64 d s a b c) ->
  agree_live (A64.run code st) (chosen st d s (holds c 32 (st a) (st b))) (Scratch 0).
Proof. unfold select_32_allowed, select_32_a64. intros W K I. select_native W K I. Qed.

Theorem select_32_x86_agrees : select_32_x86_statement.
Proof. agreed. eapply agree_all; [eapply select_32_sequences | eapply select_32_x86_does]; eassumption. Qed.

Theorem select_32_a64_agrees : select_32_a64_statement.
Proof. agreed. eapply agree_all; [eapply select_32_sequences | eapply select_32_a64_does]; eassumption. Qed.

Theorem select_64_sequences d s a b c cond form code st :
  well_formed st -> In (cond, form) (select_64_forms d s a b c) -> instances form code ->
  agree_live (run code st) (chosen st d s (holds c 64 (st a) (st b))) (Scratch 0).
Proof. unfold select_64_forms. intros W I F. select_sequence W I. Qed.

Theorem select_64_x86_does d s a b c cond code st :
  well_formed (X86.gprs st) -> select_64_allowed d s a b c -> In (cond, code) (select_64_x86 d s a b c) ->
  agree_live (X86.gprs (X86.run code st)) (chosen (X86.gprs st) d s (holds c 64 (X86.gprs st a) (X86.gprs st b))) (Scratch 0).
Proof. unfold select_64_allowed, select_64_x86. intros W K I. select_native W K I. Qed.

Theorem select_64_a64_does d s a b c cond code st :
  well_formed st -> select_64_allowed d s a b c -> In (cond, code) (select_64_a64 d s a b c) ->
  agree_live (A64.run code st) (chosen st d s (holds c 64 (st a) (st b))) (Scratch 0).
Proof. unfold select_64_allowed, select_64_a64. intros W K I. select_native W K I. Qed.

Theorem select_64_x86_agrees : select_64_x86_statement.
Proof. agreed. eapply agree_all; [eapply select_64_sequences | eapply select_64_x86_does]; eassumption. Qed.

Theorem select_64_a64_agrees : select_64_a64_statement.
Proof. agreed. eapply agree_all; [eapply select_64_sequences | eapply select_64_a64_does]; eassumption. Qed.

Theorem select_constant_32_sequences d s a k c cond form code st :
  well_formed st -> In (cond, form) (select_constant_32_forms d s a k c) -> instances form code ->
  agree_live (run code st) (chosen st d s (holds c 32 (st a) (wrap 64 k))) (Scratch 0).
Proof. unfold select_constant_32_forms. intros W I F. select_sequence W I. Qed.

Theorem select_constant_32_x86_does d s a k c cond code st :
  well_formed (X86.gprs st) -> select_constant_32_allowed d s a k c -> In (cond, code) (select_constant_32_x86 d s a k c) ->
  agree_live (X86.gprs (X86.run code st)) (chosen (X86.gprs st) d s (holds c 32 (X86.gprs st a) (wrap 64 k))) (Scratch 0).
Proof. unfold select_constant_32_allowed, select_constant_32_x86. intros W K I. select_native W K I. Qed.

Theorem select_constant_32_a64_does d s a k c cond code st :
  well_formed st -> select_constant_32_allowed d s a k c -> In (cond, code) (select_constant_32_a64 d s a k c) ->
  agree_live (A64.run code st) (chosen st d s (holds c 32 (st a) (wrap 64 k))) (Scratch 0).
Proof. unfold select_constant_32_allowed, select_constant_32_a64. intros W K I. select_native W K I. Qed.

Theorem select_constant_32_x86_agrees : select_constant_32_x86_statement.
Proof. agreed. eapply agree_all; [eapply select_constant_32_sequences | eapply select_constant_32_x86_does]; eassumption. Qed.

Theorem select_constant_32_a64_agrees : select_constant_32_a64_statement.
Proof. agreed. eapply agree_all; [eapply select_constant_32_sequences | eapply select_constant_32_a64_does]; eassumption. Qed.

Theorem select_constant_64_sequences d s a k c cond form code st :
  well_formed st -> In (cond, form) (select_constant_64_forms d s a k c) -> instances form code ->
  agree_live (run code st) (chosen st d s (holds c 64 (st a) (wrap 64 k))) (Scratch 0).
Proof. unfold select_constant_64_forms. intros W I F. select_sequence W I. Qed.

Theorem select_constant_64_x86_does d s a k c cond code st :
  well_formed (X86.gprs st) -> select_constant_64_allowed d s a k c -> In (cond, code) (select_constant_64_x86 d s a k c) ->
  agree_live (X86.gprs (X86.run code st)) (chosen (X86.gprs st) d s (holds c 64 (X86.gprs st a) (wrap 64 k))) (Scratch 0).
Proof. unfold select_constant_64_allowed, select_constant_64_x86. intros W K I. select_native W K I. Qed.

Theorem select_constant_64_a64_does d s a k c cond code st :
  well_formed st -> select_constant_64_allowed d s a k c -> In (cond, code) (select_constant_64_a64 d s a k c) ->
  agree_live (A64.run code st) (chosen st d s (holds c 64 (st a) (wrap 64 k))) (Scratch 0).
Proof. unfold select_constant_64_allowed, select_constant_64_a64. intros W K I. select_native W K I. Qed.

Theorem select_constant_64_x86_agrees : select_constant_64_x86_statement.
Proof. agreed. eapply agree_all; [eapply select_constant_64_sequences | eapply select_constant_64_x86_does]; eassumption. Qed.

Theorem select_constant_64_a64_agrees : select_constant_64_a64_statement.
Proof. agreed. eapply agree_all; [eapply select_constant_64_sequences | eapply select_constant_64_a64_does]; eassumption. Qed.
