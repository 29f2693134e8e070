(** BPF, as far as proof sequences use it (RFC 9669, and Kiln's table in crates/isa/src/table.rs). *)

From Coq Require Import ZArith List Lia.
From Kiln Require Import Bits.
Import ListNotations.
Open Scope Z_scope.

(** A place that holds a number: a BPF register, which on a machine is the register that the JIT keeps it in; a
    register that the JIT keeps free within an instruction; a byte of memory, by its address; a flag of a processor;
    where control is, after a region that may leave: 1 where its branches out lead, 0 at its end. *)
Inductive reg := Bpf (n : Z) | Scratch (n : Z) | Byte (address : Z) | Flag (n : Z) | Left.

(** Operands are registers of BPF. *)
Definition is_register (r : reg) : Prop := match r with Bpf _ => True | _ => False end.

Definition reg_eq (a b : reg) : {a = b} + {a <> b}.
Proof. decide equality; apply Z.eq_dec. Defined.

Definition regs := reg -> Z.

Definition update (s : regs) (r : reg) (v : Z) : regs := fun x => if reg_eq x r then v else s x.

Lemma update_same s r v : update s r v r = v.
Proof. unfold update. destruct (reg_eq r r); congruence. Qed.

Lemma update_other s r v x : x <> r -> update s r v x = s x.
Proof. unfold update. destruct (reg_eq x r); congruence. Qed.

(** The number that [n] bytes of memory are, the lowest first. Addresses are numbers of 64 bits. *)
Fixpoint load (n : nat) (a : Z) (s : regs) : Z :=
  match n with O => 0 | S n => wrap 8 (s (Byte (wrap 64 a))) + 2 ^ 8 * load n (a + 1) s end.

(** The lowest [n] bytes of a number into memory. *)
Fixpoint store (n : nat) (a v : Z) (s : regs) : regs :=
  match n with O => s | S n => store n (a + 1) (v / 2 ^ 8) (update s (Byte (wrap 64 a)) (wrap 8 v)) end.

(** The lowest [n] bytes in reverse order. *)
Fixpoint swap (n : nat) (x : Z) : Z :=
  match n with O => 0 | S m => wrap 8 x * 2 ^ (8 * Z.of_nat m) + swap m (x / 2 ^ 8) end.

(** What registers hold are numbers of 64 bits. *)
Definition well_formed (s : regs) : Prop := forall r, 0 <= s r < 2 ^ 64.

Inductive width := W32 | W64.
Definition bits (w : width) : Z := match w with W32 => 32 | W64 => 64 end.

Lemma bits_positive w : 0 < bits w.
Proof. destruct w; simpl; lia. Qed.

(** How many bytes an access of a width has. *)
Definition bytes (w : width) : nat := match w with W32 => 4 | W64 => 8 end.

Inductive alu := Mov | Add | Sub | Mul | And | Or | Xor | Lsh | Rsh | Arsh.
Inductive operand := Reg (r : reg) | Imm (z : Z).

(** Comparisons, of numbers without and with a sign. *)
Inductive condition := IsEq | IsNe | IsGt | IsGe | IsLt | IsLe | IsSgt | IsSge | IsSlt | IsSle.

Definition opposite (c : condition) : condition :=
  match c with
  | IsEq => IsNe | IsNe => IsEq | IsGt => IsLe | IsLe => IsGt | IsGe => IsLt | IsLt => IsGe
  | IsSgt => IsSle | IsSle => IsSgt | IsSge => IsSlt | IsSlt => IsSge
  end.

Definition holds (c : condition) (w a b : Z) : bool :=
  match c with
  | IsEq => wrap w a =? wrap w b
  | IsNe => negb (wrap w a =? wrap w b)
  | IsGt => wrap w b <? wrap w a
  | IsGe => wrap w b <=? wrap w a
  | IsLt => wrap w a <? wrap w b
  | IsLe => wrap w a <=? wrap w b
  | IsSgt => signed w b <? signed w a
  | IsSge => signed w b <=? signed w a
  | IsSlt => signed w a <? signed w b
  | IsSle => signed w a <=? signed w b
  end.

(** A branch out of the region, and one to its end. *)
Inductive branch :=
| LeaveIf (c : condition) (w : width) (a : reg) (o : operand)
| SkipIf (c : condition) (w : width) (a : reg) (o : operand).

(** [Unless] is a branch over one instruction, and that instruction. [Leave] is the branches that a region ends with. *)
Inductive insn :=
| Alu (op : alu) (w : width) (d : reg) (s : operand)
| Neg (w : width) (d : reg)
| Load (n : nat) (d b : reg) (o : Z)
| Store (n : nat) (b : reg) (o : Z) (v : operand)
| Swap (n : nat) (d : reg)
| Unless (c : condition) (w : width) (a : reg) (o : operand) (i : insn)
| Leave (bs : list branch).

Definition value (s : regs) (o : operand) : Z := match o with Reg r => s r | Imm z => wrap 64 z end.

(** The meaning at a width: operands cut to it, the result too, and so zero-extended. Shift amounts are taken modulo
    the width. *)
Definition apply (op : alu) (w a b : Z) : Z :=
  match op with
  | Mov => wrap w b
  | Add => wrap w (wrap w a + wrap w b)
  | Sub => wrap w (wrap w a - wrap w b)
  | Mul => wrap w (wrap w a * wrap w b)
  | And => Z.land (wrap w a) (wrap w b)
  | Or => Z.lor (wrap w a) (wrap w b)
  | Xor => Z.lxor (wrap w a) (wrap w b)
  | Lsh => shl w (wrap w a) (wrap w b mod w)
  | Rsh => lshr w (wrap w a) (wrap w b mod w)
  | Arsh => ashr w (wrap w a) (wrap w b mod w)
  end.

Fixpoint leaves (bs : list branch) (s : regs) : bool :=
  match bs with
  | [] => false
  | LeaveIf c w a o :: bs => if holds c (bits w) (s a) (value s o) then true else leaves bs s
  | SkipIf c w a o :: bs => if holds c (bits w) (s a) (value s o) then false else leaves bs s
  end.

Fixpoint step (i : insn) (s : regs) : regs :=
  match i with
  | Alu op w d o => update s d (apply op (bits w) (s d) (value s o))
  | Neg w d => update s d (wrap (bits w) (- wrap (bits w) (s d)))
  | Load n d b o => update s d (load n (s b + o) s)
  | Store n b o v => store n (s b + o) (value s v) s
  | Swap n d => update s d (swap n (s d))
  | Unless c w a o i => if holds c (bits w) (s a) (value s o) then s else step i s
  | Leave bs => update s Left (Z.b2z (leaves bs s))
  end.

Definition run (code : list insn) (s : regs) : regs := fold_left (fun s i => step i s) code s.

(** A template lists the operations and widths that may stand at its place. *)
Inductive template :=
| TAlu (ops : list alu) (ws : list width) (d : reg) (s : operand)
| TNeg (ws : list width) (d : reg)
| TLoad (n : nat) (d b : reg) (o : Z)
| TStore (n : nat) (b : reg) (o : Z) (v : operand)
| TSwap (n : nat) (d : reg)
| TUnless (c : condition) (w : width) (a : reg) (o : operand) (t : template)
| TLeave (bs : list branch).

Inductive instance : template -> insn -> Prop :=
| instance_alu ops ws d s op w : In op ops -> In w ws -> instance (TAlu ops ws d s) (Alu op w d s)
| instance_neg ws d w : In w ws -> instance (TNeg ws d) (Neg w d)
| instance_load n d b o : instance (TLoad n d b o) (Load n d b o)
| instance_store n b o v : instance (TStore n b o v) (Store n b o v)
| instance_swap n d : instance (TSwap n d) (Swap n d)
| instance_unless c w a o t i : instance t i -> instance (TUnless c w a o t) (Unless c w a o i)
| instance_leave bs : instance (TLeave bs) (Leave bs).

(** Instances of a list of templates. *)
Definition instances (form : list template) (code : list insn) : Prop := Forall2 instance form code.

(** One access to memory: [n] bytes at an address that was found from the register [base]. *)
Record access := { is_write : bool; size : nat; base : reg; address : Z }.

Definition accesses (i : insn) (s : regs) : list access :=
  let at_address write n b o := [{| is_write := write; size := n; base := b; address := s b + o |}] in
  match i with
  | Load n _ b o => at_address false n b o
  | Store n b o _ => at_address true n b o
  | Unless c w a o (Load n _ b k) => if holds c (bits w) (s a) (value s o) then [] else at_address false n b k
  | Unless c w a o (Store n b k _) => if holds c (bits w) (s a) (value s o) then [] else at_address true n b k
  | _ => []
  end.

(** All accesses of a run, in their order. *)
Fixpoint trace (code : list insn) (s : regs) : list access :=
  match code with [] => [] | i :: code => accesses i s ++ trace code (step i s) end.

(** Several numbers: the least of them, whether they are near one another, and the set of them, counted from the least. *)
Definition least (ks : list Z) : Z := match ks with [] => 0 | k :: ks => fold_right Z.min k ks end.
Definition within (n : Z) (ks : list Z) : Prop := Forall (fun k => k - least ks < n) ks.
Definition set_from (m : Z) (ks : list Z) : Z := fold_right (fun k s => Z.lor (2 ^ (k - m)) s) 0 ks.
Definition set_of (ks : list Z) : Z := set_from (least ks) ks.
