(** Operations that change nothing: what they are for, caches and speculation, is not part of the state. So a theorem
    says that native code leaves every register and every byte as the proof sequence does, and no more. *)

From Coq Require Import ZArith List Lia.
From Kiln Require Import Bits Bpf Generated Rotate Arithmetic Memory Flag Select.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

Lemma and_itself x : Z.land x x = x.
Proof. apply Z.land_diag. Qed.

Lemma twice s d : well_formed s -> forall x,
  update (update s d (wrap 64 (s d))) d (wrap 64 (update s d (wrap 64 (s d)) d)) x = s x.
Proof.
  intros W x. rewrite update_same. rewrite !kept by assumption. unfold update. destruct (reg_eq x d); congruence.
Qed.

Ltac nothing W I N :=
  each_row I; each_row N; invert_instances;
  repeat match goal with H : In _ [_] |- _ => destruct H as [<- | []] end;
  intros x; cbn [run fold_left step value bits apply X86.run A64.run X86.step A64.step];
  rewrite ?and_itself; rewrite twice by assumption; reflexivity.

Theorem prefetch_x86_agrees p cond form code cond' native (st : X86.state) :
  well_formed (X86.gprs st) ->
  In (cond, form) (prefetch_forms p) -> cond -> instances form code ->
  In (cond', native) (prefetch_x86 p) -> cond' ->
  forall x, run code (X86.gprs st) x = (X86.gprs (X86.run native st)) x.
Proof. unfold prefetch_forms, prefetch_x86. intros W I C F N C'. nothing W I N. Qed.

Theorem prefetch_a64_agrees p cond form code cond' native (st : regs) :
  well_formed st ->
  In (cond, form) (prefetch_forms p) -> cond -> instances form code ->
  In (cond', native) (prefetch_a64 p) -> cond' ->
  forall x, run code st x = (A64.run native st) x.
Proof. unfold prefetch_forms, prefetch_a64. intros W I C F N C'. nothing W I N. Qed.

Theorem speculation_barrier_x86_agrees r cond form code cond' native (st : X86.state) :
  well_formed (X86.gprs st) ->
  In (cond, form) (speculation_barrier_forms r) -> cond -> instances form code ->
  In (cond', native) (speculation_barrier_x86 r) -> cond' ->
  forall x, run code (X86.gprs st) x = (X86.gprs (X86.run native st)) x.
Proof. unfold speculation_barrier_forms, speculation_barrier_x86. intros W I C F N C'. nothing W I N. Qed.

Theorem speculation_barrier_a64_agrees r cond form code cond' native (st : regs) :
  well_formed st ->
  In (cond, form) (speculation_barrier_forms r) -> cond -> instances form code ->
  In (cond', native) (speculation_barrier_a64 r) -> cond' ->
  forall x, run code st x = (A64.run native st) x.
Proof. unfold speculation_barrier_forms, speculation_barrier_a64. intros W I C F N C'. nothing W I N. Qed.
