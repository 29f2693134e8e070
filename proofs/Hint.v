(** Operations that change nothing: what they are for, caches and speculation, is not part of the state. So a theorem
    says that native code leaves every register and every byte as the proof sequence does, and no more. *)

From Coq Require Import ZArith List Lia.
From Kiln Require Import Bits Bpf Agreement Generated Rotate Arithmetic Memory Flag Select.
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
  split; [| intros ? []]; open_rows I; open_rows N; invert_instances;
  repeat match goal with H : In _ [_] |- _ => destruct H as [<- | []] end;
  intros x _ _; cbn [run fold_left step value bits apply X86.run A64.run X86.step A64.step];
  rewrite ?and_itself; rewrite twice by assumption; reflexivity.

Theorem prefetch_x86_agrees : prefetch_x86_statement.
Proof. red. intros * W K I C F N C'. split; [nothing W I N | same_accesses I N]. Qed.

Theorem prefetch_a64_agrees : prefetch_a64_statement.
Proof. red. intros * W K I C F N C'. split; [nothing W I N | same_accesses I N]. Qed.

Theorem speculation_barrier_x86_agrees : speculation_barrier_x86_statement.
Proof. red. intros * W K I C F N C'. split; [nothing W I N | same_accesses I N]. Qed.

Theorem speculation_barrier_a64_agrees : speculation_barrier_a64_statement.
Proof. red. intros * W K I C F N C'. split; [nothing W I N | same_accesses I N]. Qed.
