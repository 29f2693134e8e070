(** A branch by bits of a register: a conjunction that only the branch reads, or a test that keeps the flags alone. *)

From Coq Require Import ZArith List Lia Bool.
From Kiln Require Import Bits Bpf Agreement Generated Rotate Arithmetic Memory Flag Chain.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

(** Whether two numbers have no common bit below [w]. *)
Definition apart (w x y : Z) : bool := Z.land (wrap w x) (wrap w y) =? 0.

(** Cutting to a width, however often and wherever, leaves the lowest bits of the narrowest. *)
Ltac same_bits :=
  apply Z.bits_inj'; intros i I; repeat (rewrite ?Z.land_spec; rewrite ?wrap_bit by lia);
  rewrite ?Z.bits_0;
  repeat match goal with |- context [i <? ?w] => destruct (Z.ltb_spec i w); try lia end;
  rewrite ?andb_true_l, ?andb_false_l, ?andb_false_r; reflexivity.

Ltac bits_sequence I C :=
  each_row I; decompose [and] C; subst;
  repeat match goal with H : is_register ?x |- _ => is_var x; destruct x; try contradiction H end; invert_instances;
  repeat match goal with H : instance (TLeave _) _ |- _ => inversion H; subst; clear H end; invert_instances;
  repeat match goal with H : In _ [_; _] |- _ => destruct H as [<- | [<- | []]] end;
  repeat match goal with H : In _ [_] |- _ => destruct H as [<- | []] end;
  intros r L T; cbn [run fold_left step leaves value bits];
  (destruct (reg_eq r Left) as [-> | D];
   [ rewrite !update_same; look_up; unfold apart; cbn [apply holds];
     match goal with |- context [?x =? wrap ?w (wrap 64 0)] => change (wrap w (wrap 64 0)) with 0 end;
     match goal with |- context [Z.b2z (if negb (?x =? 0) then true else false) = Z.b2z (negb (?y =? 0))] => replace x with y by same_bits
     | |- context [Z.b2z (if ?x =? 0 then true else false) = Z.b2z (?y =? 0)] => replace x with y by same_bits end;
     match goal with |- context [?x =? 0] => destruct (x =? 0) end; reflexivity
   | rewrite !(update_other _ Left) by assumption; rewrite ?update_other by assumption; reflexivity ]).

Lemma tested_keeps w a b s r : ~ is_scratch r -> A64.tested w a b s r = s r.
Proof. intros L. unfold A64.tested. rewrite !update_other; [reflexivity | intros -> ..]; apply L; exact I. Qed.

Lemma a64_tested_zero w a b s : A64.is_met IsEq (A64.tested w a b s) = apart w a b.
Proof.
  unfold A64.tested, apart. cbn [A64.is_met]. look_up.
  destruct (Z.land (wrap w a) (wrap w b) =? 0); reflexivity.
Qed.

Lemma a64_tested_nonzero w a b s : A64.is_met IsNe (A64.tested w a b s) = negb (apart w a b).
Proof. change (negb (A64.is_met IsEq (A64.tested w a b s)) = negb (apart w a b)). rewrite a64_tested_zero. reflexivity. Qed.

Ltac bits_native I :=
  each_row I; intros r L T;
  cbn [X86.run A64.run fold_left X86.step A64.step X86.gprs X86.compared X86.is_met X86.tested X86.zf bits];
  rewrite ?a64_tested_zero, ?a64_tested_nonzero;
  (destruct (reg_eq r Left) as [-> | D];
   [ rewrite !update_same; reflexivity
   | rewrite !(update_other _ Left) by assumption; rewrite ?tested_keeps by assumption; reflexivity ]).

Theorem branch_if_bits_32_sequences t a b cond form code st :
  branch_if_bits_32_allowed t a b -> In (cond, form) (branch_if_bits_32_forms t a b) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (negb (apart 32 (st a) (st b))))) t.
