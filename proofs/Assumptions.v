(** What the theorems rest on. `proofs/check` compares what this prints with `assumptions.txt`. *)

From Kiln Require Import Rotate RotateRegister.

Print Assumptions rotate_left_32_x86_agrees.
Print Assumptions rotate_left_32_a64_agrees.
Print Assumptions rotate_left_64_x86_agrees.
Print Assumptions rotate_left_64_a64_agrees.
Print Assumptions rotate_register_32_x86_agrees.
Print Assumptions rotate_register_32_a64_agrees.
Print Assumptions rotate_register_64_x86_agrees.
Print Assumptions rotate_register_64_a64_agrees.
