(** Addresses with a scaled index, conjunctions with a complement, and extensions by pairs of shifts.

    The theorems have the shape of those in Rotate.v: what every instance of every proof sequence does, what native code
    does, and that the two agree. *)

From Coq Require Import ZArith List Lia.
From Kiln Require Import Bits Bpf Agreement Generated Rotate.
From Kiln Require X86 A64.
Import ListNotations.
Open Scope Z_scope.

(** One operation at a width, as proof sequences use it. *)
Lemma shifted_left w x k : 0 < k < w -> w <= 64 -> apply Lsh w x (wrap 64 k) = shl w (wrap w x) k.
Proof. apply left_part. Qed.

Lemma scaled x n : 1 <= n <= 3 -> apply Lsh 64 x (wrap 64 n) = wrap 64 (Z.shiftl x n).
Proof.
  intros. rewrite left_part by lia. apply Z.bits_inj'. intros i Hi. rewrite shl_bit by lia.
  rewrite (wrap_bit 64 (Z.shiftl x n)) by lia.
  destruct (Z.ltb_spec i 64); [| reflexivity]. rewrite !Bool.andb_true_l. destruct (Z.leb_spec n i).
  - rewrite Z.shiftl_spec by lia. rewrite wrap_bit by lia. destruct (Z.ltb_spec (i - n) 64); [reflexivity | lia].
  - rewrite Z.shiftl_spec_low by lia. reflexivity.
Qed.

Lemma sum_wrapped w x y : 0 <= w -> apply Add w x (wrap w y) = wrap w (x + y).
Proof. intros. unfold apply, wrap. rewrite Z.mod_mod by (apply Z.pow_nonzero; lia). rewrite <- Zplus_mod. reflexivity. Qed.

Lemma sum_wrapped_plain w x y : 0 <= w -> wrap w (x + wrap w y) = wrap w (x + y).
Proof. intros. unfold wrap. apply Zplus_mod_idemp_r. Qed.

Lemma sum_turned w x y : apply Add w x y = apply Add w y x.
Proof. unfold apply. f_equal. apply Z.add_comm. Qed.

Lemma sum_scaled b i n : 1 <= n <= 3 -> apply Add 64 b (wrap 64 (Z.shiftl i n)) = wrap 64 (b + Z.shiftl i n).
Proof. intros. apply sum_wrapped. lia. Qed.

Lemma masked w x y : 0 <= w <= 64 -> apply And w (apply Xor w x (wrap 64 (-1))) y = Z.ldiff (wrap w y) (wrap w x).
Proof.
  intros. rewrite <- and_not_bits by lia. unfold apply. rewrite wrap_narrow by lia. f_equal.
  apply Z.bits_inj'. intros i Hi. rewrite wrap_bit, Z.lxor_spec, !wrap_bit by lia.
  destruct (Z.ltb_spec i w); reflexivity.
Qed.

Lemma masked_turned w x y : 0 <= w <= 64 -> apply And w y (apply Xor w x (wrap 64 (-1))) = Z.ldiff (wrap w y) (wrap w x).
Proof. intros. rewrite <- masked by lia. unfold apply. apply Z.land_comm. Qed.

Lemma extended_signed w n x k : 0 < n < w -> w <= 64 -> k = w - n ->
  apply Arsh w (apply Lsh w x (wrap 64 k)) (wrap 64 k) = wrap w (signed n x).
Proof.
  intros H W ->. rewrite left_part by lia. unfold apply. rewrite amount by lia.
  rewrite (wrap_id w (shl _ _ _)) by (try apply shl_range; lia). rewrite shifted_back_signed by lia.
  f_equal. apply signed_wrap. lia.
Qed.

Lemma extended w n x k : 0 < n < w -> w <= 64 -> k = w - n ->
  apply Rsh w (apply Lsh w x (wrap 64 k)) (wrap 64 k) = wrap n x.