Proof.
  unfold branch_if_bits_32_allowed, branch_if_bits_32_forms. intros K I C F. decompose [and] K. bits_sequence I C.
Qed.

Theorem branch_if_bits_32_x86_does t a b cond code st :
  In (cond, code) (branch_if_bits_32_x86 t a b) ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (negb (apart 32 (X86.gprs st a) (X86.gprs st b))))) (Scratch 0).
Proof. unfold branch_if_bits_32_x86. intros I. bits_native I. Qed.

Theorem branch_if_bits_32_a64_does t a b cond code st :
  In (cond, code) (branch_if_bits_32_a64 t a b) ->
  agree_live (A64.run code st) (update st Left (Z.b2z (negb (apart 32 (st a) (st b))))) (Scratch 0).
Proof. unfold branch_if_bits_32_a64. intros I. bits_native I. Qed.

Theorem branch_if_bits_32_x86_agrees : branch_if_bits_32_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_bits_32_sequences | eapply branch_if_bits_32_x86_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_bits_32_a64_agrees : branch_if_bits_32_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_bits_32_sequences | eapply branch_if_bits_32_a64_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_bits_64_sequences t a b cond form code st :
  branch_if_bits_64_allowed t a b -> In (cond, form) (branch_if_bits_64_forms t a b) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (negb (apart 64 (st a) (st b))))) t.
Proof.
  unfold branch_if_bits_64_allowed, branch_if_bits_64_forms. intros K I C F. decompose [and] K. bits_sequence I C.
Qed.

Theorem branch_if_bits_64_x86_does t a b cond code st :
  In (cond, code) (branch_if_bits_64_x86 t a b) ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (negb (apart 64 (X86.gprs st a) (X86.gprs st b))))) (Scratch 0).
Proof. unfold branch_if_bits_64_x86. intros I. bits_native I. Qed.

Theorem branch_if_bits_64_a64_does t a b cond code st :
  In (cond, code) (branch_if_bits_64_a64 t a b) ->
  agree_live (A64.run code st) (update st Left (Z.b2z (negb (apart 64 (st a) (st b))))) (Scratch 0).
Proof. unfold branch_if_bits_64_a64. intros I. bits_native I. Qed.

Theorem branch_if_bits_64_x86_agrees : branch_if_bits_64_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_bits_64_sequences | eapply branch_if_bits_64_x86_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_bits_64_a64_agrees : branch_if_bits_64_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_bits_64_sequences | eapply branch_if_bits_64_a64_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_bits_constant_32_sequences t a k cond form code st :
  branch_if_bits_constant_32_allowed t a k -> In (cond, form) (branch_if_bits_constant_32_forms t a k) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (negb (apart 32 (st a) (wrap 64 k))))) t.
Proof.
  unfold branch_if_bits_constant_32_allowed, branch_if_bits_constant_32_forms. intros K I C F. decompose [and] K. bits_sequence I C.
Qed.

Theorem branch_if_bits_constant_32_x86_does t a k cond code st :
  In (cond, code) (branch_if_bits_constant_32_x86 t a k) ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (negb (apart 32 (X86.gprs st a) (wrap 64 k))))) (Scratch 0).
Proof. unfold branch_if_bits_constant_32_x86. intros I. bits_native I. Qed.

Theorem branch_if_bits_constant_32_a64_does t a k cond code st :
  In (cond, code) (branch_if_bits_constant_32_a64 t a k) ->
  agree_live (A64.run code st) (update st Left (Z.b2z (negb (apart 32 (st a) (wrap 64 k))))) (Scratch 0).
Proof. unfold branch_if_bits_constant_32_a64. intros I. bits_native I. Qed.

Theorem branch_if_bits_constant_32_x86_agrees : branch_if_bits_constant_32_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_bits_constant_32_sequences | eapply branch_if_bits_constant_32_x86_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_bits_constant_32_a64_agrees : branch_if_bits_constant_32_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_bits_constant_32_sequences | eapply branch_if_bits_constant_32_a64_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_bits_constant_64_sequences t a k cond form code st :
  branch_if_bits_constant_64_allowed t a k -> In (cond, form) (branch_if_bits_constant_64_forms t a k) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (negb (apart 64 (st a) (wrap 64 k))))) t.
