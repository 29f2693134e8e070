(** Operations with one access to memory: loads and stores with the bytes in reverse order, arithmetic with an operand
    in memory.

    A byte of memory is a place like a register, so that agreement on every place is agreement on memory, too. *)

From Coq Require Import ZArith List Lia.
From Kiln Require Import Bits Bpf Agreement Generated Rotate Arithmetic.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

(** The two agree on every place but the temporary and what JITs keep free within an instruction, flags among it. *)
Definition agree_live (s s' : regs) (t : reg) : Prop := forall r, ~ is_scratch r -> r <> t -> s r = s' r.

(** Without a temporary, which a register that is kept free stands for here, they agree everywhere. *)
Lemma agree_all results a b s s' :
  agree_live a s (Scratch 0) -> agree_live b s (Scratch 0) -> agrees results [] s' a b.
Proof.
  intros A B. split; [| intros r []]. intros r L _.
  rewrite A, B by (assumption || intros ->; apply L; exact I). reflexivity.
Qed.

(** With one, native code keeps what it held. *)
Lemma agree_but a b s s' t : is_register t ->
  agree_live a s t -> agree_live b s (Scratch 0) -> s t = s' t -> agrees [] [t] s' a b.
Proof.
  intros R A B K. assert (L : ~ is_scratch t) by (destruct t; try contradiction R; intros []). split.
  - intros r L' [[] | T]. cbn [In] in T. rewrite A, B by (assumption || intros ->; intuition congruence || (apply L'; exact I)). reflexivity.
  - intros r [<- | []] _. rewrite B by (assumption || intros ->; apply L; exact I). exact K.
Qed.

Lemma load_range n : forall a s, 0 <= load n a s < 2 ^ (8 * Z.of_nat n).
Proof.
  induction n as [| n IH]; intros a s; [simpl; lia |]. cbn [load].
  assert (H := IH (a + 1) s). assert (B := wrap_range 8 (s (Byte (wrap 64 a))) ltac:(lia)).
  replace (8 * Z.of_nat (S n)) with (8 + 8 * Z.of_nat n) by lia. rewrite Z.pow_add_r by lia. nia.
Qed.

Lemma load_word w a s : 0 <= load (bytes w) a s < 2 ^ bits w.
Proof. destruct w; [apply (load_range 4) | apply (load_range 8)]. Qed.

Lemma low_byte w x : 8 <= w -> wrap 8 (wrap w x) = wrap 8 x.
Proof. intros. apply wrap_narrow. lia. Qed.

Lemma other_bytes w x : 8 <= w -> wrap w x / 2 ^ 8 = wrap (w - 8) (x / 2 ^ 8).
Proof.
  intros. apply Z.bits_inj'. intros i Hi. rewrite wrap_bit by lia. rewrite !Z.div_pow2_bits by lia.
  rewrite wrap_bit by lia. destruct (Z.ltb_spec i (w - 8)), (Z.ltb_spec (i + 8) w); try lia; reflexivity.
Qed.

Lemma swap_wrap n : forall w x, 8 * Z.of_nat n <= w -> swap n (wrap w x) = swap n x.
Proof.
  induction n as [| n IH]; intros w x W; [reflexivity |]. cbn [swap].
  rewrite low_byte, other_bytes by lia. rewrite IH by lia. reflexivity.
Qed.

Lemma store_same n : forall a v s s' r, (forall x, s x = s' x) -> store n a v s r = store n a v s' r.
Proof.
  induction n as [| n IH]; intros a v s s' r E; [apply E |]. cbn [store]. apply IH. intros x. unfold update.
  destruct (reg_eq x _); [reflexivity | apply E].
Qed.

(** Memory and registers are different places. *)
Lemma store_update n : forall a v s t x r, (forall b, t <> Byte b) ->
  store n a v (update s t x) r = if reg_eq r t then x else store n a v s r.
Proof.
  induction n as [| n IH]; intros a v s t x r R; [reflexivity |]. cbn [store]. rewrite <- IH by assumption.
  apply store_same. intros y. unfold update. destruct (reg_eq y _), (reg_eq y t); congruence.
Qed.