Proof.
  intros H W ->. rewrite left_part by lia. unfold apply. rewrite amount by lia.
  rewrite (wrap_id w (shl _ _ _)) by (try apply shl_range; lia). rewrite shifted_back by lia.
  apply wrap_narrow. lia.
Qed.

(** A copy carries what is read of it. *)
Lemma copied_shift v w x y k : 0 <= w <= v -> apply Lsh w (apply Mov v y x) k = apply Lsh w x k.
Proof. intros. unfold apply. rewrite wrap_narrow by lia. reflexivity. Qed.

Lemma copied_xor v w x y k : 0 <= w <= v -> apply Xor w (apply Mov v y x) k = apply Xor w x k.
Proof. intros. unfold apply. rewrite wrap_narrow by lia. reflexivity. Qed.

Ltac each_row I :=
  cbn [In] in I; repeat (destruct I as [E | I]; [apply pair_equal_spec in E; destruct E as [<- <-] |]); try contradiction.

(** The goals for the value, one for each proof sequence; the other registers are looked up. *)
Ltac each_sequence I C :=
  each_row I; decompose [and] C; subst; invert_instances;
  repeat match goal with H : In ?x [_] |- _ => destruct H as [<- | []] end;
  (split; [| intros; cbn [run fold_left step]; look_up; reflexivity]);
  cbn [run fold_left step value]; look_up; cbn [bits];
  rewrite ?copied_shift by wide_enough; rewrite ?copied_xor by wide_enough.

Ltac each_native I :=
  each_row I; split;
  [| intros; cbn [X86.run A64.run fold_left X86.step A64.step X86.gprs]; look_up; reflexivity];
  cbn [X86.run A64.run fold_left X86.step A64.step X86.gprs]; look_up; cbn [bits].

Theorem address_scaled_sequences d b i t n cond form code st :
  address_scaled_allowed d b i t n -> In (cond, form) (address_scaled_forms d b i t n) -> cond -> instances form code ->
  does st (run code st) d t (wrap 64 (st b + Z.shiftl (st i) n)).
Proof.
  unfold address_scaled_allowed, address_scaled_forms. intros K I C F. each_sequence I C.
  all: rewrite scaled by lia.
  all: first [apply sum_scaled; lia | rewrite sum_turned; apply sum_scaled; lia].
Qed.

Theorem address_scaled_x86_does d b i t n cond code st :
  address_scaled_allowed d b i t n -> In (cond, code) (address_scaled_x86 d b i t n) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 64 (X86.gprs st b + Z.shiftl (X86.gprs st i) n)).
Proof. unfold address_scaled_allowed, address_scaled_x86. intros K I C. each_native I. rewrite Z.shiftl_mul_pow2 by lia. reflexivity. Qed.

Theorem address_scaled_a64_does d b i t n cond code st :
  address_scaled_allowed d b i t n -> In (cond, code) (address_scaled_a64 d b i t n) -> cond ->
  does st (A64.run code st) d d (wrap 64 (st b + Z.shiftl (st i) n)).
Proof. unfold address_scaled_allowed, address_scaled_a64. intros K I C. each_native I. apply sum_wrapped_plain. lia. Qed.

Theorem address_scaled_x86_agrees : address_scaled_x86_statement.
Proof. agreed. eapply agree_once; [eapply address_scaled_sequences | eapply address_scaled_x86_does]; eassumption. Qed.

Theorem address_scaled_a64_agrees : address_scaled_a64_statement.
Proof. agreed. eapply agree_once; [eapply address_scaled_sequences | eapply address_scaled_a64_does]; eassumption. Qed.

Theorem and_not_32_sequences d s m t cond form code st :
  and_not_32_allowed d s m t -> In (cond, form) (and_not_32_forms d s m t) -> cond -> instances form code ->
  does st (run code st) d t (Z.ldiff (wrap 32 (st m)) (wrap 32 (st s))).
Proof.
  unfold and_not_32_allowed, and_not_32_forms. intros K I C F. each_sequence I C.
  all: first [apply masked; lia | apply masked_turned; lia].
Qed.