Proof.
  unfold branch_if_bits_constant_64_allowed, branch_if_bits_constant_64_forms. intros K I C F. decompose [and] K. bits_sequence I C.
Qed.

Theorem branch_if_bits_constant_64_x86_does t a k cond code st :
  In (cond, code) (branch_if_bits_constant_64_x86 t a k) ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (negb (apart 64 (X86.gprs st a) (wrap 64 k))))) (Scratch 0).
Proof. unfold branch_if_bits_constant_64_x86. intros I. bits_native I. Qed.

Theorem branch_if_bits_constant_64_a64_does t a k cond code st :
  In (cond, code) (branch_if_bits_constant_64_a64 t a k) ->
  agree_live (A64.run code st) (update st Left (Z.b2z (negb (apart 64 (st a) (wrap 64 k))))) (Scratch 0).
Proof. unfold branch_if_bits_constant_64_a64. intros I. bits_native I. Qed.

Theorem branch_if_bits_constant_64_x86_agrees : branch_if_bits_constant_64_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_bits_constant_64_sequences | eapply branch_if_bits_constant_64_x86_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_bits_constant_64_a64_agrees : branch_if_bits_constant_64_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_bits_constant_64_sequences | eapply branch_if_bits_constant_64_a64_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_no_bits_32_sequences t a b cond form code st :
  branch_if_no_bits_32_allowed t a b -> In (cond, form) (branch_if_no_bits_32_forms t a b) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (apart 32 (st a) (st b)))) t.
Proof.
  unfold branch_if_no_bits_32_allowed, branch_if_no_bits_32_forms. intros K I C F. decompose [and] K. bits_sequence I C.
Qed.

Theorem branch_if_no_bits_32_x86_does t a b cond code st :
  In (cond, code) (branch_if_no_bits_32_x86 t a b) ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (apart 32 (X86.gprs st a) (X86.gprs st b)))) (Scratch 0).
Proof. unfold branch_if_no_bits_32_x86. intros I. bits_native I. Qed.

Theorem branch_if_no_bits_32_a64_does t a b cond code st :
  In (cond, code) (branch_if_no_bits_32_a64 t a b) ->
  agree_live (A64.run code st) (update st Left (Z.b2z (apart 32 (st a) (st b)))) (Scratch 0).
Proof. unfold branch_if_no_bits_32_a64. intros I. bits_native I. Qed.

Theorem branch_if_no_bits_32_x86_agrees : branch_if_no_bits_32_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_no_bits_32_sequences | eapply branch_if_no_bits_32_x86_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_no_bits_32_a64_agrees : branch_if_no_bits_32_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_no_bits_32_sequences | eapply branch_if_no_bits_32_a64_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_no_bits_64_sequences t a b cond form code st :
  branch_if_no_bits_64_allowed t a b -> In (cond, form) (branch_if_no_bits_64_forms t a b) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (apart 64 (st a) (st b)))) t.
Proof.
  unfold branch_if_no_bits_64_allowed, branch_if_no_bits_64_forms. intros K I C F. decompose [and] K. bits_sequence I C.
Qed.

Theorem branch_if_no_bits_64_x86_does t a b cond code st :
  In (cond, code) (branch_if_no_bits_64_x86 t a b) ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (apart 64 (X86.gprs st a) (X86.gprs st b)))) (Scratch 0).
Proof. unfold branch_if_no_bits_64_x86. intros I. bits_native I. Qed.

Theorem branch_if_no_bits_64_a64_does t a b cond code st :
  In (cond, code) (branch_if_no_bits_64_a64 t a b) ->
  agree_live (A64.run code st) (update st Left (Z.b2z (apart 64 (st a) (st b)))) (Scratch 0).