Lemma store_wrap n : forall w a v s r, 8 * Z.of_nat n <= w -> store n a (wrap w v) s r = store n a v s r.
Proof.
  induction n as [| n IH]; intros w a v s r W; [reflexivity |]. cbn [store].
  rewrite low_byte, other_bytes by lia. apply IH. lia.
Qed.

Lemma register_is_no_byte r : is_register r -> forall b, r <> Byte b.
Proof. intros R b ->. exact R. Qed.

Lemma store_register n : forall a v s r, is_register r -> store n a v s r = s r.
Proof.
  induction n as [| n IH]; intros a v s r R; [reflexivity |]. cbn [store]. rewrite IH by assumption.
  apply update_other. apply register_is_no_byte. assumption.
Qed.

Lemma swap_two x : swap 2 x = wrap 8 x * 2 ^ 8 + wrap 8 (x / 2 ^ 8).
Proof. cbn [swap]. change (8 * Z.of_nat 1) with 8. change (8 * Z.of_nat 0) with 0. lia. Qed.

(** Rotating 16 bits by 8 exchanges two bytes. *)
Lemma rotation_swaps x : 0 <= x < 2 ^ 16 -> x - wrap 16 x + X86.rol 16 x 8 = swap 2 x.
Proof.
  intros H. rewrite X86.rol_is_rotl by lia. rewrite (wrap_id 16 x) by lia. rewrite Z.sub_diag, Z.add_0_l, swap_two.
  unfold rotl. change (16 - 8) with 8.
  assert (P := parts_disjoint 16 x 8 ltac:(lia)). change (16 - 8) with 8 in P.
  rewrite <- Z.lxor_lor by exact P. rewrite <- Z.add_nocarry_lxor by exact P.
  unfold shl, lshr. rewrite (wrap_id 16 x) by lia.
  rewrite Z.shiftl_mul_pow2, Z.shiftr_div_pow2 by lia. unfold wrap. change (2 ^ 16) with (2 ^ 8 * 2 ^ 8).
  rewrite Z.mul_mod_distr_r by lia. f_equal. symmetry. apply Z.mod_small.
  split; [apply Z.div_pos; lia | apply Z.div_lt_upper_bound; lia].
Qed.

Lemma halves_swap x : 0 <= x < 2 ^ 16 -> swap 2 x + 2 ^ 16 * swap 2 (x / 2 ^ 16) = swap 2 x.
Proof. intros H. rewrite (Z.div_small x) by lia. change (swap 2 0) with 0. lia. Qed.

Lemma swap_two_range x : 0 <= swap 2 x < 2 ^ 16.
Proof.
  rewrite swap_two. assert (A := wrap_range 8 x ltac:(lia)). assert (B := wrap_range 8 (x / 2 ^ 8) ltac:(lia)). lia.
Qed.

Lemma low_half x y : wrap 16 (swap 2 x + 2 ^ 16 * y) = swap 2 x.
Proof.
  unfold wrap. rewrite Z.mul_comm, Z_mod_plus_full. apply Z.mod_small. apply swap_two_range.
Qed.

Ltac invert_memory := repeat (invert_instances; match goal with
  | H : instance (TLoad _ _ _ _) _ |- _ => inversion H; subst; clear H
  | H : instance (TStore _ _ _ _) _ |- _ => inversion H; subst; clear H
  | H : instance (TSwap _ _) _ |- _ => inversion H; subst; clear H
  end); invert_instances;
  repeat match goal with H : In ?x [_] |- _ => destruct H as [<- | []] end.

(** Loads in reverse order. *)
Ltac load_sequence I F :=
  each_row I; invert_memory; (split; [| intros; cbn [run fold_left step]; look_up; reflexivity]);
  cbn [run fold_left step]; look_up; reflexivity.

Ltac load_native I :=
  each_row I; (split; [| intros; cbn [X86.run A64.run fold_left X86.step A64.step X86.gprs]; look_up; reflexivity]);
  cbn [X86.run A64.run fold_left X86.step A64.step X86.gprs]; look_up; cbn [bytes].

Theorem load_swapped_16_sequences d b o cond form code st :
  In (cond, form) (load_swapped_16_forms d b o) -> instances form code ->
  does st (run code st) d d (swap 2 (load 2 (st b + o) st)).