Theorem and_not_32_x86_does d s m t cond code st :
  and_not_32_allowed d s m t -> In (cond, code) (and_not_32_x86 d s m t) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (Z.ldiff (wrap 32 (X86.gprs st m)) (wrap 32 (X86.gprs st s))).
Proof. unfold and_not_32_allowed, and_not_32_x86. intros K I C. each_native I. reflexivity. Qed.

Theorem and_not_32_a64_does d s m t cond code st :
  and_not_32_allowed d s m t -> In (cond, code) (and_not_32_a64 d s m t) -> cond ->
  does st (A64.run code st) d d (Z.ldiff (wrap 32 (st m)) (wrap 32 (st s))).
Proof. unfold and_not_32_allowed, and_not_32_a64. intros K I C. each_native I. reflexivity. Qed.

Theorem and_not_32_x86_agrees : and_not_32_x86_statement.
Proof. agreed. eapply agree_once; [eapply and_not_32_sequences | eapply and_not_32_x86_does]; eassumption. Qed.

Theorem and_not_32_a64_agrees : and_not_32_a64_statement.
Proof. agreed. eapply agree_once; [eapply and_not_32_sequences | eapply and_not_32_a64_does]; eassumption. Qed.

Theorem and_not_64_sequences d s m t cond form code st :
  and_not_64_allowed d s m t -> In (cond, form) (and_not_64_forms d s m t) -> cond -> instances form code ->
  does st (run code st) d t (Z.ldiff (wrap 64 (st m)) (wrap 64 (st s))).
Proof.
  unfold and_not_64_allowed, and_not_64_forms. intros K I C F. each_sequence I C.
  all: first [apply masked; lia | apply masked_turned; lia].
Qed.

Theorem and_not_64_x86_does d s m t cond code st :
  and_not_64_allowed d s m t -> In (cond, code) (and_not_64_x86 d s m t) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (Z.ldiff (wrap 64 (X86.gprs st m)) (wrap 64 (X86.gprs st s))).
Proof. unfold and_not_64_allowed, and_not_64_x86. intros K I C. each_native I. reflexivity. Qed.

Theorem and_not_64_a64_does d s m t cond code st :
  and_not_64_allowed d s m t -> In (cond, code) (and_not_64_a64 d s m t) -> cond ->
  does st (A64.run code st) d d (Z.ldiff (wrap 64 (st m)) (wrap 64 (st s))).
Proof. unfold and_not_64_allowed, and_not_64_a64. intros K I C. each_native I. reflexivity. Qed.

Theorem and_not_64_x86_agrees : and_not_64_x86_statement.
Proof. agreed. eapply agree_once; [eapply and_not_64_sequences | eapply and_not_64_x86_does]; eassumption. Qed.

Theorem and_not_64_a64_agrees : and_not_64_a64_statement.
Proof. agreed. eapply agree_once; [eapply and_not_64_sequences | eapply and_not_64_a64_does]; eassumption. Qed.

Theorem sign_extend_8_sequences d s cond form code st :
  sign_extend_8_allowed d s -> In (cond, form) (sign_extend_8_forms d s) -> cond -> instances form code ->
  does st (run code st) d d (wrap 64 (signed 8 (st s))).
Proof.
  unfold sign_extend_8_allowed, sign_extend_8_forms. intros K I C F. each_sequence I C.
  all: apply extended_signed; lia.
Qed.

Theorem sign_extend_8_x86_does d s cond code st :
  sign_extend_8_allowed d s -> In (cond, code) (sign_extend_8_x86 d s) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 64 (signed 8 (X86.gprs st s))).
Proof. unfold sign_extend_8_allowed, sign_extend_8_x86. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_8_a64_does d s cond code st :
  sign_extend_8_allowed d s -> In (cond, code) (sign_extend_8_a64 d s) -> cond ->
  does st (A64.run code st) d d (wrap 64 (signed 8 (st s))).