Proof. unfold branch_if_no_bits_64_a64. intros I. bits_native I. Qed.

Theorem branch_if_no_bits_64_x86_agrees : branch_if_no_bits_64_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_no_bits_64_sequences | eapply branch_if_no_bits_64_x86_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_no_bits_64_a64_agrees : branch_if_no_bits_64_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_no_bits_64_sequences | eapply branch_if_no_bits_64_a64_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_no_bits_constant_32_sequences t a k cond form code st :
  branch_if_no_bits_constant_32_allowed t a k -> In (cond, form) (branch_if_no_bits_constant_32_forms t a k) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (apart 32 (st a) (wrap 64 k)))) t.
Proof.
  unfold branch_if_no_bits_constant_32_allowed, branch_if_no_bits_constant_32_forms. intros K I C F. decompose [and] K. bits_sequence I C.
Qed.

Theorem branch_if_no_bits_constant_32_x86_does t a k cond code st :
  In (cond, code) (branch_if_no_bits_constant_32_x86 t a k) ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (apart 32 (X86.gprs st a) (wrap 64 k)))) (Scratch 0).
Proof. unfold branch_if_no_bits_constant_32_x86. intros I. bits_native I. Qed.

Theorem branch_if_no_bits_constant_32_a64_does t a k cond code st :
  In (cond, code) (branch_if_no_bits_constant_32_a64 t a k) ->
  agree_live (A64.run code st) (update st Left (Z.b2z (apart 32 (st a) (wrap 64 k)))) (Scratch 0).
Proof. unfold branch_if_no_bits_constant_32_a64. intros I. bits_native I. Qed.

Theorem branch_if_no_bits_constant_32_x86_agrees : branch_if_no_bits_constant_32_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_no_bits_constant_32_sequences | eapply branch_if_no_bits_constant_32_x86_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_no_bits_constant_32_a64_agrees : branch_if_no_bits_constant_32_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_no_bits_constant_32_sequences | eapply branch_if_no_bits_constant_32_a64_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_no_bits_constant_64_sequences t a k cond form code st :
  branch_if_no_bits_constant_64_allowed t a k -> In (cond, form) (branch_if_no_bits_constant_64_forms t a k) -> cond -> instances form code ->
  agree_live (run code st) (update st Left (Z.b2z (apart 64 (st a) (wrap 64 k)))) t.
Proof.
  unfold branch_if_no_bits_constant_64_allowed, branch_if_no_bits_constant_64_forms. intros K I C F. decompose [and] K. bits_sequence I C.
Qed.

Theorem branch_if_no_bits_constant_64_x86_does t a k cond code st :
  In (cond, code) (branch_if_no_bits_constant_64_x86 t a k) ->
  agree_live (X86.gprs (X86.run code st)) (update (X86.gprs st) Left (Z.b2z (apart 64 (X86.gprs st a) (wrap 64 k)))) (Scratch 0).
Proof. unfold branch_if_no_bits_constant_64_x86. intros I. bits_native I. Qed.

Theorem branch_if_no_bits_constant_64_a64_does t a k cond code st :
  In (cond, code) (branch_if_no_bits_constant_64_a64 t a k) ->
  agree_live (A64.run code st) (update st Left (Z.b2z (apart 64 (st a) (wrap 64 k)))) (Scratch 0).
Proof. unfold branch_if_no_bits_constant_64_a64. intros I. bits_native I. Qed.

Theorem branch_if_no_bits_constant_64_x86_agrees : branch_if_no_bits_constant_64_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_no_bits_constant_64_sequences | eapply branch_if_no_bits_constant_64_x86_does | apply update_other; discriminate]; eassumption. Qed.

Theorem branch_if_no_bits_constant_64_a64_agrees : branch_if_no_bits_constant_64_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply branch_if_no_bits_constant_64_sequences | eapply branch_if_no_bits_constant_64_a64_does | apply update_other; discriminate]; eassumption. Qed.