Proof. unfold load_swapped_16_forms. intros I F. load_sequence I F. Qed.

Theorem load_swapped_16_x86_does d b o cond code st :
  In (cond, code) (load_swapped_16_x86 d b o) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (swap 2 (load 2 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold load_swapped_16_x86. intros I. load_native I. apply rotation_swaps. apply (load_range 2). Qed.

Theorem load_swapped_16_a64_does d b o cond code st :
  In (cond, code) (load_swapped_16_a64 d b o) ->
  does st (A64.run code st) d d (swap 2 (load 2 (st b + o) st)).
Proof. unfold load_swapped_16_a64. intros I. load_native I. apply halves_swap. apply (load_range 2). Qed.

Theorem load_swapped_16_x86_agrees : load_swapped_16_x86_statement.
Proof. agreed. eapply agree_everywhere; [eapply load_swapped_16_sequences | eapply load_swapped_16_x86_does]; eassumption. Qed.

Theorem load_swapped_16_a64_agrees : load_swapped_16_a64_statement.
Proof. agreed. eapply agree_everywhere; [eapply load_swapped_16_sequences | eapply load_swapped_16_a64_does]; eassumption. Qed.

Theorem load_swapped_32_sequences d b o cond form code st :
  In (cond, form) (load_swapped_32_forms d b o) -> instances form code ->
  does st (run code st) d d (swap 4 (load 4 (st b + o) st)).
Proof. unfold load_swapped_32_forms. intros I F. load_sequence I F. Qed.

Theorem load_swapped_32_x86_does d b o cond code st :
  In (cond, code) (load_swapped_32_x86 d b o) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (swap 4 (load 4 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold load_swapped_32_x86. intros I. load_native I. reflexivity. Qed.

Theorem load_swapped_32_a64_does d b o cond code st :
  In (cond, code) (load_swapped_32_a64 d b o) ->
  does st (A64.run code st) d d (swap 4 (load 4 (st b + o) st)).
Proof. unfold load_swapped_32_a64. intros I. load_native I. reflexivity. Qed.

Theorem load_swapped_32_x86_agrees : load_swapped_32_x86_statement.
Proof. agreed. eapply agree_everywhere; [eapply load_swapped_32_sequences | eapply load_swapped_32_x86_does]; eassumption. Qed.

Theorem load_swapped_32_a64_agrees : load_swapped_32_a64_statement.
Proof. agreed. eapply agree_everywhere; [eapply load_swapped_32_sequences | eapply load_swapped_32_a64_does]; eassumption. Qed.

Theorem load_swapped_64_sequences d b o cond form code st :
  In (cond, form) (load_swapped_64_forms d b o) -> instances form code ->
  does st (run code st) d d (swap 8 (load 8 (st b + o) st)).
Proof. unfold load_swapped_64_forms. intros I F. load_sequence I F. Qed.

Theorem load_swapped_64_x86_does d b o cond code st :
  In (cond, code) (load_swapped_64_x86 d b o) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (swap 8 (load 8 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold load_swapped_64_x86. intros I. load_native I. reflexivity. Qed.

Theorem load_swapped_64_a64_does d b o cond code st :
  In (cond, code) (load_swapped_64_a64 d b o) ->
  does st (A64.run code st) d d (swap 8 (load 8 (st b + o) st)).
Proof. unfold load_swapped_64_a64. intros I. load_native I. reflexivity. Qed.

Theorem load_swapped_64_x86_agrees : load_swapped_64_x86_statement.
Proof. agreed. eapply agree_everywhere; [eapply load_swapped_64_sequences | eapply load_swapped_64_x86_does]; eassumption. Qed.

Theorem load_swapped_64_a64_agrees : load_swapped_64_a64_statement.
Proof. agreed. eapply agree_everywhere; [eapply load_swapped_64_sequences | eapply load_swapped_64_a64_does]; eassumption. Qed.

(** Stores in reverse order. *)
Ltac store_sequence K I C :=
  each_row I; decompose [and] C; decompose [and] K; subst; invert_memory; intros r L T;
  cbn [run fold_left step value]; look_up;
  rewrite ?store_update by (apply register_is_no_byte; assumption);
  repeat (destruct (reg_eq r _); [congruence |]);
  repeat match goal with H : In _ [_; _] |- _ => destruct H as [<- | [<- | []]] end;
  unfold apply; cbn [bits]; rewrite ?swap_wrap by (simpl; lia); reflexivity.

Ltac store_native K I :=
  each_row I; decompose [and] K; intros r L T;
  repeat match goal with H : is_register ?x |- _ => is_var x; destruct x; try contradiction H end;
  cbn [X86.run A64.run fold_left X86.step A64.step X86.gprs]; look_up;
  rewrite ?store_update by congruence;
  repeat (destruct (reg_eq r _); [subst; exfalso; exact (L I) || (apply L; exact Logic.I) |]).

Theorem store_swapped_16_sequences b o s t cond form code st :
  store_swapped_16_allowed b o s t -> In (cond, form) (store_swapped_16_forms b o s t) -> cond -> instances form code ->
  agree_live (run code st) (store 2 (st b + o) (swap 2 (st s)) st) t.
Proof. unfold store_swapped_16_allowed, store_swapped_16_forms. intros K I C F. store_sequence K I C. Qed.

Theorem store_swapped_16_x86_does b o s t cond code st :
  store_swapped_16_allowed b o s t -> In (cond, code) (store_swapped_16_x86 b o s t) ->
  agree_live (X86.gprs (X86.run code st)) (store 2 (X86.gprs st b + o) (swap 2 (X86.gprs st s)) (X86.gprs st)) (Scratch 0).
Proof. unfold store_swapped_16_allowed, store_swapped_16_x86. intros K I. store_native K I. reflexivity. Qed.

Theorem store_swapped_16_a64_does b o s t cond code st :
  store_swapped_16_allowed b o s t -> In (cond, code) (store_swapped_16_a64 b o s t) ->
  agree_live (A64.run code st) (store 2 (st b + o) (swap 2 (st s)) st) (Scratch 0).
Proof.
  unfold store_swapped_16_allowed, store_swapped_16_a64. intros K I. store_native K I.
  rewrite <- (store_wrap 2 16) by lia. rewrite low_half. reflexivity.
Qed.

Theorem store_swapped_16_x86_agrees : store_swapped_16_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply store_swapped_16_sequences | eapply store_swapped_16_x86_does | apply store_register; exact I]; eassumption. Qed.

Theorem store_swapped_16_a64_agrees : store_swapped_16_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply store_swapped_16_sequences | eapply store_swapped_16_a64_does | apply store_register; exact I]; eassumption. Qed.

Theorem store_swapped_32_sequences b o s t cond form code st :
  store_swapped_32_allowed b o s t -> In (cond, form) (store_swapped_32_forms b o s t) -> cond -> instances form code ->
  agree_live (run code st) (store 4 (st b + o) (swap 4 (st s)) st) t.
Proof. unfold store_swapped_32_allowed, store_swapped_32_forms. intros K I C F. store_sequence K I C. Qed.

Theorem store_swapped_32_x86_does b o s t cond code st :
  store_swapped_32_allowed b o s t -> In (cond, code) (store_swapped_32_x86 b o s t) ->
  agree_live (X86.gprs (X86.run code st)) (store 4 (X86.gprs st b + o) (swap 4 (X86.gprs st s)) (X86.gprs st)) (Scratch 0).
Proof. unfold store_swapped_32_allowed, store_swapped_32_x86. intros K I. store_native K I. reflexivity. Qed.

Theorem store_swapped_32_a64_does b o s t cond code st :
  store_swapped_32_allowed b o s t -> In (cond, code) (store_swapped_32_a64 b o s t) ->
  agree_live (A64.run code st) (store 4 (st b + o) (swap 4 (st s)) st) (Scratch 0).
Proof.
  unfold store_swapped_32_allowed, store_swapped_32_a64. intros K I. store_native K I.
  reflexivity.
Qed.

Theorem store_swapped_32_x86_agrees : store_swapped_32_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply store_swapped_32_sequences | eapply store_swapped_32_x86_does | apply store_register; exact I]; eassumption. Qed.

Theorem store_swapped_32_a64_agrees : store_swapped_32_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply store_swapped_32_sequences | eapply store_swapped_32_a64_does | apply store_register; exact I]; eassumption. Qed.

Theorem store_swapped_64_sequences b o s t cond form code st :
  store_swapped_64_allowed b o s t -> In (cond, form) (store_swapped_64_forms b o s t) -> cond -> instances form code ->
  agree_live (run code st) (store 8 (st b + o) (swap 8 (st s)) st) t.
Proof. unfold store_swapped_64_allowed, store_swapped_64_forms. intros K I C F. store_sequence K I C. Qed.

Theorem store_swapped_64_x86_does b o s t cond code st :
  store_swapped_64_allowed b o s t -> In (cond, code) (store_swapped_64_x86 b o s t) ->
  agree_live (X86.gprs (X86.run code st)) (store 8 (X86.gprs st b + o) (swap 8 (X86.gprs st s)) (X86.gprs st)) (Scratch 0).
Proof. unfold store_swapped_64_allowed, store_swapped_64_x86. intros K I. store_native K I. reflexivity. Qed.

Theorem store_swapped_64_a64_does b o s t cond code st :
  store_swapped_64_allowed b o s t -> In (cond, code) (store_swapped_64_a64 b o s t) ->
  agree_live (A64.run code st) (store 8 (st b + o) (swap 8 (st s)) st) (Scratch 0).
Proof.
  unfold store_swapped_64_allowed, store_swapped_64_a64. intros K I. store_native K I.
  reflexivity.
Qed.

Theorem store_swapped_64_x86_agrees : store_swapped_64_x86_statement.
Proof. agreed. eapply agree_but; [exact I | eapply store_swapped_64_sequences | eapply store_swapped_64_x86_does | apply store_register; exact I]; eassumption. Qed.

Theorem store_swapped_64_a64_agrees : store_swapped_64_a64_statement.
Proof. agreed. eapply agree_but; [exact I | eapply store_swapped_64_sequences | eapply store_swapped_64_a64_does | apply store_register; exact I]; eassumption. Qed.

(** Arithmetic with an operand in memory. *)
Lemma with_sum w x m : 0 <= w -> apply Add w x m = wrap w (x + m).
Proof. intros. unfold apply, wrap. symmetry. apply Zplus_mod. Qed.

Lemma with_difference w x m : 0 <= w -> apply Sub w x m = wrap w (x - m).
Proof. intros. unfold apply, wrap. symmetry. apply Zminus_mod. Qed.

Lemma with_product w x m : 0 <= w -> apply Mul w x m = wrap w (x * m).
Proof. intros. unfold apply, wrap. symmetry. apply Zmult_mod. Qed.

Ltac memory_sequence K I C :=
  each_row I; decompose [and] C; decompose [and] K; subst; invert_memory;
  (split; [| intros; cbn [run fold_left step]; look_up; reflexivity]);
  cbn [run fold_left step value]; look_up; cbn [bits];
  first [apply with_sum; lia | apply with_difference; lia | apply with_product; lia |
    unfold apply; match goal with |- context [wrap ?w (load ?n ?a ?s)] =>
      rewrite (wrap_id w (load n a s)) by (first [lia | apply (load_range n)]); reflexivity end].

Ltac memory_native I :=
  each_row I; (split; [| intros; cbn [X86.run fold_left X86.step X86.with_memory X86.gprs]; look_up; reflexivity]);
  cbn [X86.run fold_left X86.step X86.with_memory X86.gprs]; look_up; reflexivity.

Theorem add_memory_32_sequences d b o t cond form code st :
  add_memory_32_allowed d b o t -> In (cond, form) (add_memory_32_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (wrap 32 (st d + load 4 (st b + o) st)).
Proof. unfold add_memory_32_allowed, add_memory_32_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem add_memory_32_x86_does d b o t cond code st :
  In (cond, code) (add_memory_32_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 32 (X86.gprs st d + load 4 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold add_memory_32_x86. intros I. memory_native I. Qed.

Theorem add_memory_32_x86_agrees : add_memory_32_x86_statement.
Proof. agreed. eapply agree_once; [eapply add_memory_32_sequences | eapply add_memory_32_x86_does]; eassumption. Qed.

Theorem add_memory_64_sequences d b o t cond form code st :
  add_memory_64_allowed d b o t -> In (cond, form) (add_memory_64_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (wrap 64 (st d + load 8 (st b + o) st)).
Proof. unfold add_memory_64_allowed, add_memory_64_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem add_memory_64_x86_does d b o t cond code st :
  In (cond, code) (add_memory_64_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 64 (X86.gprs st d + load 8 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold add_memory_64_x86. intros I. memory_native I. Qed.

Theorem add_memory_64_x86_agrees : add_memory_64_x86_statement.
Proof. agreed. eapply agree_once; [eapply add_memory_64_sequences | eapply add_memory_64_x86_does]; eassumption. Qed.

Theorem sub_memory_32_sequences d b o t cond form code st :
  sub_memory_32_allowed d b o t -> In (cond, form) (sub_memory_32_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (wrap 32 (st d - load 4 (st b + o) st)).
Proof. unfold sub_memory_32_allowed, sub_memory_32_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem sub_memory_32_x86_does d b o t cond code st :
  In (cond, code) (sub_memory_32_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 32 (X86.gprs st d - load 4 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold sub_memory_32_x86. intros I. memory_native I. Qed.

Theorem sub_memory_32_x86_agrees : sub_memory_32_x86_statement.
Proof. agreed. eapply agree_once; [eapply sub_memory_32_sequences | eapply sub_memory_32_x86_does]; eassumption. Qed.

Theorem sub_memory_64_sequences d b o t cond form code st :
  sub_memory_64_allowed d b o t -> In (cond, form) (sub_memory_64_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (wrap 64 (st d - load 8 (st b + o) st)).
Proof. unfold sub_memory_64_allowed, sub_memory_64_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem sub_memory_64_x86_does d b o t cond code st :
  In (cond, code) (sub_memory_64_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 64 (X86.gprs st d - load 8 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold sub_memory_64_x86. intros I. memory_native I. Qed.

Theorem sub_memory_64_x86_agrees : sub_memory_64_x86_statement.
Proof. agreed. eapply agree_once; [eapply sub_memory_64_sequences | eapply sub_memory_64_x86_does]; eassumption. Qed.

Theorem mul_memory_32_sequences d b o t cond form code st :
  mul_memory_32_allowed d b o t -> In (cond, form) (mul_memory_32_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (wrap 32 (st d * load 4 (st b + o) st)).
Proof. unfold mul_memory_32_allowed, mul_memory_32_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem mul_memory_32_x86_does d b o t cond code st :
  In (cond, code) (mul_memory_32_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 32 (X86.gprs st d * load 4 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold mul_memory_32_x86. intros I. memory_native I. Qed.

Theorem mul_memory_32_x86_agrees : mul_memory_32_x86_statement.
Proof. agreed. eapply agree_once; [eapply mul_memory_32_sequences | eapply mul_memory_32_x86_does]; eassumption. Qed.

Theorem mul_memory_64_sequences d b o t cond form code st :
  mul_memory_64_allowed d b o t -> In (cond, form) (mul_memory_64_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (wrap 64 (st d * load 8 (st b + o) st)).
Proof. unfold mul_memory_64_allowed, mul_memory_64_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem mul_memory_64_x86_does d b o t cond code st :
  In (cond, code) (mul_memory_64_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 64 (X86.gprs st d * load 8 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold mul_memory_64_x86. intros I. memory_native I. Qed.

Theorem mul_memory_64_x86_agrees : mul_memory_64_x86_statement.
Proof. agreed. eapply agree_once; [eapply mul_memory_64_sequences | eapply mul_memory_64_x86_does]; eassumption. Qed.

Theorem and_memory_32_sequences d b o t cond form code st :
  and_memory_32_allowed d b o t -> In (cond, form) (and_memory_32_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (Z.land (wrap 32 (st d)) (load 4 (st b + o) st)).
Proof. unfold and_memory_32_allowed, and_memory_32_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem and_memory_32_x86_does d b o t cond code st :
  In (cond, code) (and_memory_32_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (Z.land (wrap 32 (X86.gprs st d)) (load 4 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold and_memory_32_x86. intros I. memory_native I. Qed.

Theorem and_memory_32_x86_agrees : and_memory_32_x86_statement.
Proof. agreed. eapply agree_once; [eapply and_memory_32_sequences | eapply and_memory_32_x86_does]; eassumption. Qed.

Theorem and_memory_64_sequences d b o t cond form code st :
  and_memory_64_allowed d b o t -> In (cond, form) (and_memory_64_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (Z.land (wrap 64 (st d)) (load 8 (st b + o) st)).
Proof. unfold and_memory_64_allowed, and_memory_64_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem and_memory_64_x86_does d b o t cond code st :
  In (cond, code) (and_memory_64_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (Z.land (wrap 64 (X86.gprs st d)) (load 8 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold and_memory_64_x86. intros I. memory_native I. Qed.

Theorem and_memory_64_x86_agrees : and_memory_64_x86_statement.
Proof. agreed. eapply agree_once; [eapply and_memory_64_sequences | eapply and_memory_64_x86_does]; eassumption. Qed.

Theorem or_memory_32_sequences d b o t cond form code st :
  or_memory_32_allowed d b o t -> In (cond, form) (or_memory_32_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (Z.lor (wrap 32 (st d)) (load 4 (st b + o) st)).
Proof. unfold or_memory_32_allowed, or_memory_32_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem or_memory_32_x86_does d b o t cond code st :
  In (cond, code) (or_memory_32_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (Z.lor (wrap 32 (X86.gprs st d)) (load 4 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold or_memory_32_x86. intros I. memory_native I. Qed.

Theorem or_memory_32_x86_agrees : or_memory_32_x86_statement.
Proof. agreed. eapply agree_once; [eapply or_memory_32_sequences | eapply or_memory_32_x86_does]; eassumption. Qed.

Theorem or_memory_64_sequences d b o t cond form code st :
  or_memory_64_allowed d b o t -> In (cond, form) (or_memory_64_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (Z.lor (wrap 64 (st d)) (load 8 (st b + o) st)).
Proof. unfold or_memory_64_allowed, or_memory_64_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem or_memory_64_x86_does d b o t cond code st :
  In (cond, code) (or_memory_64_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (Z.lor (wrap 64 (X86.gprs st d)) (load 8 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold or_memory_64_x86. intros I. memory_native I. Qed.

Theorem or_memory_64_x86_agrees : or_memory_64_x86_statement.
Proof. agreed. eapply agree_once; [eapply or_memory_64_sequences | eapply or_memory_64_x86_does]; eassumption. Qed.

Theorem xor_memory_32_sequences d b o t cond form code st :
  xor_memory_32_allowed d b o t -> In (cond, form) (xor_memory_32_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (Z.lxor (wrap 32 (st d)) (load 4 (st b + o) st)).
Proof. unfold xor_memory_32_allowed, xor_memory_32_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem xor_memory_32_x86_does d b o t cond code st :
  In (cond, code) (xor_memory_32_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (Z.lxor (wrap 32 (X86.gprs st d)) (load 4 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold xor_memory_32_x86. intros I. memory_native I. Qed.

Theorem xor_memory_32_x86_agrees : xor_memory_32_x86_statement.
Proof. agreed. eapply agree_once; [eapply xor_memory_32_sequences | eapply xor_memory_32_x86_does]; eassumption. Qed.

Theorem xor_memory_64_sequences d b o t cond form code st :
  xor_memory_64_allowed d b o t -> In (cond, form) (xor_memory_64_forms d b o t) -> cond -> instances form code ->
  does st (run code st) d t (Z.lxor (wrap 64 (st d)) (load 8 (st b + o) st)).
Proof. unfold xor_memory_64_allowed, xor_memory_64_forms. intros K I C F. memory_sequence K I C. Qed.

Theorem xor_memory_64_x86_does d b o t cond code st :
  In (cond, code) (xor_memory_64_x86 d b o t) ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (Z.lxor (wrap 64 (X86.gprs st d)) (load 8 (X86.gprs st b + o) (X86.gprs st))).
Proof. unfold xor_memory_64_x86. intros I. memory_native I. Qed.

Theorem xor_memory_64_x86_agrees : xor_memory_64_x86_statement.
Proof. agreed. eapply agree_once; [eapply xor_memory_64_sequences | eapply xor_memory_64_x86_does]; eassumption. Qed.