Proof. unfold sign_extend_8_allowed, sign_extend_8_a64. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_8_x86_agrees : sign_extend_8_x86_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_8_sequences | eapply sign_extend_8_x86_does]; eassumption. Qed.

Theorem sign_extend_8_a64_agrees : sign_extend_8_a64_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_8_sequences | eapply sign_extend_8_a64_does]; eassumption. Qed.

Theorem sign_extend_16_sequences d s cond form code st :
  sign_extend_16_allowed d s -> In (cond, form) (sign_extend_16_forms d s) -> cond -> instances form code ->
  does st (run code st) d d (wrap 64 (signed 16 (st s))).
Proof.
  unfold sign_extend_16_allowed, sign_extend_16_forms. intros K I C F. each_sequence I C.
  all: apply extended_signed; lia.
Qed.

Theorem sign_extend_16_x86_does d s cond code st :
  sign_extend_16_allowed d s -> In (cond, code) (sign_extend_16_x86 d s) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 64 (signed 16 (X86.gprs st s))).
Proof. unfold sign_extend_16_allowed, sign_extend_16_x86. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_16_a64_does d s cond code st :
  sign_extend_16_allowed d s -> In (cond, code) (sign_extend_16_a64 d s) -> cond ->
  does st (A64.run code st) d d (wrap 64 (signed 16 (st s))).
Proof. unfold sign_extend_16_allowed, sign_extend_16_a64. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_16_x86_agrees : sign_extend_16_x86_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_16_sequences | eapply sign_extend_16_x86_does]; eassumption. Qed.

Theorem sign_extend_16_a64_agrees : sign_extend_16_a64_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_16_sequences | eapply sign_extend_16_a64_does]; eassumption. Qed.

Theorem sign_extend_32_sequences d s cond form code st :
  sign_extend_32_allowed d s -> In (cond, form) (sign_extend_32_forms d s) -> cond -> instances form code ->
  does st (run code st) d d (wrap 64 (signed 32 (st s))).
Proof.
  unfold sign_extend_32_allowed, sign_extend_32_forms. intros K I C F. each_sequence I C.
  all: apply extended_signed; lia.
Qed.

Theorem sign_extend_32_x86_does d s cond code st :
  sign_extend_32_allowed d s -> In (cond, code) (sign_extend_32_x86 d s) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 64 (signed 32 (X86.gprs st s))).
Proof. unfold sign_extend_32_allowed, sign_extend_32_x86. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_32_a64_does d s cond code st :
  sign_extend_32_allowed d s -> In (cond, code) (sign_extend_32_a64 d s) -> cond ->
  does st (A64.run code st) d d (wrap 64 (signed 32 (st s))).
Proof. unfold sign_extend_32_allowed, sign_extend_32_a64. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_32_x86_agrees : sign_extend_32_x86_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_32_sequences | eapply sign_extend_32_x86_does]; eassumption. Qed.

Theorem sign_extend_32_a64_agrees : sign_extend_32_a64_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_32_sequences | eapply sign_extend_32_a64_does]; eassumption. Qed.

Theorem sign_extend_8_to_32_sequences d s cond form code st :
  sign_extend_8_to_32_allowed d s -> In (cond, form) (sign_extend_8_to_32_forms d s) -> cond -> instances form code ->
  does st (run code st) d d (wrap 32 (signed 8 (st s))).
Proof.
  unfold sign_extend_8_to_32_allowed, sign_extend_8_to_32_forms. intros K I C F. each_sequence I C.
  all: apply extended_signed; lia.
Qed.

Theorem sign_extend_8_to_32_x86_does d s cond code st :
  sign_extend_8_to_32_allowed d s -> In (cond, code) (sign_extend_8_to_32_x86 d s) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 32 (signed 8 (X86.gprs st s))).
Proof. unfold sign_extend_8_to_32_allowed, sign_extend_8_to_32_x86. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_8_to_32_a64_does d s cond code st :
  sign_extend_8_to_32_allowed d s -> In (cond, code) (sign_extend_8_to_32_a64 d s) -> cond ->
  does st (A64.run code st) d d (wrap 32 (signed 8 (st s))).
