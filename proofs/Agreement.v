(** What a row's statement says ([Generated.v] has one for each row and machine): native code and an instance of a proof
    sequence agree.

    - They leave the same in every place: in the results, and in all that is neither a temporary, which the check of a
      mark requires to be dead, nor kept free by the JIT within an instruction.
    - Native code leaves in the temporaries what they held.
    - Others see the same accesses. The program's own stack is not shared, so accesses through R10 are not seen. *)

From Coq Require Import ZArith List Permutation.
From Kiln Require Import Bits Bpf.
Import ListNotations.
Open Scope Z_scope.

(** Places that nobody reads between instructions: what JITs keep free, and flags. *)
Definition is_scratch (r : reg) : Prop := match r with Scratch _ | Flag _ => True | _ => False end.

Definition agrees (results temporaries : list reg) (before sequence native : regs) : Prop :=
  (forall r, ~ is_scratch r -> In r results \/ ~ In r temporaries -> sequence r = native r) /\
  (forall r, In r temporaries -> ~ In r results -> native r = before r).

(** Accesses that others can see. *)
Definition shared (accesses : list access) : list access :=
  filter (fun a => if reg_eq (base a) (Bpf 10) then false else true) accesses.

(** x86-64 keeps the order of loads, and that of stores; a sequence and native code have the same. *)
Definition same_in_order (sequence native : list access) : Prop := shared sequence = shared native.

(** 64-bit Arm keeps no order of accesses to different places; each access of a sequence is one of native code. *)
Definition same_in_any_order (sequence native : list access) : Prop := Permutation (shared sequence) (shared native).
