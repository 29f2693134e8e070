(** What the theorems rest on. `proofs/check` compares what this prints with `assumptions.txt`. *)

From Kiln Require Import Rotate RotateRegister Arithmetic.

Print Assumptions rotate_left_32_x86_agrees.
Print Assumptions rotate_left_32_a64_agrees.
Print Assumptions rotate_left_64_x86_agrees.
Print Assumptions rotate_left_64_a64_agrees.
Print Assumptions rotate_register_32_x86_agrees.
Print Assumptions rotate_register_32_a64_agrees.
Print Assumptions rotate_register_64_x86_agrees.
Print Assumptions rotate_register_64_a64_agrees.
Print Assumptions address_scaled_x86_agrees.
Print Assumptions address_scaled_a64_agrees.
Print Assumptions and_not_32_x86_agrees.
Print Assumptions and_not_32_a64_agrees.
Print Assumptions and_not_64_x86_agrees.
Print Assumptions and_not_64_a64_agrees.
Print Assumptions sign_extend_8_x86_agrees.
Print Assumptions sign_extend_8_a64_agrees.
Print Assumptions sign_extend_16_x86_agrees.
Print Assumptions sign_extend_16_a64_agrees.
Print Assumptions sign_extend_32_x86_agrees.
Print Assumptions sign_extend_32_a64_agrees.
Print Assumptions sign_extend_8_to_32_x86_agrees.
Print Assumptions sign_extend_8_to_32_a64_agrees.
Print Assumptions sign_extend_16_to_32_x86_agrees.
Print Assumptions sign_extend_16_to_32_a64_agrees.
Print Assumptions zero_extend_32_x86_agrees.
Print Assumptions zero_extend_32_a64_agrees.