Proof. unfold sign_extend_8_to_32_allowed, sign_extend_8_to_32_a64. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_8_to_32_x86_agrees : sign_extend_8_to_32_x86_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_8_to_32_sequences | eapply sign_extend_8_to_32_x86_does]; eassumption. Qed.

Theorem sign_extend_8_to_32_a64_agrees : sign_extend_8_to_32_a64_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_8_to_32_sequences | eapply sign_extend_8_to_32_a64_does]; eassumption. Qed.

Theorem sign_extend_16_to_32_sequences d s cond form code st :
  sign_extend_16_to_32_allowed d s -> In (cond, form) (sign_extend_16_to_32_forms d s) -> cond -> instances form code ->
  does st (run code st) d d (wrap 32 (signed 16 (st s))).
Proof.
  unfold sign_extend_16_to_32_allowed, sign_extend_16_to_32_forms. intros K I C F. each_sequence I C.
  all: apply extended_signed; lia.
Qed.

Theorem sign_extend_16_to_32_x86_does d s cond code st :
  sign_extend_16_to_32_allowed d s -> In (cond, code) (sign_extend_16_to_32_x86 d s) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 32 (signed 16 (X86.gprs st s))).
Proof. unfold sign_extend_16_to_32_allowed, sign_extend_16_to_32_x86. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_16_to_32_a64_does d s cond code st :
  sign_extend_16_to_32_allowed d s -> In (cond, code) (sign_extend_16_to_32_a64 d s) -> cond ->
  does st (A64.run code st) d d (wrap 32 (signed 16 (st s))).
Proof. unfold sign_extend_16_to_32_allowed, sign_extend_16_to_32_a64. intros K I C. each_native I. reflexivity. Qed.

Theorem sign_extend_16_to_32_x86_agrees : sign_extend_16_to_32_x86_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_16_to_32_sequences | eapply sign_extend_16_to_32_x86_does]; eassumption. Qed.

Theorem sign_extend_16_to_32_a64_agrees : sign_extend_16_to_32_a64_statement.
Proof. agreed. eapply agree_everywhere; [eapply sign_extend_16_to_32_sequences | eapply sign_extend_16_to_32_a64_does]; eassumption. Qed.

Theorem zero_extend_32_sequences d s cond form code st :
  zero_extend_32_allowed d s -> In (cond, form) (zero_extend_32_forms d s) -> cond -> instances form code ->
  does st (run code st) d d (wrap 32 (st s)).
Proof.
  unfold zero_extend_32_allowed, zero_extend_32_forms. intros K I C F. each_sequence I C.
  all: apply extended; lia.
Qed.

Theorem zero_extend_32_x86_does d s cond code st :
  zero_extend_32_allowed d s -> In (cond, code) (zero_extend_32_x86 d s) -> cond ->
  does (X86.gprs st) (X86.gprs (X86.run code st)) d d (wrap 32 (X86.gprs st s)).
Proof. unfold zero_extend_32_allowed, zero_extend_32_x86. intros K I C. each_native I. reflexivity. Qed.

Theorem zero_extend_32_a64_does d s cond code st :
  zero_extend_32_allowed d s -> In (cond, code) (zero_extend_32_a64 d s) -> cond ->
  does st (A64.run code st) d d (wrap 32 (st s)).
Proof. unfold zero_extend_32_allowed, zero_extend_32_a64. intros K I C. each_native I. reflexivity. Qed.

Theorem zero_extend_32_x86_agrees : zero_extend_32_x86_statement.
Proof. agreed. eapply agree_everywhere; [eapply zero_extend_32_sequences | eapply zero_extend_32_x86_does]; eassumption. Qed.

Theorem zero_extend_32_a64_agrees : zero_extend_32_a64_statement.
Proof. agreed. eapply agree_everywhere; [eapply zero_extend_32_sequences | eapply zero_extend_32_a64_does]; eassumption. Qed.
